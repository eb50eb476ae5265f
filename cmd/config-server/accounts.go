package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"config-server/internal/client"
)

func usersCommand(in invocation) *cobra.Command {
	users := groupCommand("users", "Look at the accounts")
	r := remoteFlags(in, users)
	users.AddCommand(listing[client.Users]{
		ask: func(ctx context.Context, c *client.Client) (client.Users, error) { return c.Users(ctx) },
		print: func(out io.Writer, answer client.Users) error {
			table := newLines("NAME", "UID", "GID", "GECOS", "HOME", "SHELL")
			for _, u := range answer.Users {
				table.add(u.Name, u.UID, u.GID, or(u.Gecos), u.Home, or(u.Shell))
			}
			return table.print(out)
		},
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List all accounts",
		Long: `List all accounts in the order of the passwd file, those of the base system included.
With -o json the answer of GET /accounts/users.` + remoteLong,
		Example: "  config-server users list\n  config-server users list -o json --server http://config.example:30082",
	}, r))
	return users
}

func groupsCommand(in invocation) *cobra.Command {
	groups := groupCommand("groups", "Look at the groups")
	r := remoteFlags(in, groups)
	groups.AddCommand(listing[client.Groups]{
		ask: func(ctx context.Context, c *client.Client) (client.Groups, error) { return c.Groups(ctx) },
		print: func(out io.Writer, answer client.Groups) error {
			table := newLines("NAME", "GID", "MEMBERS")
			for _, g := range answer.Groups {
				table.add(g.Name, g.GID, or(strings.Join(g.Members, ",")))
			}
			return table.print(out)
		},
	}.on(&cobra.Command{
		Use:   "list",
		Short: "List all groups with their members",
		Long: `List all groups in the order of the group file, those of the base system included. Members are the users on the
group's line; those whose primary group it is need not be among them. With -o json the answer of GET /accounts/groups.` + remoteLong,
		Example: "  config-server groups list\n  config-server groups list -o json --token-file ./token",
	}, r))
	return groups
}
