package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"config-server/internal/client"
	"config-server/internal/farm"
)

func podsCommand(in invocation) *cobra.Command {
	pods := groupCommand("pods", "Look at the workspaces")
	r := remoteFlags(in, pods)
	pods.AddCommand(podsList(r), podsStatus(r))
	return pods
}

func podsList(r *remote) *cobra.Command {
	return listing[client.Workspaces]{
		ask: func(ctx context.Context, c *client.Client) (client.Workspaces, error) { return c.Workspaces(ctx) },
		print: func(out io.Writer, answer client.Workspaces) error {
			table := newLines("USER", "POD", "NODE", "STAGE", "AGE", "GPUS", "DEVICES", "PORTS")
			for _, w := range answer.Workspaces {
				stage := w.Stage
				if w.Phase == "Terminating" {
					stage = "terminating"
				}
				table.add(w.User, w.Pod, or(w.Node), stage, r.age(w.CreatedAt), w.GPUs, or(devicesOf(w.GPUIndexes)), or(portsOf(w.Ports)))
			}
			return table.print(out)
		},
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List all workspaces",
		Long: `List all workspaces by user and age. DEVICES are the GPUs of the node whose device files the workspace has,
by index; PORTS are NodePorts with their purposes. With -o json the answer of GET /workspaces.` + remoteLong,
		Example: "  config-server pods list\n  config-server pods list -o json | jq -r '.workspaces[] | select(.ready | not) | .pod_name'",
	}, r)
}

// devicesOf lists indexes of GPUs.
func devicesOf(indexes []int) string {
	words := make([]string, len(indexes))
	for i, index := range indexes {
		words[i] = strconv.Itoa(index)
	}
	return strings.Join(words, ",")
}

// portsOf names each port by its purpose.
func portsOf(ports []client.Port) string {
	named := make([]string, len(ports))
	for i, p := range ports {
		named[i] = p.Purpose + ":" + strconv.Itoa(p.NodePort)
	}
	return strings.Join(named, ",")
}

// age is how long ago a time was, as kubectl tells it.
func (r *remote) age(since time.Time) string {
	now := time.Now
	if r.in.now != nil {
		now = r.in.now
	}
	return duration.HumanDuration(now().Sub(since))
}

func podsStatus(r *remote) *cobra.Command {
	command := &cobra.Command{
		Use:   "status USER",
		Short: "Tell how a user's workspace is, and why it failed",
		Long: `Tell of the operation on the user's workspace that is under way, else of the last one. With --watch each change is told
as it comes, until the workspace is ready, failed or gone; exit code 1 if it failed. Of a user without a workspace it
waits until there is one. With -o json the answer of GET /pods/{username}/status, with --watch one on each line.` + remoteLong,
		Example: "  config-server pods status kim\n  config-server pods status kim --watch\n  config-server pods status kim -o json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("it needs the name of one user")
			}
			return farm.CheckPossible(args[0])
		},
		ValidArgsFunction: r.complete(userNames),
	}
	form := formFlag(command)
	watch := command.Flags().BoolP("watch", "w", false, "tell each change until there is an outcome")
	command.RunE = func(command *cobra.Command, args []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		defer c.Close()
		if *watch {
			return watchStatus(command.Context(), c, args[0], r.in.out, *form)
		}
		status, err := c.Status(command.Context(), args[0])
		if err != nil {
			return failed(err)
		}
		if *form == formJSON {
			return failed(printJSON(r.in.out, status))
		}
		return failed(printStatus(r.in.out, status))
	}
	return command
}

func printStatus(out io.Writer, s client.Status) error {
	table := newLines("USER", "STAGE", "OPERATION", "POD", "NODE", "UPDATED", "MESSAGE")
	table.add(s.User, s.Stage, or(s.Operation), or(s.Pod), or(s.Node), orTime(s.UpdatedAt), or(s.Message))
	if err := table.print(out); err != nil {
		return err
	}
	return printWhy(out, s)
}

// printWhy tells code and detail of a failure.
func printWhy(out io.Writer, s client.Status) error {
	if s.Code == "" && s.Detail == "" {
		return nil
	}
	_, err := fmt.Fprintf(out, "\ncode: %s (docs/CODES.md tells what to do)\ndetail: %s\nrequest id: %s\n", or(s.Code), or(printableLines(s.Detail)), or(s.RequestID))
	return err
}

// stageWidth is the length of the longest stage.
const stageWidth = 20

// watchStatus prints each state of a user's workspace. It fails if the workspace does.
func watchStatus(ctx context.Context, c *client.Client, user string, out io.Writer, form form) error {
	begun := false
	last, err := c.Watch(ctx, user, func(s client.Status) error {
		if form == formJSON {
			return json.NewEncoder(out).Encode(s)
		}
		if !begun {
			begun = true
			if _, err := fmt.Fprintf(out, "%s  %s  MESSAGE\n", text.Pad("UPDATED", stampWidth, ' '), text.Pad("STAGE", stageWidth, ' ')); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(out, "%s  %s  %s\n", text.Pad(orTime(s.UpdatedAt), stampWidth, ' '), text.Pad(s.Stage, stageWidth, ' '), or(printable(s.Message)))
		return err
	})
	if err != nil {
		return failed(err)
	}
	if form == formTable {
		if err := printWhy(out, last); err != nil {
			return failed(err)
		}
	}
	return found(last.Stage == client.StageFailed)
}

// stampWidth is the length of a time to the second, in UTC.
const stampWidth = len("2006-01-02T15:04:05Z")

// orTime is a time of the service to the second, or none.
func orTime(stamp *string) string {
	if stamp == nil {
		return none
	}
	t, err := time.Parse(time.RFC3339, *stamp)
	if err != nil {
		return printable(*stamp)
	}
	return t.UTC().Format(time.RFC3339)
}
