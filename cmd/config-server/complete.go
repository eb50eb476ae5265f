package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"config-server/internal/client"
	"config-server/internal/farm"
)

// completionLimit bounds what a shell waits for names.
const completionLimit = 2 * time.Second

// complete completes one argument, or the value of a flag, with names that the service lists.
func (r *remote) complete(list func(context.Context, *client.Client) ([]string, error)) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := r.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(command.Context(), completionLimit)
		defer cancel()
		names, err := list(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// userNames are the users, those of the base system left out.
func userNames(ctx context.Context, c *client.Client) (names []string, err error) {
	list, err := c.Users(ctx)
	for _, u := range list.Users {
		if farm.ID(u.UID).InBand() {
			names = append(names, u.Name)
		}
	}
	return names, err
}

// projectNames are the projects.
func projectNames(ctx context.Context, c *client.Client) (names []string, err error) {
	list, err := c.Projects(ctx)
	for _, p := range list.Projects {
		names = append(names, p.Name)
	}
	return names, err
}

// imageNames are the images that are pinned or that workspaces run.
func imageNames(ctx context.Context, c *client.Client) (names []string, err error) {
	list, err := c.Images(ctx)
	for _, i := range list.Images {
		names = append(names, i.Image)
	}
	return names, err
}
