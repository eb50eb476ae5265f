// Command lab raises a whole farm on this machine, tells how it is, and takes it down again.
// docs/lab.md says what it is made of.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"config-server/deploy/lab/internal/machine"
	"config-server/deploy/lab/internal/raise"
	"config-server/deploy/lab/internal/site"
	"config-server/deploy/lab/internal/standin"
)

const usage = `Usage: lab up|status|down [flags]

  up      starts whatever of the lab does not run
  status  tells address and health of each part; exit code 1 if one is not well
  down    ends everything and removes what was made

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		args = []string{"help"}
	}
	switch args[0] {
	// The parts that this program plays itself; lab up starts them.
	case "machine":
		if len(args) != 3 {
			return errors.New("machine SPEC READY")
		}
		return machine.Keep(args[1], args[2])
	case "admin-be", "exporter":
		return serve(ctx, args)
	}
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	dir := flags.String("dir", site.DefaultDir, "folder of the lab")
	port := flags.Int("port", site.DefaultPort, "lowest of the lab's ports, for its first start")
	kerberos := flags.Bool("kerberos", true, "run config-server with a Kerberos realm")
	userConfigs := flags.String("admin-be", "", "`template` with {username} of a real admin_be's user configurations, in place of the stand-in's")
	checkout := flags.String("checkout", ".", "folder of config-server's sources, to which the lab belongs")
	takeOver := flags.Bool("take-over", false, "up and down: take over the lab of another checkout")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "up":
		s, err := site.LoadOrPlan(*dir, *port)
		if err != nil {
			return err
		}
		if err := s.Own(*checkout, *takeOver); err != nil {
			return err
		}
		s.Kerberos, s.UserConfigs = *kerberos, *userConfigs
		if err := s.Save(); err != nil {
			return err
		}
		lab, err := open(s, *checkout)
		if err != nil {
			return err
		}
		if err := lab.Up(ctx); err != nil {
			return err
		}
		fmt.Print(lab.Guide())
		return nil
	case "status", "down":
		s, err := site.Load(*dir)
		if errors.Is(err, fs.ErrNotExist) && args[0] == "status" {
			return fmt.Errorf("there is none in %s; raise it first with \"make lab\"", *dir)
		}
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Println("lab: there is none in", *dir)
			return nil
		}
		if err != nil {
			return err
		}
		if args[0] == "down" {
			if err := s.Own(*checkout, *takeOver); err != nil {
				return err
			}
		}
		lab, err := open(s, *checkout)
		if err != nil {
			return err
		}
		if args[0] == "status" {
			return status(ctx, lab)
		}
		return down(ctx, lab)
	default:
		flags.Usage()
		return fmt.Errorf("no subcommand %q", args[0])
	}
}

func open(s *site.Site, checkout string) (*raise.Lab, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	checkout, err = filepath.Abs(checkout)
	if err != nil {
		return nil, fmt.Errorf("find the checkout: %w", err)
	}
	var mu sync.Mutex
	begin := time.Now()
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("lab %4.0f s  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
	return raise.New(s, checkout, program, say), nil
}

func status(ctx context.Context, lab *raise.Lab) error {
	if lab.Site.Owner != "" {
		fmt.Printf("%-24s %s\n", "checkout", lab.Site.Owner)
	}
	bad := 0
	for _, part := range lab.Status(ctx) {
		health := "ok"
		if part.Fault != "" {
			health = part.Fault
			bad++
		}
		if part.Program != "" {
			health += "  runs " + part.Program
		}
		fmt.Printf("%-24s %-34s %s\n", part.Name, part.Address, health)
	}
	if bad > 0 {
		return fmt.Errorf("%d parts are not well", bad)
	}
	return nil
}

func down(ctx context.Context, lab *raise.Lab) error {
	left, err := lab.Down(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("something is left behind:\n  %s", strings.Join(left, "\n  "))
	}
	fmt.Println("lab: down, nothing is left behind")
	return nil
}

// serve plays a stand-in until a signal ends it.
func serve(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New(args[0] + " ADDRESS FILE")
	}
	play := standin.AdminBE
	if args[0] == "exporter" {
		play = standin.Exporter
	}
	handler, err := play(args[2])
	if err != nil {
		return err
	}
	server := &http.Server{Addr: args[1], Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
