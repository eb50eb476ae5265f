package main

import (
	"cmp"
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"config-server/internal/client"
)

func gpuOptionsCommand(in invocation) *cobra.Command {
	options := groupCommand("gpu-options", "Look at the GPUs that workspaces can ask for")
	r := remoteFlags(in, options)
	options.AddCommand(listing[client.GPUOptions]{
		ask:   func(ctx context.Context, c *client.Client) (client.GPUOptions, error) { return c.GPUOptions(ctx) },
		print: printGPUOptions,
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List the GPUs that workspaces can ask for",
		Long: `List the GPUs that workspaces can ask for, by id: what create-pod takes as gpu_option. With -o json the answer of
GET /gpu-options.` + remoteLong,
		Example: "  config-server gpu-options list\n  config-server gpu-options list -o json | jq -r '.options[] | select(.free > 0).id'",
	}, r))
	return options
}

func printGPUOptions(out io.Writer, answer client.GPUOptions) error {
	table := newLines("ID", "DRIVER", "RESOURCE", "MODEL", "SOURCE", "FREE", "TOTAL")
	table.right("FREE", "TOTAL")
	for _, o := range answer.Options {
		table.add(o.ID, o.Driver, cmp.Or(o.Resource, none), cmp.Or(o.Model, none), o.Source, counted(o.Free), counted(o.Total))
	}
	if err := table.print(out); err != nil {
		return err
	}
	return printWarnings(out, answer.Warnings)
}

// counted is a count, or that nobody knows it.
func counted(n *int64) string {
	if n == nil {
		return none
	}
	return strconv.FormatInt(*n, 10)
}
