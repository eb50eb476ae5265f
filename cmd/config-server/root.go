package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Groups of subcommands, as help lists them.
const (
	groupService = "service"
	groupMend    = "mend"
	groupLook    = "look"
)

const rootLong = `config-server hands every approved user of a GPU farm a workspace.

Without a subcommand it serves the API. The configuration of serve, check, audit, reconcile and controller is the
environment; README.md lists its variables. The subcommands that look at a running service ask it over HTTP.

Exit codes of every subcommand:
  0  all is well
  1  it failed, or it found something (check, audit, reconcile, pods status --watch, projects check, check-image)
  2  the command line or the configuration is wrong`

const rootExample = `  config-server                                # serve, configured by the environment
  config-server demo --serve                   # the same on stand-ins, with nothing installed
  config-server check                          # try each outside part
  config-server audit -o json                  # what does not fit together, for a machine
  config-server users list --server http://127.0.0.1:8000
  source <(config-server completion bash)      # complete subcommands and flags in this shell`

// rootCommand builds the whole command line. It leaves cobra's templates alone: setting one brings in
// text/template, for which the linker has to keep every method of every type, 40 MB of them.
func rootCommand(in invocation) *cobra.Command {
	serve := serveCommand(in)
	root := &cobra.Command{
		Use:     "config-server",
		Short:   "Accounts, homes and workspaces of a GPU farm",
		Long:    rootLong,
		Example: rootExample,
		Version: build().Version,
		RunE:    serve.RunE,
		// run prints errors, with the exit code that belongs to them.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(in.out) // before completion is made, which keeps it
	root.SetErr(in.errors)
	root.AddGroup(
		&cobra.Group{ID: groupService, Title: "The service:"},
		&cobra.Group{ID: groupMend, Title: "Looking after a farm, configured as the service is:"},
		&cobra.Group{ID: groupLook, Title: "Looking at a running service:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupService, serve, demoCommand(in), versionCommand(in))
	add(groupMend, checkCommand(in), auditCommand(in), reconcileCommand(in), controllerCommand(in))
	add(groupLook, usersCommand(in), groupsCommand(in), podsCommand(in), operationsCommand(in), nodesCommand(in), gpuOptionsCommand(in), imagesCommand(in), checkImageCommand(in), projectsCommand(in))
	root.SetHelpCommand(helpCommand(root))
	root.SetFlagErrorFunc(explainFlag)
	completeShells(root)
	return root
}

// explainFlag tells who writes a long name with one dash, as other programs have it, to write two.
func explainFlag(_ *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedShortnames()) > 1 {
		return fmt.Errorf("%w: a flag with a long name has two dashes", err)
	}
	return err
}

// noArguments is for subcommands that take flags only.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q", args[0])
	}
	return nil
}

// needSubcommand is the work of a subcommand that only has others, and so none.
func needSubcommand(command *cobra.Command, args []string) error {
	var names []string
	for _, c := range command.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if len(args) > 0 {
		return fmt.Errorf("unknown subcommand %q: there is %s", args[0], strings.Join(names, ", "))
	}
	return fmt.Errorf("it needs a subcommand: %s", strings.Join(names, ", "))
}

// helpCommand is cobra's, but for an unknown topic being an error.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [SUBCOMMAND]",
		Short: "Tell how a subcommand is called",
		RunE: func(_ *cobra.Command, args []string) error {
			topic, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return fmt.Errorf("there is no subcommand %q", strings.Join(args, " "))
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}

// completeShells has completion for the shells of the machines on which the service runs.
func completeShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd("completion")
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args, c.RunE = nil, needSubcommand
		for _, shell := range c.Commands() {
			if shell.Name() == "powershell" {
				c.RemoveCommand(shell)
			}
		}
	}
}
