package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"config-server/internal/app"
	"config-server/internal/config"
	"config-server/internal/demo"
	"config-server/internal/obs"
)

// demoFlags are what the command line of demo says.
type demoFlags struct {
	serve      bool
	listen     string
	standIns   string
	slow       time.Duration
	readyLimit time.Duration
	verbose    bool
}

func demoCommand(in invocation) *cobra.Command {
	var f demoFlags
	command := &cobra.Command{
		Use:   "demo",
		Short: "Run the main journey on stand-ins inside this process",
		Long: `Start the service on stand-ins for the cluster, the NAS, Prometheus and admin_be, all inside this process, and take it
through its main journey. Neither root nor any other program is needed. With --serve it stays up instead and prints
how to call every endpoint.`,
		Example: "  config-server demo\n  config-server demo --serve\n  config-server demo --serve --listen 127.0.0.1:8001",
		Args:    noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if f.listen == "" && f.serve {
				f.listen = "127.0.0.1:8000"
			}
			if f.listen == "" {
				f.listen = "127.0.0.1:0"
			}
			return failed(playDemo(command.Context(), in, f))
		},
	}
	flags := command.Flags()
	flags.BoolVar(&f.serve, "serve", false, "stay up and print how to call every endpoint, instead of the journey")
	flags.StringVar(&f.listen, "listen", "", "`ADDRESS` of the service (default 127.0.0.1:8000 with --serve, else any free port)")
	flags.StringVar(&f.standIns, "stand-ins", "", "`ADDRESS` of admin_be and Prometheus as they are played (default any free port)")
	flags.DurationVar(&f.slow, "slow", 5*time.Second, "`TIME` until the pods of users slow* are Ready")
	flags.DurationVar(&f.readyLimit, "ready-timeout", 15*time.Second, "`TIME` of POD_READY_TIMEOUT, which the pods of users never* run into")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show the service's log on standard error")
	return command
}

// playDemo starts the service on stand-ins and takes it through the journey, or leaves it running.
func playDemo(ctx context.Context, in invocation, flags demoFlags) (err error) {
	around, err := demo.Start(demo.Options{
		StandIns: flags.standIns, Slow: flags.slow, ReadyLimit: flags.readyLimit, Drift: flags.serve,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, around.Close()) }()

	c, err := config.Load(append(around.Environ(), "LISTEN_ADDR="+flags.listen))
	if err != nil {
		return fmt.Errorf("the demo's configuration is wrong: %w", err)
	}
	file, err := os.Create(around.LogPath())
	if err != nil {
		return fmt.Errorf("make the log: %w", err)
	}
	defer file.Close()
	var logs io.Writer = file
	if flags.verbose {
		logs = io.MultiWriter(file, in.errors)
	}
	service, err := app.New(app.Options{
		Config: c, Log: obs.NewLogger(logs, slog.LevelInfo), Build: build(), Cluster: around.Cluster, Registries: around.Registries(),
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("start the service: %w; name another address, such as --listen 127.0.0.1:8001", err)
	}
	if err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- service.Run(running) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()

	url := "http://" + service.Addr().String()
	if flags.serve {
		around.Guide(in.out, url)
		<-ctx.Done()
		return nil
	}
	fmt.Fprintf(in.out, "config-server %s on stand-ins in this process, at %s\n", build().Version, url)
	err = demo.Journey(ctx, demo.Tour{URL: url, Around: around, Out: in.out})
	if err != nil && !flags.verbose {
		printLog(in.errors, around.LogPath())
	}
	return err
}

// maxLogShown is how much of the log's end is printed after a failure, in bytes.
const maxLogShown = 8 << 10

// printLog shows the end of the service's log, because the file goes with the demo.
func printLog(out io.Writer, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	fmt.Fprintf(out, "\nThe end of the service's log:\n%s", text[max(0, len(text)-maxLogShown):])
}
