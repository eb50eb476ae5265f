package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"config-server/internal/client"
	"config-server/internal/farm"
)

// mostOperations is what the service lists at most.
const mostOperations = 500

func operationsCommand(in invocation) *cobra.Command {
	operations := groupCommand("operations", "Look at what was done to workspaces")
	r := remoteFlags(in, operations)
	operations.AddCommand(operationsList(r))
	return operations
}

func operationsList(r *remote) *cobra.Command {
	var user string
	var limit int
	command := listing[client.Operations]{
		ask: func(ctx context.Context, c *client.Client) (client.Operations, error) {
			return c.Operations(ctx, user, limit)
		},
		print: func(out io.Writer, answer client.Operations) error {
			table := newLines("STARTED", "OPERATION", "USER", "POD", "NODE", "STAGE", "CODE", "MESSAGE")
			for _, o := range answer.Operations {
				table.add(orTime(o.StartedAt), o.Kind, o.User, or(o.Pod), or(o.Node), o.Stage, or(o.Code), or(o.Message))
			}
			return table.print(out)
		},
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List creates, deletes and migrations, the newest first",
		Long: `List what creates, deletes and migrations of all replicas do and did, the newest first. With -o json the answer of
GET /operations, which also has each step with its time, what was undone, and why it failed.` + remoteLong,
		Example: "  config-server operations list\n  config-server operations list --user kim --limit 5\n  config-server operations list -o json",
	}, r)
	command.Args = func(command *cobra.Command, args []string) error {
		if limit < 1 || limit > mostOperations {
			return fmt.Errorf("--limit %d is not in 1..%d", limit, mostOperations)
		}
		if user != "" {
			if err := farm.CheckPossible(user); err != nil {
				return fmt.Errorf("--user: %w", err)
			}
		}
		return noArguments(command, args)
	}
	command.Flags().StringVar(&user, "user", "", "only those of this `USER`")
	command.Flags().IntVar(&limit, "limit", 100, "how many at most, up to 500")
	// The error says that the flag is not there or has a function already.
	_ = command.RegisterFlagCompletionFunc("user", r.complete(userNames))
	return command
}
