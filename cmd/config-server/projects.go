package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"config-server/internal/client"
	"config-server/internal/farm"
)

func projectsCommand(in invocation) *cobra.Command {
	teams := groupCommand("projects", "Look at projects and their queues")
	r := remoteFlags(in, teams)
	teams.AddCommand(listing[client.Projects]{
		ask:   func(ctx context.Context, c *client.Client) (client.Projects, error) { return c.Projects(ctx) },
		print: printProjects,
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List the projects with their members, nodes and quotas",
		Long: `List the projects by name. MANAGERS and MEMBERS are names, NODES how many are bound. With -o json the answer of
GET /projects.` + remoteLong,
		Example: "  config-server projects list\n  config-server projects list -o json | jq -r '.projects[] | select(.nodes == []).name'",
	}, r), projectsCheck(r), projectsQueue(r))
	return teams
}

func projectsCheck(r *remote) *cobra.Command {
	return question[client.ProjectCheck]{
		ask: func(ctx context.Context, c *client.Client, args []string) (client.ProjectCheck, error) {
			return c.CheckProject(ctx, args[0])
		},
		print: printCheck,
		found: func(check client.ProjectCheck) bool { return !check.OK },
	}.on(&cobra.Command{
		Use:   "check PROJECT",
		Short: "Tell why a project's queue has no nodes",
		Long: `Tell line by line what a project's queue needs, whether it is there, and what to do. A result is ok, partly (so for some
nodes), failed or unknown. Exit code 1 unless every line is ok. With -o json the answer of GET /projects/{project}/check.` + remoteLong,
		Example:           "  config-server projects check vision\n  config-server projects check vision -o json | jq -r '.lines[] | select(.result == \"failed\").todo'",
		Args:              oneProject,
		ValidArgsFunction: r.complete(projectNames),
	}, r)
}

func projectsQueue(r *remote) *cobra.Command {
	return question[client.ProjectQueue]{
		ask: func(ctx context.Context, c *client.Client, args []string) (client.ProjectQueue, error) {
			return c.ProjectQueue(ctx, args[0])
		},
		print: printQueue,
	}.on(&cobra.Command{
		Use:   "queue PROJECT",
		Short: "Tell what waits in a project's queue, and why",
		Long: `Tell which pods wait in a project's queue, the head first, and what blocks it. Without a queue the exit code is 1, with the
first thing that is missing. With -o json the answer of GET /projects/{project}/queue.` + remoteLong,
		Example:           "  config-server projects queue vision\n  config-server projects queue vision -o json | jq -r '.waiting[0].name'",
		Args:              oneProject,
		ValidArgsFunction: r.complete(projectNames),
	}, r)
}

// oneProject is for subcommands about one project.
func oneProject(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("it needs the name of one project")
	}
	return farm.CheckPossible(args[0])
}

func printProjects(out io.Writer, answer client.Projects) error {
	table := newLines("NAME", "MANAGERS", "MEMBERS", "NODES", "QUOTA")
	table.right("NODES")
	for _, p := range answer.Projects {
		byRole := map[string][]string{}
		for _, m := range p.Members {
			byRole[m.Role] = append(byRole[m.Role], m.Name)
		}
		nodes := none
		if p.Nodes != nil {
			nodes = fmt.Sprint(len(p.Nodes))
		}
		var quota []string
		for _, name := range slices.Sorted(maps.Keys(p.Quota)) {
			quota = append(quota, name+"="+p.Quota[name])
		}
		table.add(p.Name, or(strings.Join(byRole["manager"], ",")), or(strings.Join(byRole["member"], ",")), nodes, or(strings.Join(quota, ",")))
	}
	if err := table.print(out); err != nil {
		return err
	}
	return printWarnings(out, answer.Warnings)
}

func printCheck(out io.Writer, check client.ProjectCheck) error {
	table := newLines("CHECK", "RESULT", "WHAT IS SO", "WHAT TO DO")
	for _, l := range check.Lines {
		table.add(l.Name, l.Result, l.Text, or(l.Todo))
	}
	return table.print(out)
}

func printQueue(out io.Writer, queue client.ProjectQueue) error {
	table := newLines("POSITION", "POD", "NAMESPACE", "SINCE")
	for _, p := range queue.Waiting {
		table.add(p.Position, p.Name, p.Namespace, orTime(p.Since))
	}
	if err := table.print(out); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "\npriority %d, policy %s, nodes %s\n", queue.Priority, printable(or(queue.Policy)), printable(or(strings.Join(queue.Nodes, ",")))); err != nil {
		return err
	}
	for _, b := range queue.Blocked {
		if _, err := fmt.Fprintf(out, "%s: %s (%s: %s)\n", b.Type, b.Meaning, printable(or(b.Reason)), printable(or(b.Message))); err != nil {
			return err
		}
	}
	if !queue.Observed {
		_, err := fmt.Fprintln(out, "what runs the queue has not seen its present form yet")
		return err
	}
	return nil
}
