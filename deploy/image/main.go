// Command image builds the container images of config-server without an engine and without a registry, with a list of
// everything in them. docs/operations.md says what to do with the files.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	checkout := flags.String("checkout", ".", "folder of config-server's sources")
	out := flags.String("out", "bin/image", "folder of the images")
	version := flags.String("version", "dev", "version of the program and tag of the images")
	chosen := flags.String("variants", "plain,tools", "variants to build")
	platforms := flags.String("platforms", "", "build for these of a variant's platforms only, linux/amd64 say")
	if err := flags.Parse(args); err != nil {
		return err
	}
	made, err := epoch(ctx, *checkout)
	if err != nil {
		return err
	}
	b := &builder{version: *version, made: made, say: func(format string, args ...any) { fmt.Printf("image: "+format+"\n", args...) }}
	for to, path := range map[*string]string{&b.checkout: *checkout, &b.out: *out} {
		if *to, err = filepath.Abs(path); err != nil {
			return fmt.Errorf("find folder %s: %w", path, err)
		}
	}
	if *platforms != "" {
		b.platforms = strings.Split(*platforms, ",")
	}
	release, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	for _, name := range strings.Split(*chosen, ",") {
		v, found := variants[name]
		if !found {
			return fmt.Errorf("there is no variant %q", name)
		}
		if err := b.build(ctx, name, v); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

// epoch is the time that everything in the images bears: SOURCE_DATE_EPOCH if that is set, else the commit's.
func epoch(ctx context.Context, checkout string) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		cmd := exec.CommandContext(ctx, "git", "-C", checkout, "log", "-1", "--format=%ct")
		out, err := cmd.Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("ask git for the commit's time (SOURCE_DATE_EPOCH gives one where there is no repository): %w", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, errors.New("SOURCE_DATE_EPOCH is no number of seconds")
	}
	return time.Unix(seconds, 0).UTC(), nil
}
