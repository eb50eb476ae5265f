// Command config-server hands every approved user of a GPU farm a workspace. README.md tells what
// it does; "config-server help" lists its subcommands.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Exit codes of every subcommand.
const (
	exitOK     = 0
	exitFailed = 1 // it ran and failed, or found something
	exitUsage  = 2 // the command line or the configuration is wrong
)

// invocation is what a subcommand gets from its surroundings.
type invocation struct {
	args    []string
	environ []string
	out     io.Writer
	errors  io.Writer
}

type command struct {
	name    string
	summary string
	// flags says that it reads arguments, its own -h among them; the others take none.
	flags bool
	run   func(ctx context.Context, in invocation) int
}

func commands() []command {
	return []command{
		{"serve", "serve the API; configured by the environment alone (the default)", false, serve},
		{"check", "read the configuration and try each outside part", false, check},
		{"audit", "compare ledger, homes, table and cluster; change nothing (-o table|json)", true, runAudit},
		{"reconcile", "mend by hand what was left over (-dry-run: only show it)", true, runReconcile},
		{"demo", "run the main journey on stand-ins inside this process (-serve: stay up)", true, runDemo},
		{"version", "print the version", false, printVersion},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, invocation{args: os.Args[1:], environ: os.Environ(), out: os.Stdout, errors: os.Stderr})
	stop()
	os.Exit(code)
}

// run finds the subcommand; without one it is serve.
func run(ctx context.Context, in invocation) int {
	name := "serve"
	if len(in.args) > 0 {
		name, in.args = in.args[0], in.args[1:]
	}
	switch name {
	case "help", "-h", "--help":
		fmt.Fprint(in.out, usage())
		return exitOK
	case "-version", "--version":
		name = "version"
	}
	for _, c := range commands() {
		if c.name != name {
			continue
		}
		if len(in.args) > 0 && !c.flags && (in.args[0] == "-h" || in.args[0] == "--help") {
			fmt.Fprintf(in.out, "Usage: config-server %s\n\n%s\n", c.name, c.summary)
			return exitOK
		}
		if len(in.args) > 0 && !c.flags {
			fmt.Fprintf(in.errors, "config-server %s: unexpected argument %q: it takes none\n", c.name, in.args[0])
			return exitUsage
		}
		return c.run(ctx, in)
	}
	fmt.Fprintf(in.errors, "config-server: unknown subcommand %q\n\n%s", name, usage())
	return exitUsage
}

func usage() string {
	var b strings.Builder
	b.WriteString("Usage: config-server [SUBCOMMAND] [flags]\n\nSubcommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-10s %s\n", c.name, c.summary)
	}
	b.WriteString("\nExit codes: 0 all well, 1 it failed or found something, 2 wrong command line or configuration.\n" +
		"The configuration is the environment; README.md lists its variables.\n")
	return b.String()
}
