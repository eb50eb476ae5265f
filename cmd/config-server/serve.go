package main

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"

	"config-server/internal/app"
	"config-server/internal/config"
	"config-server/internal/obs"
)

// serve runs the service until a signal ends it.
func serve(ctx context.Context, in invocation) int {
	c, ok := loadConfig(in)
	if !ok {
		return exitUsage
	}
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // Load has checked it
	log := obs.NewLogger(in.errors, level)
	keepHeapSmall(in.environ)
	log.Info("starting", "version", build().Version, "config", c.Redacted())

	service, err := app.New(app.Options{Config: c, Log: log, Build: build()})
	if err != nil {
		fmt.Fprintf(in.errors, "config-server: cannot start: %v\n", err)
		return exitFailed
	}
	if err := service.Run(ctx); err != nil {
		log.Error("ended badly", "error", err)
		return exitFailed
	}
	log.Info("ended")
	return exitOK
}

// gcPercent is how much of the live heap may be garbage before it is collected. Memory is what the
// pod's limit counts, and at the service's rate of allocation collections cost next to nothing.
const gcPercent = 40

// keepHeapSmall sets gcPercent unless the environment says otherwise.
func keepHeapSmall(environ []string) {
	if !slices.ContainsFunc(environ, func(line string) bool { return strings.HasPrefix(line, "GOGC=") }) {
		debug.SetGCPercent(gcPercent)
	}
}

// loadConfig reads the configuration and prints all of its faults.
func loadConfig(in invocation) (config.Config, bool) {
	c, err := config.Load(in.environ)
	if err != nil {
		fmt.Fprintf(in.errors, "config-server: the configuration is wrong:\n%v\n", err)
		return c, false
	}
	return c, true
}
