// Command config-server hands every approved user of a GPU farm a workspace. README.md tells what
// it does; "config-server help" lists its subcommands.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
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
	now     func() time.Time // nil = time.Now; ages are told by it
}

// getenv is the variable of the environment, "" if it is not set.
func (in invocation) getenv(name string) string {
	for _, line := range in.environ {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value
		}
	}
	return ""
}

// ending is how a subcommand ends that did not go well. Any other error of a subcommand is a wrong
// command line.
type ending struct {
	code int
	err  error // nil if what there is to say has been said
}

// Error is the text of err.
func (e *ending) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap gives err.
func (e *ending) Unwrap() error { return e.err }

// failed ends a subcommand with exitFailed and an error; it is nil without one.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return &ending{exitFailed, err}
}

// found ends a subcommand with exitFailed if it has found something, which it has told already.
func found(anything bool) error {
	if !anything {
		return nil
	}
	return &ending{code: exitFailed}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, invocation{args: os.Args[1:], environ: os.Environ(), out: os.Stdout, errors: os.Stderr})
	stop()
	os.Exit(code)
}

// run runs the subcommand that the arguments name and returns its exit code.
func run(ctx context.Context, in invocation) int {
	root := rootCommand(in)
	root.SetArgs(append([]string{}, in.args...)) // nil would be the arguments of this process
	command, err := root.ExecuteContextC(ctx)
	var end *ending
	switch {
	case err == nil:
		return exitOK
	case !errors.As(err, &end):
		fmt.Fprintf(in.errors, "%s: %v\n%q tells how it is called.\n", command.CommandPath(), err, command.CommandPath()+" --help")
		return exitUsage
	case end.err != nil:
		fmt.Fprintf(in.errors, "%s: %v\n", command.CommandPath(), end.err)
	}
	return end.code
}
