package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"config-server/internal/testkit"
)

// typed runs a command line and returns what it printed.
func typed(ctx context.Context, environ []string, args ...string) (code int, stdout, stderr string) {
	var out, errors bytes.Buffer
	code = run(ctx, invocation{args: args, environ: environ, out: &out, errors: &errors})
	return code, out.String(), errors.String()
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args   []string
		code   int
		out    string // text on standard output
		errors string // text on standard error
	}{
		"help":                        {[]string{"help"}, exitOK, "The service:", ""},
		"-h":                          {[]string{"-h"}, exitOK, "The service:", ""},
		"help of a subcommand":        {[]string{"help", "users", "list"}, exitOK, "config-server users list [flags]", ""},
		"help of nothing":             {[]string{"help", "nothing"}, exitUsage, "", `no subcommand "nothing"`},
		"help of too much":            {[]string{"help", "version", "more"}, exitUsage, "", `no subcommand "version more"`},
		"version":                     {[]string{"version"}, exitOK, "VERSION  REVISION  GO\ndev ", ""},
		"version in JSON":             {[]string{"version", "-o", "json"}, exitOK, `"version": "dev",`, ""},
		"--version":                   {[]string{"--version"}, exitOK, "config-server version dev\n", ""},
		"version takes nothing":       {[]string{"version", "x"}, exitUsage, "", "unexpected argument"},
		"serve -h":                    {[]string{"serve", "-h"}, exitOK, "config-server serve", ""},
		"serve takes nothing":         {[]string{"serve", "x"}, exitUsage, "", "unexpected argument"},
		"check takes nothing":         {[]string{"check", "x"}, exitUsage, "", "unexpected argument"},
		"audit -h":                    {[]string{"audit", "-h"}, exitOK, "-o, --output FORM", ""},
		"another form":                {[]string{"audit", "-o", "xml"}, exitUsage, "", "it has to be table or json"},
		"a long flag with one dash":   {[]string{"reconcile", "-dry-run"}, exitUsage, "", "has two dashes"},
		"a flag of another":           {[]string{"check", "--dry-run"}, exitUsage, "", "unknown flag: --dry-run"},
		"unknown":                     {[]string{"serv"}, exitUsage, "", "Did you mean this?\n\tserve"},
		"serve without configuration": {nil, exitUsage, "", "NAS_SSH_HOST"},
		"check without configuration": {[]string{"check"}, exitUsage, "", "NFS_SERVER"},
		"audit without configuration": {[]string{"audit"}, exitUsage, "", "NAS_SSH_USER"},
		"users of nothing":            {[]string{"users"}, exitUsage, "", "it needs a subcommand: list"},
		"users of something else":     {[]string{"users", "lst"}, exitUsage, "", `unknown subcommand "lst": there is list`},
		"pods of nobody":              {[]string{"pods", "status"}, exitUsage, "", "the name of one user"},
		"pods of two":                 {[]string{"pods", "status", "kim", "lee"}, exitUsage, "", "the name of one user"},
		"pods of an impossible name":  {[]string{"pods", "status", ".."}, exitUsage, "", "is a path"},
		"too many operations":         {[]string{"operations", "list", "--limit", "501"}, exitUsage, "", "is not in 1..500"},
		"operations of no number":     {[]string{"operations", "list", "--limit", "x"}, exitUsage, "", `"x"`},
		"operations of a path":        {[]string{"operations", "list", "--user", "a/b"}, exitUsage, "", "--user: "},
		"completion of no shell":      {[]string{"completion"}, exitUsage, "", "bash, fish, zsh"},
		"completion of another shell": {[]string{"completion", "powershell"}, exitUsage, "", "bash, fish, zsh"},
		"a token in the arguments":    {[]string{"users", "list", "--token", "secret"}, exitUsage, "", "unknown flag: --token\n"},
		"what completes a subcommand": {[]string{"__complete", "gro"}, exitOK, "groups\tLook at the groups", ""},
		"what completes a form":       {[]string{"__complete", "audit", "-o", ""}, exitOK, "table\njson\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errors := typed(t.Context(), nil, tc.args...)
			if code != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(errors, tc.errors) {
				t.Errorf("code %d\n%s\n%s", code, out, errors)
			}
			if code == exitUsage && out != "" {
				t.Errorf("a wrong command line prints on standard output: %s", out)
			}
		})
	}
}

func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for shell, text := range map[string]string{"bash": "complete -o default", "zsh": "#compdef config-server", "fish": "complete -c config-server"} {
		code, out, errors := typed(t.Context(), nil, "completion", shell)
		if code != exitOK || !strings.Contains(out, text) || errors != "" {
			t.Errorf("%s: exit %d, %d bytes, %s", shell, code, len(out), errors)
		}
	}
}

// The help of every subcommand stands in a golden file, so that a change of the command line is seen.
func TestHelp(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	var visit func(command *cobra.Command)
	visit = func(command *cobra.Command) {
		path := strings.Fields(command.CommandPath())[1:]
		code, out, errors := typed(t.Context(), nil, append(path, "--help")...)
		if code != exitOK || errors != "" {
			t.Errorf("%v: exit %d, %s", path, code, errors)
		}
		fmt.Fprintf(&all, "$ %s --help\n%s\n", command.CommandPath(), out)
		if command.Runnable() && command.Example == "" && !command.HasSubCommands() && command.Name() != "help" {
			t.Errorf("%s shows no example", command.CommandPath())
		}
		for _, c := range command.Commands() {
			if c.Name() != "completion" { // cobra's texts
				visit(c)
			}
		}
	}
	visit(rootCommand(invocation{}))
	testkit.Golden(t, "testdata/help.txt", []byte(all.String()))
	for line := range strings.Lines(all.String()) {
		if len(line) > 150 {
			t.Errorf("too long for a terminal: %s", line)
		}
	}
}
