package remote

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHostThatCannotBeReachedIsAConnectError(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change  func(t *testing.T, o *Options)
		timeout bool
	}{
		"connect hangs": {timeout: true, change: func(_ *testing.T, o *Options) {
			o.ConnectTimeout = 30 * time.Millisecond
			o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}},
		"no banner": {timeout: true, change: func(t *testing.T, o *Options) {
			o.HandshakeTimeout = 30 * time.Millisecond
			silent := silentListener(t)
			o.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", silent)
			}
		}},
		"refused": {change: func(_ *testing.T, o *Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
		}},
		"key not accepted": {change: func(t *testing.T, o *Options) {
			_, other := newKey(t)
			o.KeyPath = writeFile(t, "other", other)
		}},
		"key file missing":    {change: func(_ *testing.T, o *Options) { o.KeyPath += ".missing" }},
		"key file unreadable": {change: func(t *testing.T, o *Options) { o.KeyPath = writeFile(t, "bad", []byte("no key")) }},
		"known hosts missing": {change: func(_ *testing.T, o *Options) { o.KnownHosts = o.KeyPath + ".missing" }},
		"host unknown":        {change: func(t *testing.T, o *Options) { o.KnownHosts = writeFile(t, "empty", nil) }},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, echo, func(o *Options) { c.change(t, o) })
			_, err := f.client.Run(t.Context(), []string{"true"}, nil)
			var connect *ConnectError
			if !errors.As(err, &connect) {
				t.Fatalf("error %v, want a ConnectError", err)
			}
			if connect.Timeout() != c.timeout {
				t.Errorf("Timeout() = %v for %v", connect.Timeout(), err)
			}
			if !strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("the error does not name the host: %v", err)
			}
		})
	}
}

// silentListener accepts connections and never says a word.
func silentListener(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func TestCommandsThatWaitShareOneFailedAttempt(t *testing.T) {
	t.Parallel()
	_, private := newKey(t)
	key := writeFile(t, "key", private)
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		fail := make(chan struct{})
		client := connectTo(t, "127.0.0.1:22", key, func(o *Options) {
			o.Dial = func(context.Context, string, string) (net.Conn, error) {
				dials.Add(1)
				<-fail
				return nil, errors.New("no route")
			}
		})
		// The first command begins the attempt and gives up; the attempt goes on for the others.
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := client.Run(ctx, []string{"true"}, nil)
			first <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("first command: %v", err)
		}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := client.Run(t.Context(), []string{"true"}, nil); err == nil || !strings.Contains(err.Error(), "no route") {
					t.Errorf("waiting command: %v", err)
				}
			})
		}
		synctest.Wait()
		close(fail)
		wg.Wait()
		if n := dials.Load(); n != 1 {
			t.Errorf("%d dials, want 1", n)
		}
	})
}

func TestBrokenConnectionIsReplacedAndTheCommandSentOnceMore(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	f := start(t, func(c call) reply {
		if calls.Add(1) == 1 {
			_ = c.conn.Close()
		}
		return reply{stdout: "ok"}
	}, nil)
	if out := mustRun(t, f.client, "true"); out != "ok" {
		t.Errorf("output %q", out)
	}
	if calls.Load() != 2 || f.accepted.Load() != 2 {
		t.Errorf("%d calls on %d connections, want 2 on 2", calls.Load(), f.accepted.Load())
	}
}

func TestCommandIsSentTwiceAtMost(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	f := start(t, func(c call) reply {
		calls.Add(1)
		_ = c.conn.Close()
		return reply{}
	}, nil)
	if _, err := f.client.Run(t.Context(), []string{"true"}, nil); err == nil {
		t.Error("no error")
	}
	if calls.Load() != 2 {
		t.Errorf("%d calls, want 2", calls.Load())
	}
}

func TestServerGoneAndBack(t *testing.T) {
	t.Parallel()
	f := start(t, echo, nil)
	mustRun(t, f.client, "true")
	address := f.address
	f.stop()
	var connect *ConnectError
	if _, err := f.client.Run(t.Context(), []string{"true"}, nil); !errors.As(err, &connect) {
		t.Fatalf("during the outage: %v, want a ConnectError", err)
	}
	f.start(address)
	mustRun(t, f.client, "true") // at once, without waiting out anything
}

func TestDeadConnectionIsFoundByTheProbe(t *testing.T) {
	t.Parallel()
	var hole *blackHole
	f := start(t, echo, func(o *Options) {
		o.Keepalive = 30 * time.Millisecond
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil || hole != nil {
				return conn, err
			}
			hole = &blackHole{Conn: conn, ended: make(chan struct{})}
			return hole, nil
		}
	})
	mustRun(t, f.client, "true")
	hole.silent.Store(true)
	select {
	case <-hole.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the probe did not end the dead connection")
	}
	mustRun(t, f.client, "true")
}

// blackHole swallows what is sent once it is silent, as a host without power does.
type blackHole struct {
	net.Conn
	silent atomic.Bool
	once   sync.Once
	ended  chan struct{}
}

func (b *blackHole) Write(p []byte) (int, error) {
	if b.silent.Load() {
		return len(p), nil
	}
	return b.Conn.Write(p)
}

func (b *blackHole) Close() error {
	b.once.Do(func() { close(b.ended) })
	return b.Conn.Close()
}

func TestKeyIsReadAtEveryConnect(t *testing.T) {
	t.Parallel()
	signer, private := newKey(t)
	_, stale := newKey(t)
	hostKey, _ := newKey(t)
	s := startServer(t, signer.PublicKey(), []ssh.Signer{hostKey}, echo)
	path := writeFile(t, "key", stale)
	client := connectTo(t, s.address, path, nil)
	if _, err := client.Run(t.Context(), []string{"true"}, nil); err == nil {
		t.Fatal("the stale key was accepted")
	}
	if err := os.WriteFile(path, private, 0o600); err != nil {
		t.Fatalf("replace key: %v", err)
	}
	mustRun(t, client, "true")
}

func TestHostKeyIsChecked(t *testing.T) {
	t.Parallel()
	signer, private := newKey(t)
	first, _ := newKey(t)
	other, _ := newKey(t)
	ecdsa := newECDSAKey(t)
	s := startServer(t, signer.PublicKey(), []ssh.Signer{ecdsa, first}, echo)

	line := func(key ssh.Signer) []byte {
		return []byte(knownhosts.Line([]string{knownhosts.Normalize(s.address)}, key.PublicKey()) + "\n")
	}
	cases := map[string]struct {
		known []byte
		good  bool
	}{
		"the first key":                   {known: line(first), good: true},
		"the server's other key":          {known: line(ecdsa), good: true},
		"a key that the server lacks":     {known: line(other)},
		"hashed host name, the right key": {known: []byte(knownhosts.Line([]string{knownhosts.HashHostname(knownhosts.Normalize(s.address))}, first.PublicKey()) + "\n"), good: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connectTo(t, s.address, writeFile(t, "key", private), func(o *Options) {
				o.KnownHosts = writeFile(t, "known_hosts", c.known)
			})
			_, err := client.Run(t.Context(), []string{"true"}, nil)
			if (err == nil) != c.good {
				t.Errorf("error %v, want good = %v", err, c.good)
			}
		})
	}
}
