package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

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

// versionReport is what version prints with -o json.
type versionReport struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

func versionCommand(in invocation) *cobra.Command {
	command := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  config-server version\n  config-server version -o json",
		Args:    noArguments,
	}
	form := formFlag(command)
	command.RunE = func(*cobra.Command, []string) error {
		b := build()
		if *form == formJSON {
			return failed(printJSON(in.out, versionReport{b.Version, b.Revision, b.Go}))
		}
		table := newLines("VERSION", "REVISION", "GO")
		table.add(b.Version, or(b.Revision), b.Go)
		return failed(table.print(in.out))
	}
	return command
}
