package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/deploy/lab/internal/site"
)

func exportChecks() []check {
	return []check{
		{"a file of a workspace's image is exported through the log of a pod on a real node, and the pod goes", exportBrings},
		{"a file of a megabyte is exported whole, and a folder that no log can carry is refused as 413", exportIsWhole},
		{"what an image lacks is told as 404, and check-image says what a workspace would lack", exportLacks},
	}
}

// export asks for a path of the workspaces' image on the first node, as the lab has no scheduler.
func (w *walk) export(ctx context.Context, status int, path string) (answer, error) {
	return w.want(ctx, status, http.MethodPost, "/images/export", map[string]any{"image": site.WorkspaceImage, "path": path, "node": w.node().Name})
}

// exportsGone waits until no pod of an export is left.
func (w *walk) exportsGone(ctx context.Context) error {
	return until(ctx, 30*time.Second, func(ctx context.Context) error {
		list, err := w.admin.CoreV1().Pods(site.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=ailab-export"})
		if err != nil {
			return err
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("pod %s is left", list.Items[0].Name)
		}
		return nil
	})
}

func exportBrings(ctx context.Context, w *walk) error {
	a, err := w.export(ctx, http.StatusOK, "/usr/sbin/sshd")
	if err != nil {
		return err
	}
	files := tar.NewReader(bytes.NewReader(a.raw))
	header, err := files.Next()
	if err != nil {
		return err
	}
	begin := make([]byte, 4)
	if _, err := io.ReadFull(files, begin); err != nil {
		return err
	}
	if header.Name != "usr/sbin/sshd" || header.Mode&0o111 == 0 || string(begin) != "\x7fELF" {
		return fmt.Errorf("it brought %s, mode %o, beginning with %q", header.Name, header.Mode, begin)
	}
	return w.exportsGone(ctx)
}

func exportIsWhole(ctx context.Context, w *walk) error {
	// What most folders of programs have is more than one log can carry.
	if _, err := w.export(ctx, http.StatusRequestEntityTooLarge, "/usr"); err != nil {
		return err
	}
	const atLeast = 1 << 20
	a, err := w.export(ctx, http.StatusOK, "/usr/bin/bash")
	if err != nil {
		return err
	}
	files := tar.NewReader(bytes.NewReader(a.raw))
	header, err := files.Next()
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, files)
	if err != nil {
		return err
	}
	if n != header.Size || n < atLeast {
		return fmt.Errorf("it brought %d of %d bytes", n, header.Size)
	}
	return w.exportsGone(ctx)
}

func exportLacks(ctx context.Context, w *walk) error {
	if _, err := w.export(ctx, http.StatusNotFound, "/usr/sbin/no-such-program"); err != nil {
		return err
	}
	program := filepath.Join(w.lab.Checkout, "bin", "config-server")
	out, err := exec.CommandContext(ctx, program, "check-image", site.WorkspaceImage, "--node", w.node().Name, "--server", w.site.URL(site.Service)).CombinedOutput()
	if err != nil || strings.Count(string(out), "it is there") != 2 {
		return fmt.Errorf("check-image: %w: %s", err, out)
	}
	return w.exportsGone(ctx)
}
