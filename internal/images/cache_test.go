package images

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// silentRedis accepts connections and never answers.
func silentRedis(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func TestNobodyWaitsForRedis(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"refused": "127.0.0.1:1", "hanging": silentRedis(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := NewCache(CacheOptions{Addr: address, Limit: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
			store, _ := newStore(t, `exit 0`, func(o *Options) { o.Cache = cache })
			begin := time.Now()
			for range 500 { // far more than may wait
				if image, warning := store.Resolve(t.Context(), "kim", "base:1"); image != "base:1" || warning != "" {
					t.Fatalf("image %q, warning %q", image, warning)
				}
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("500 calls took %v", took)
			}
			if err := cache.Check(t.Context()); err == nil {
				t.Error("Check gave no error")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			begin = time.Now()
			if err := cache.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close: %v", err)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("Close took %v", took)
			}
			cache.Put(t.Context(), "kim", Metadata{Status: StatusLoaded}) // After Close it does nothing.
			if err := cache.Close(t.Context()); err != nil {
				t.Errorf("second Close: %v", err)
			}
		})
	}
}

func TestFailingRedisIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	cache := NewCache(CacheOptions{Addr: "127.0.0.1:1", Log: slog.New(slog.NewTextHandler(&log, nil))})
	for range 5 {
		cache.Put(t.Context(), "kim", Metadata{Status: StatusLoaded})
	}
	if err := cache.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want 1:\n%s", n, log.String())
	}
}

// TestWritesAreToldWithTheirRequest: the worker writes after the request has ended, and its lines are
// that request's all the same.
func TestWritesAreToldWithTheirRequest(t *testing.T) {
	t.Parallel()
	type key struct{}
	var told []string
	var log strings.Builder
	cache := NewCache(CacheOptions{
		Addr: "127.0.0.1:1", Log: slog.New(requestHandler{slog.NewTextHandler(&log, nil), key{}}),
		Called: func(ctx context.Context, call string, _ time.Duration, err error) {
			told = append(told, fmt.Sprint(ctx.Value(key{}), ": ", call, ", failed ", err != nil))
		},
	})
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "r-1"))
	cancel()
	cache.Put(ctx, "kim", Metadata{Status: StatusLoaded})
	if err := cache.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if want := "r-1: set img:kim, failed true"; len(told) != 1 || told[0] != want {
		t.Errorf("told %q, want %q", told, want)
	}
	if !strings.Contains(log.String(), "request=r-1") {
		t.Errorf("log: %s", log.String())
	}
}

// requestHandler adds the value of a key of the context, as the service's own handler does.
type requestHandler struct {
	slog.Handler
	key any
}

func (h requestHandler) Handle(ctx context.Context, record slog.Record) error {
	record.AddAttrs(slog.Any("request", ctx.Value(h.key)))
	return h.Handler.Handle(ctx, record)
}
