// Package app builds the service from its configuration, gives it life and ends it in order. It is
// the only place that knows all parts; it knows nothing of what a request does.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"config-server/internal/cluster"
	"config-server/internal/config"
	"config-server/internal/obs"
)

// Options of an App.
type Options struct {
	Config config.Config
	Log    *slog.Logger
	Build  obs.Build
	// Cluster replaces the connection to Kubernetes, for demo; nil = as the process finds it.
	Cluster func(cluster.Options) *cluster.Cluster
	// Registries replaces the connections to registries of images, likewise.
	Registries http.RoundTripper
}

// App is one running service.
type App struct {
	config   config.Config
	log      *slog.Logger
	instance string
	parts    *parts
	server   *http.Server
	listener net.Listener

	draining atomic.Bool
	work     inFlight
	cleanups cleanups
	// ending is closed when streams have to end: nothing else is waited for then.
	ending chan struct{}
	// unfit gets the error that there is nothing to mount as homes.
	unfit chan error
	// requests ends the contexts of all requests: what has not finished by then is undone.
	requests context.CancelCauseFunc
	// background ends the loops beside the requests.
	background context.CancelFunc
	loops      sync.WaitGroup
}

// ErrShutdown is the cause of a request's context that ended because the service did.
var ErrShutdown = errors.New("the service is shutting down")

// New opens the listener and builds every part. No outside part has to be up: what is down is an
// error of the calls that need it. The error says what this machine refuses: the address, the
// state folder, a file.
func New(opts Options) (_ *App, err error) {
	a := &App{config: opts.Config, log: opts.Log, instance: uuid.NewString(), ending: make(chan struct{}), unfit: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.cleanups.run(context.Background()))
		}
	}()
	if err := os.MkdirAll(a.config.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("make STATE_DIR: %w", err)
	}
	if a.listener, err = net.Listen("tcp", a.config.ListenAddr); err != nil {
		return nil, fmt.Errorf("listen on LISTEN_ADDR %s: %w", a.config.ListenAddr, err)
	}
	a.cleanups.add("listener", func(context.Context) error { return ignoreClosed(a.listener.Close()) })
	if a.parts, err = a.build(opts); err != nil {
		return nil, err
	}
	requests, cancel := context.WithCancelCause(context.Background())
	a.requests = cancel
	a.server = &http.Server{
		Handler:           a.work.track(a.parts.handler),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelWarn),
	}
	return a, nil
}

// Addr is the address on which the service listens.
func (a *App) Addr() net.Addr { return a.listener.Addr() }

// Run serves until ctx ends, then lets running requests finish within the drain time, undoes those
// that have not, and stops every part. It returns nil after an orderly end.
func (a *App) Run(ctx context.Context) error {
	a.Start()
	failed := make(chan error, 1)
	go func() { failed <- a.server.Serve(a.listener) }()
	a.log.Info("listening", "address", a.Addr().String(), "instance", a.instance)

	var err error
	select {
	case <-ctx.Done():
		a.log.Info("stopping: no new work, running work may finish", "drain", a.config.Drain.Timeout.String())
	case err = <-failed:
	case err = <-a.unfit:
	}
	return errors.Join(err, a.Stop())
}

// Start begins what runs beside the requests: watches, the instance's lock and recovery, audits.
func (a *App) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	a.background = cancel
	a.parts.cluster.Start(ctx)
	a.parts.progress.Start()
	a.loops.Go(func() { a.live(ctx) })
	a.loops.Go(func() { a.askParts(ctx) })
	a.loops.Go(func() { a.auditNowAndThen(ctx) })
	a.loops.Go(func() { a.countGPUs(ctx) })
	a.loops.Go(func() { a.countDeviceFiles(ctx) })
	if a.parts.selfHomes != nil {
		a.loops.Go(func() {
			if err := a.findSelfHomes(ctx); err != nil {
				a.unfit <- err
			}
		})
	}
}

// Stop ends the service: drain, undo, parts. It is called once. While running work finishes the
// listener stays open, so that new work is told that it is not taken.
func (a *App) Stop() error {
	a.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), a.config.Drain.Timeout.Duration())
	defer cancel()
	select {
	case <-a.work.idle():
	case <-ctx.Done():
	}
	close(a.ending)
	err := a.server.Shutdown(ctx)
	a.requests(ErrShutdown)
	if errors.Is(err, context.DeadlineExceeded) {
		a.log.Warn("drain time is over, what still runs is undone")
		undo, cancel := context.WithTimeout(context.Background(), a.config.Drain.UndoReserve.Duration())
		defer cancel()
		if err = a.server.Shutdown(undo); err != nil {
			err = fmt.Errorf("requests were still running at the end, recovery has to mend what they left: %w", err)
		}
	}
	if a.background != nil {
		a.background()
		a.loops.Wait()
	}
	last, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	return errors.Join(err, a.cleanups.run(last))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
