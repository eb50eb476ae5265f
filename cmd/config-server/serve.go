package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"config-server/internal/app"
	"config-server/internal/cluster"
	"config-server/internal/config"
	"config-server/internal/obs"
)

func serveCommand(in invocation) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Serve the API (the default)",
		Long: `Serve the API until a signal ends it. The configuration is the environment alone; README.md lists its
variables. The log goes to standard error, one JSON object a line.`,
		Example: "  config-server serve\n  LISTEN_ADDR=127.0.0.1:8001 LOG_LEVEL=debug config-server serve",
		Args:    noArguments,
		RunE:    func(command *cobra.Command, _ []string) error { return serve(command.Context(), in) },
	}
}

// serve runs the service until a signal ends it.
func serve(ctx context.Context, in invocation) error {
	c, err := loadConfig(in)
	if err != nil {
		return err
	}
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // Load has checked it
	log := obs.NewLogger(in.errors, level)
	adoptLibraries(log)
	keepHeapSmall(in.environ)
	log.Info("starting", "version", build().Version, "config", c.Redacted())

	service, err := app.New(app.Options{Config: c, Log: log, Build: build()})
	if err != nil {
		return failed(fmt.Errorf("cannot start: %w", err))
	}
	go handBackStart(ctx, log)
	if err := service.Run(ctx); err != nil {
		log.Error("ended badly", "error", err)
		return &ending{code: exitFailed}
	}
	log.Info("ended")
	return nil
}

// adoptLibraries has libraries that log by themselves do so in the service's log, as lines like the
// others: those that use the standard library's logger, and the Kubernetes client.
func adoptLibraries(log *slog.Logger) {
	slog.SetDefault(log)
	cluster.AdoptLibrary(log)
}

// loadConfig reads the configuration. The error has all of its faults and ends a subcommand with
// exitUsage.
func loadConfig(in invocation) (config.Config, error) {
	c, err := config.Load(in.environ)
	if err != nil {
		return c, &ending{exitUsage, fmt.Errorf("the configuration is wrong:\n%w", err)}
	}
	return c, nil
}
