package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"config-server/internal/obs"
)

// version is set by the linker: -X main.version=v1.2.3.
var version = "dev"

// build says which program this is.
func build() obs.Build {
	b := obs.Build{Version: version, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				b.Revision = setting.Value
			}
		}
	}
	return b
}

func printVersion(_ context.Context, in invocation) int {
	b := build()
	fmt.Fprintf(in.out, "config-server %s %s\n", b.Version, b.Go)
	return exitOK
}
