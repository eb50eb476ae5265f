// Package recipe reads from the Dockerfile how an image is to be run, so that the images made with Docker and without it
// are run alike. What is in an image is the program's matter: COPY and RUN are not read.
package recipe

import (
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// Config is the configuration that the stage of that name gives an image, with args for the build's arguments. An
// instruction that is not known here, or a form of one, is an error.
func Config(dockerfile io.Reader, stage string, args map[string]string) (v1.Config, error) {
	parsed, err := parser.Parse(dockerfile)
	if err != nil {
		return v1.Config{}, fmt.Errorf("read the Dockerfile: %w", err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return v1.Config{}, fmt.Errorf("read the Dockerfile: %w", err)
	}
	at, found := instructions.HasStage(stages, stage)
	if !found {
		return v1.Config{}, fmt.Errorf("read the Dockerfile: it has no stage %q", stage)
	}
	if _, found := instructions.HasStage(stages, stages[at].BaseName); found {
		return v1.Config{}, fmt.Errorf("read the Dockerfile: stage %s takes over what stage %s says, and that is not read", stage, stages[at].BaseName)
	}
	b := builder{args: args, vars: variables{}, lex: shell.NewLex(parsed.EscapeToken)}
	for _, command := range stages[at].Commands {
		if err := b.add(command); err != nil {
			return v1.Config{}, fmt.Errorf("read the Dockerfile's stage %s: %w", stage, err)
		}
	}
	return b.config, nil
}

type builder struct {
	config v1.Config
	args   map[string]string
	vars   variables // what may be used as $NAME by now
	lex    *shell.Lex
}

func (b *builder) add(command instructions.Command) error {
	if expands, ok := command.(instructions.SupportsSingleWordExpansion); ok {
		if err := expands.Expand(b.expand); err != nil {
			return err
		}
	}
	switch c := command.(type) {
	case *instructions.CopyCommand, *instructions.RunCommand:
		return nil
	case *instructions.ArgCommand:
		for _, arg := range c.Args {
			value, given := b.args[arg.Key]
			if !given {
				return fmt.Errorf("argument %s is not given", arg.Key)
			}
			b.vars[arg.Key] = value
		}
		return nil
	case *instructions.LabelCommand:
		if b.config.Labels == nil {
			b.config.Labels = map[string]string{}
		}
		for _, label := range c.Labels {
			b.config.Labels[label.Key] = label.Value
		}
		return nil
	case *instructions.EnvCommand:
		for _, env := range c.Env {
			b.config.Env = append(b.config.Env, env.Key+"="+env.Value)
			b.vars[env.Key] = env.Value
		}
		return nil
	case *instructions.WorkdirCommand:
		b.config.WorkingDir = c.Path
		return nil
	case *instructions.UserCommand:
		b.config.User = c.User
		return nil
	case *instructions.ExposeCommand:
		if b.config.ExposedPorts == nil {
			b.config.ExposedPorts = map[string]struct{}{}
		}
		for _, port := range c.Ports {
			if !strings.Contains(port, "/") {
				port += "/tcp"
			}
			b.config.ExposedPorts[port] = struct{}{}
		}
		return nil
	case *instructions.StopSignalCommand:
		b.config.StopSignal = c.Signal
		return nil
	case *instructions.EntrypointCommand:
		b.config.Entrypoint = c.CmdLine
		return exec(c.Name(), c.ShellDependantCmdLine)
	case *instructions.CmdCommand:
		b.config.Cmd = c.CmdLine
		return exec(c.Name(), c.ShellDependantCmdLine)
	default:
		return fmt.Errorf("instruction %s is not known here", command.Name())
	}
}

// exec refuses the form that a shell would run: there is none in the image.
func exec(name string, line instructions.ShellDependantCmdLine) error {
	if line.PrependShell {
		return fmt.Errorf("%s needs the form with brackets", name)
	}
	return nil
}

func (b *builder) expand(word string) (string, error) {
	text, unknown, err := b.lex.ProcessWord(word, b.vars)
	if err != nil {
		return "", err
	}
	for name := range unknown {
		return "", fmt.Errorf("%s is used and not set", name)
	}
	return text, nil
}

// variables is what a Dockerfile's $NAME may mean.
type variables map[string]string

// Get is part of shell.EnvGetter.
func (v variables) Get(name string) (string, bool) {
	value, found := v[name]
	return value, found
}

// Keys is part of shell.EnvGetter.
func (v variables) Keys() []string {
	var keys []string
	for key := range v {
		keys = append(keys, key)
	}
	return keys
}
