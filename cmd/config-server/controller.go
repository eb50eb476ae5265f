package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"config-server/internal/app"
	"config-server/internal/config"
	"config-server/internal/obs"
)

func controllerCommand(in invocation) *cobra.Command {
	command := &cobra.Command{
		Use:   "controller",
		Short: "Have the cluster follow projects",
		Long: `Have the cluster follow projects until a signal ends it: labels of nodes, namespaces with what their queues need, quotas, rights.
It is configured by the environment as serve is, but needs PROJECT_*, NAMESPACE and CONTROLLER_LISTEN_ADDR alone. Of several instances
one works; the others wait for its Lease. The log goes to standard error, one JSON object a line.

With --dry-run nothing is written: each write becomes a line of what (create, patch, patch status, delete), which object, and the JSON.
A dry run takes no Lease.

Exit code 1 if it ended badly or, with --once, anything could not be done; 2 if the configuration is wrong.`,
		Example: "  config-server controller\n  config-server controller --once --dry-run",
		Args:    noArguments,
	}
	flags := command.Flags()
	once := flags.Bool("once", false, "look at everything once, without waiting for the Lease, and end")
	dryRun := flags.Bool("dry-run", false, "write nothing, print what would be written")
	command.RunE = func(command *cobra.Command, _ []string) error {
		c, err := config.LoadController(in.environ)
		if err != nil {
			return &ending{exitUsage, fmt.Errorf("the configuration is wrong:\n%w", err)}
		}
		var level slog.Level
		_ = level.UnmarshalText([]byte(c.LogLevel)) // LoadController has checked it
		opts := app.ControllerOptions{Once: *once, Log: obs.NewLogger(in.errors, level)}
		if *dryRun {
			opts.DryRun = in.out
		}
		adoptLibraries(opts.Log)
		keepHeapSmall(in.environ)
		return failed(app.RunController(command.Context(), c, opts))
	}
	return command
}
