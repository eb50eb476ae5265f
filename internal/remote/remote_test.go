package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestNewRefusesWrongOptions(t *testing.T) {
	t.Parallel()
	good := Options{Host: "nas", User: "u", KeyPath: "/k", Log: slog.New(slog.DiscardHandler)}
	if _, err := New(good); err != nil {
		t.Fatalf("New(good): %v", err)
	}
	cases := map[string]func(*Options){
		"no host":           func(o *Options) { o.Host = "" },
		"no user":           func(o *Options) { o.User = "" },
		"no key":            func(o *Options) { o.KeyPath = "" },
		"port too high":     func(o *Options) { o.Port = 65536 },
		"port negative":     func(o *Options) { o.Port = -1 },
		"sessions negative": func(o *Options) { o.MaxSessions = -1 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := good
			change(&opts)
			if _, err := New(opts); err == nil {
				t.Error("New accepted the options")
			}
		})
	}
}

func TestNewWarnsOnceWithoutKnownHosts(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := start(t, echo, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	mustRun(t, f.client, "true")
	f.dropAll()
	mustRun(t, f.client, "true")
	if got := strings.Count(log.String(), "host keys are not checked"); got != 1 {
		t.Errorf("%d warnings, want 1:\n%s", got, log.String())
	}
}

func TestRunSendsQuotedCommandAndInput(t *testing.T) {
	t.Parallel()
	f := start(t, echo, nil)
	out, err := f.client.Run(t.Context(), []string{"sudo", "mkdir", "-p", "/share/a b"}, []byte("in"))
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if want := "sudo mkdir -p '/share/a b'|in"; out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}

func TestRunRefusesBeforeConnecting(t *testing.T) {
	t.Parallel()
	f := start(t, echo, nil)
	for name, argv := range map[string][]string{"no command": nil, "NUL": {"rm", "a\x00b"}} {
		if _, err := f.client.Run(t.Context(), argv, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if n := f.accepted.Load(); n != 0 {
		t.Errorf("%d connections, want 0", n)
	}
}

func TestRunTellsExitStatusAndBoundedStderr(t *testing.T) {
	t.Parallel()
	f := start(t, func(call) reply {
		return reply{status: 7, stderr: "no\n\x1b[31m way " + strings.Repeat("x", 5000)}
	}, nil)
	_, err := f.client.Run(t.Context(), []string{"false"}, nil)
	var exit *ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("error %v, want an ExitError", err)
	}
	if exit.Status != 7 || !strings.HasPrefix(exit.Stderr, "no [31m way xxx") || len(exit.Stderr) > maxStderr {
		t.Errorf("status %d, stderr of %d bytes: %.40q", exit.Status, len(exit.Stderr), exit.Stderr)
	}
	if !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("the error does not name the host: %v", err)
	}
}

func TestCommandsShareOneConnectionAndTheSessionLimit(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	enough := make(chan struct{})
	f := start(t, func(call) reply {
		now := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		if now == 3 {
			close(enough) // a fourth at once would close it again and panic
		}
		<-enough
		return reply{}
	}, func(o *Options) { o.MaxSessions = 3 })

	// Three block until all three run; the others can only come afterwards, one for one.
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { mustRun(t, f.client, "true") })
	}
	wg.Wait()
	if most.Load() != 3 || f.accepted.Load() != 1 {
		t.Errorf("%d at once on %d connections, want 3 on 1", most.Load(), f.accepted.Load())
	}
}

func TestNoMoreThanMaxSessionsAtOnce(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	f := start(t, func(call) reply {
		now := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
		}
		return reply{}
	}, func(o *Options) { o.MaxSessions = 2 })
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { mustRun(t, f.client, "true") })
	}
	wg.Wait()
	if most.Load() > 2 || f.accepted.Load() != 1 {
		t.Errorf("%d at once on %d connections, want at most 2 on 1", most.Load(), f.accepted.Load())
	}
}

func TestWaitingForATurnEndsWithTheContext(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	f := start(t, func(call) reply { close(began); <-release; return reply{} }, func(o *Options) { o.MaxSessions = 1 })
	var wg sync.WaitGroup
	wg.Go(func() { mustRun(t, f.client, "first") })
	<-began

	gone := errors.New("caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := f.client.Run(ctx, []string{"second"}, nil); !errors.Is(err, gone) {
		t.Errorf("error %v, want %v", err, gone)
	}
	close(release)
	wg.Wait()
}

func TestCommandOverItsLimitLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	slowBegan, slowRelease, hung := make(chan struct{}), make(chan struct{}), make(chan struct{})
	f := start(t, func(c call) reply {
		switch c.command {
		case "slow":
			close(slowBegan)
			<-slowRelease
		case "hang":
			<-hung
		}
		return reply{stdout: c.command}
	}, func(o *Options) { o.CommandTimeout = 10 * time.Second })
	defer close(hung)

	var slow string
	var wg sync.WaitGroup
	wg.Go(func() { slow = mustRun(t, f.client, "slow") })
	<-slowBegan

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := f.client.Run(ctx, []string{"hang"}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hanging command: error %v, want a deadline", err)
	}
	if out := mustRun(t, f.client, "next"); out != "next" || f.accepted.Load() != 2 {
		t.Errorf("next command gave %q on connection %d, want a second connection", out, f.accepted.Load())
	}
	close(slowRelease)
	wg.Wait()
	if slow != "slow" {
		t.Errorf("the command beside the hanging one gave %q", slow)
	}
}

func TestCommandTimeoutIsItsOwnLimit(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{})
	f := start(t, func(call) reply { <-hung; return reply{} }, func(o *Options) { o.CommandTimeout = 50 * time.Millisecond })
	defer close(hung)
	_, err := f.client.Run(t.Context(), []string{"hang"}, nil)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(fmt.Sprint(err), "no answer within 50ms") {
		t.Errorf("error %v", err)
	}
}

func TestOutputBeyondTheLimitIsAnError(t *testing.T) {
	t.Parallel()
	b := &boundedBuffer{limit: 3}
	for _, part := range []string{"ab", "cd", "e"} {
		if n, err := b.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("Write(%q) = %d, %v", part, n, err)
		}
	}
	if b.String() != "abc" || !b.cut {
		t.Errorf("kept %q, cut %v", b.String(), b.cut)
	}
}

func TestClosedClientRefuses(t *testing.T) {
	t.Parallel()
	f := start(t, echo, nil)
	mustRun(t, f.client, "true")
	for range 2 {
		if err := f.client.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := f.client.Run(t.Context(), []string{"true"}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}
