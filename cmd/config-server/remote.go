package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"config-server/internal/client"
)

// defaultServer is where a service listens unless it is told otherwise, seen from its own machine.
const defaultServer = "http://127.0.0.1:8000"

const remoteLong = `

The service is asked over HTTP. Its address is --server, else the variable CONFIG_SERVER_URL, else
` + defaultServer + `. If it wants a token, that is the content of the file --token-file, else the variable API_TOKEN.`

// remote says which service is asked.
type remote struct {
	in        invocation
	server    string
	tokenFile string
}

// remoteFlags gives a group of subcommands the flags that name the service.
func remoteFlags(in invocation, command *cobra.Command) *remote {
	r := &remote{in: in}
	flags := command.PersistentFlags()
	flags.StringVar(&r.server, "server", "", "`ADDRESS` of the service (default CONFIG_SERVER_URL, else "+defaultServer+")")
	flags.StringVar(&r.tokenFile, "token-file", "", "`FILE` with the service's API_TOKEN (default the variable API_TOKEN)")
	return r
}

// client builds the client. An address or a token file that is wrong is a wrong command line.
func (r *remote) client() (*client.Client, error) {
	opts := client.Options{URL: r.server, Token: r.in.getenv("API_TOKEN")}
	if opts.URL == "" {
		opts.URL = r.in.getenv("CONFIG_SERVER_URL")
	}
	if opts.URL == "" {
		opts.URL = defaultServer
	}
	if r.tokenFile != "" {
		text, err := os.ReadFile(r.tokenFile)
		if err != nil {
			return nil, &ending{exitUsage, fmt.Errorf("read the token: %w", err)}
		}
		if opts.Token = strings.TrimSpace(string(text)); opts.Token == "" {
			return nil, &ending{exitUsage, fmt.Errorf("read the token: %s is empty", r.tokenFile)}
		}
	}
	c, err := client.New(opts)
	if err != nil {
		return nil, &ending{exitUsage, err}
	}
	return c, nil
}

// groupCommand is a subcommand that only has others.
func groupCommand(use, short string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Long:  short + "." + remoteLong,
		RunE:  needSubcommand,
	}
}

// listing is a subcommand without arguments that asks once and prints the answer.
type listing[T any] struct {
	ask   func(context.Context, *client.Client) (T, error)
	print func(io.Writer, T) error
}

// on gives the subcommand its -o and its work.
func (l listing[T]) on(command *cobra.Command, r *remote) *cobra.Command {
	command.Args = noArguments
	return question[T]{
		ask:   func(ctx context.Context, c *client.Client, _ []string) (T, error) { return l.ask(ctx, c) },
		print: l.print,
	}.on(command, r)
}

// question is a subcommand that asks once and prints the answer as it is, or for people.
type question[T any] struct {
	ask   func(ctx context.Context, c *client.Client, args []string) (T, error)
	print func(io.Writer, T) error
	// found reports whether the answer tells of something that ends the subcommand with exitFailed; nil = never.
	found func(T) bool
}

// on gives the subcommand its -o and its work.
func (q question[T]) on(command *cobra.Command, r *remote) *cobra.Command {
	form := formFlag(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		c, err := r.client()
		if err != nil {
			return err
		}
		defer c.Close()
		answer, err := q.ask(command.Context(), c, args)
		if err != nil {
			return failed(err)
		}
		if *form == formJSON {
			err = printJSON(r.in.out, answer)
		} else {
			err = q.print(r.in.out, answer)
		}
		if err != nil {
			return failed(fmt.Errorf("print the answer: %w", err))
		}
		return found(q.found != nil && q.found(answer))
	}
	return command
}
