// Command e2e walks the lab's farm as its users and operators would, through the service's real
// binary and nothing but real parts: accounts, workspaces, logins, GPUs, migrations, faults, and the
// end of everything. Each check prints one line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"config-server/deploy/lab/internal/raise"
	"config-server/deploy/lab/internal/site"
)

// checkLimit bounds one check.
const checkLimit = 3 * time.Minute

// check is one named check. Later ones may use what earlier ones made.
type check struct {
	name string
	run  func(ctx context.Context, w *walk) error
}

// errOff says that what a check needs is switched off in this lab.
var errOff = errors.New("switched off in this lab")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	dir := flags.String("dir", site.DefaultDir, "folder of the lab")
	checkout := flags.String("checkout", ".", "folder of config-server's sources")
	program := flags.String("lab", "bin/lab/lab", "the lab's own program")
	// What lab up is told in the same words is in the lab's plan already.
	for _, name := range []string{"port", "admin-be"} {
		flags.String(name, "", "read by lab up alone")
	}
	flags.Bool("kerberos", true, "read by lab up alone")
	flags.Bool("take-over", false, "read by lab up and lab down alone")
	only := flags.String("run", "", "run only checks whose name has this in it (later ones may need earlier ones)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := site.Load(*dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no lab in %s; raise it first with \"make lab\"", *dir)
	}
	if err != nil {
		return err
	}
	if err := s.CheckOwner(*checkout); err != nil {
		return err
	}
	// As lab up names them: a program that is described in other words would be started anew.
	for _, path := range []*string{checkout, program} {
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("find the lab's program: %w", err)
		}
	}
	lab := raise.New(s, *checkout, *program, func(string, ...any) {})
	w, err := newWalk(ctx, lab)
	if err != nil {
		return err
	}
	if err := w.clean(ctx); err != nil {
		return fmt.Errorf("clean up before the walk: %w", err)
	}
	passed, failed, off := 0, 0, 0
	begin := time.Now()
	for _, c := range all() {
		if !strings.Contains(c.name, *only) {
			continue
		}
		start := time.Now()
		err := w.one(ctx, c)
		seconds := time.Since(start).Seconds()
		switch {
		case errors.Is(err, errOff):
			off++
			fmt.Printf("off  %s\n", c.name)
		case err != nil:
			failed++
			fmt.Printf("FAIL %s (%.1f s)\n     %s\n", c.name, seconds, strings.ReplaceAll(err.Error(), "\n", "\n     "))
		default:
			passed++
			fmt.Printf("ok   %s (%.1f s)\n", c.name, seconds)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if off > 0 {
		fmt.Printf("%d off: the lab runs without Kerberos\n", off)
	}
	fmt.Printf("%d passed, %d failed in %.0f s\n", passed, failed, time.Since(begin).Seconds())
	if failed > 0 || passed == 0 {
		return errors.New("not every check passed")
	}
	return ctx.Err()
}

func (w *walk) one(ctx context.Context, c check) (err error) {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
		}
	}()
	return c.run(ctx, w)
}

// all lists the checks in the order of the walk.
func all() []check {
	var checks []check
	for _, chapter := range [][]check{accountChecks(), workspaceChecks(), nodeChecks(), migrationChecks(), refusalChecks(), templateChecks(), kerberosChecks(), outageChecks(), assignmentChecks(), exportChecks(), imageChecks(), endChecks()} {
		checks = append(checks, chapter...)
	}
	return checks
}
