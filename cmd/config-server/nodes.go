package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"config-server/internal/client"
)

func nodesCommand(in invocation) *cobra.Command {
	nodes := groupCommand("nodes", "Look at the nodes")
	r := remoteFlags(in, nodes)
	nodes.AddCommand(listing[client.Nodes]{
		ask:   func(ctx context.Context, c *client.Client) (client.Nodes, error) { return c.Nodes(ctx) },
		print: printNodes,
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List all nodes with their load, and count NodePorts and GPUs",
		Long: `List all nodes by name. SCORE is the load by which nodes are chosen; lower is better. With -o json the answer of
GET /nodes.` + remoteLong,
		Example: "  config-server nodes list\n  config-server nodes list -o json | jq .nodeports.reachable.free",
	}, r))
	return nodes
}

func printNodes(out io.Writer, answer client.Nodes) error {
	table := newLines("NAME", "READY", "SCHEDULABLE", "SCORE", "WORKSPACES")
	table.right("SCORE")
	for _, n := range answer.Nodes {
		score := none
		if n.Score != nil {
			score = strconv.FormatFloat(*n.Score, 'f', 2, 64)
		}
		table.add(n.Name, n.Ready, n.Schedulable, score, n.Workspaces)
	}
	if err := table.print(out); err != nil {
		return err
	}
	if p := answer.NodePorts; p != nil {
		if _, err := fmt.Fprintf(out, "\nNodePorts: %d used, %d free; of those that callers outside the farm reach %d used, %d free\n",
			p.All.Used, p.All.Free, p.Reachable.Used, p.Reachable.Free); err != nil {
			return err
		}
	}
	for _, kind := range answer.GPUs {
		name := kind.Resource
		if kind.Model != "" {
			name += " " + kind.Model
		}
		if _, err := fmt.Fprintf(out, "GPUs %s: %d used, %d free\n", printable(name), kind.Used, kind.Free); err != nil {
			return err
		}
	}
	return printWarnings(out, answer.Warnings)
}

func printWarnings(out io.Writer, warnings []string) error {
	for _, warning := range warnings {
		if _, err := fmt.Fprintf(out, "warning: %s\n", printable(warning)); err != nil {
			return err
		}
	}
	return nil
}
