package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"config-server/internal/client"
)

// neededFiles are the programs that a workspace's image has to have, and what is lost without each.
var neededFiles = []struct{ path, lost string }{
	{"/usr/sbin/sshd", "nobody can log in"},
	{"/usr/local/bin/save_image.sh", "/migrate cannot save the workspace"},
}

// imageFile is what check-image found out about one file.
type imageFile struct {
	Path   string `json:"path"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// imageReport is what check-image prints with -o json.
type imageReport struct {
	Image string      `json:"image"`
	OK    bool        `json:"ok"`
	Files []imageFile `json:"files"`
}

// checkImageLimit bounds the look at one file: the pod may have to pull the image.
const checkImageLimit = 5 * time.Minute

func checkImageCommand(in invocation) *cobra.Command {
	command := &cobra.Command{
		Use:   "check-image IMAGE",
		Short: "Tell whether an image has what a workspace needs",
		Long: `Tell whether an image has what a workspace needs: sshd and the script that saves it. The service looks by exporting both
from a short-lived pod of the image; if it is pinned, the pinned one is looked at.

Exit code 1 if one is not there or cannot be run.` + remoteLong,
		Example: "  config-server check-image dguailab/decs:1.0\n  config-server check-image user-kim:latest --node farm5",
		Args:    oneImage,
	}
	r := remoteFlags(in, command)
	command.ValidArgsFunction = r.complete(imageNames)
	node := command.Flags().String("node", "", "`NAME` of the node whose image is looked into (default one that the scheduler chooses)")
	return question[imageReport]{
		ask: func(ctx context.Context, c *client.Client, args []string) (imageReport, error) {
			return checkImage(ctx, c, args[0], *node)
		},
		print: printImageReport,
		found: func(report imageReport) bool { return !report.OK },
	}.on(command, r)
}

func checkImage(ctx context.Context, c *client.Client, image, node string) (imageReport, error) {
	report := imageReport{Image: image, OK: true}
	for _, needed := range neededFiles {
		mode, err := lookInto(ctx, c, image, needed.path, node)
		file := imageFile{Path: needed.path, OK: true, Detail: "it is there"}
		var refusal *client.Refusal
		switch {
		case errors.As(err, &refusal) && refusal.Status == http.StatusNotFound:
			file.OK, file.Detail = false, "it is not there: "+needed.lost
		case err != nil:
			return report, err
		case mode&0o111 == 0:
			file.OK, file.Detail = false, fmt.Sprintf("it may not be run (mode %o): %s", mode, needed.lost)
		}
		report.OK = report.OK && file.OK
		report.Files = append(report.Files, file)
	}
	return report, nil
}

// lookInto exports a file and returns its mode. The tar is read to its end, which tells that it is whole.
func lookInto(ctx context.Context, c *client.Client, image, path, node string) (mode int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkImageLimit)
	defer cancel()
	content, err := c.Export(ctx, image, path, node)
	if err != nil {
		return 0, err
	}
	defer func() { _ = content.Close() }()
	header, err := tar.NewReader(content).Next()
	if err == nil {
		_, err = io.Copy(io.Discard, content)
	}
	if err != nil {
		return 0, fmt.Errorf("read %s of image %s: %w", path, image, err)
	}
	return header.Mode, nil
}

func printImageReport(out io.Writer, report imageReport) error {
	table := newLines("RESULT", "FILE", "DETAIL")
	for _, file := range report.Files {
		result := "ok"
		if !file.OK {
			result = "FAILED"
		}
		table.add(result, file.Path, file.Detail)
	}
	return table.print(out)
}
