package app

import (
	"context"
	"io"
	"log/slog"

	"config-server/internal/cluster"
	"config-server/internal/config"
	"config-server/internal/ledger"
	"config-server/internal/projects"
	"config-server/internal/projects/controller"
)

// ControllerOptions say how RunController works. Log is needed.
type ControllerOptions struct {
	Once   bool      // look at everything once and return
	DryRun io.Writer // gets a line for each write, and nothing is written; nil = writes are made
	Log    *slog.Logger
}

// RunController has the cluster follow projects, until the context is done or, with Once, everything has been looked at.
func RunController(ctx context.Context, c config.Config, opts ControllerOptions) error {
	rest, err := cluster.RESTConfig("")
	if err != nil {
		return err
	}
	settings := controller.Options{
		REST: rest, Namespace: c.Namespace, Listen: c.Controller.ListenAddr, DryRun: opts.DryRun, Log: opts.Log,
		Settings: projects.Settings{
			Keys: projectKeys(c.Projects), UserPrefix: c.Projects.UserPrefix, Reserved: c.ReservedNames(),
			QueueList: c.Controller.QueueList == config.QueueListByName, Isolation: projects.Isolation(c.Projects.Isolation),
		},
	}
	if c.Projects.Source == config.ProjectsOfLedger {
		// It is read only, so nothing is locked.
		groups, err := ledgerProjects(c.Projects, ledger.New(ledger.Options{Dir: c.Share.Dir, ReservedNames: c.Share.ReservedNames, Log: opts.Log}), opts.Log)
		if err != nil {
			return err
		}
		settings.Source = groups
	}
	controller.AdoptLibrary(opts.Log)
	if opts.Once {
		return controller.Once(ctx, settings)
	}
	return controller.Run(ctx, settings)
}
