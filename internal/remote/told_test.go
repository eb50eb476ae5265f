package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// notes keeps what a client tells, in order.
type notes struct {
	mu   sync.Mutex
	list []string
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, fmt.Sprintf(format, args...))
}

func (n *notes) want(t *testing.T, want ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.list, want) {
		t.Errorf("told %q, want %q", n.list, want)
	}
}

// taken waits until the client has no connection that a command could use.
func taken(t *testing.T, c *Client) {
	t.Helper()
	c.mu.Lock()
	conn := c.current
	c.mu.Unlock()
	if conn == nil {
		return
	}
	select {
	case <-conn.closed:
	case <-time.After(20 * time.Second):
		t.Fatal("the client still has its connection")
	}
}

func TestConnectionsAreTold(t *testing.T) {
	t.Parallel()
	var told notes
	refuse := false
	f := start(t, echo, func(o *Options) {
		o.Connected = func(again bool, err error) { told.add("again %t, failed %t", again, err != nil) }
		dial := new(net.Dialer)
		o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if refuse {
				return nil, errors.New("refused")
			}
			return dial.DialContext(ctx, network, address)
		}
	})
	refuse = true
	if _, err := f.client.Run(t.Context(), []string{"true"}, nil); err == nil {
		t.Fatal("a refused connection gave no error")
	}
	refuse = false
	mustRun(t, f.client, "true")
	mustRun(t, f.client, "true")
	f.dropAll()
	taken(t, f.client)
	refuse = true
	if _, err := f.client.Run(t.Context(), []string{"true"}, nil); err == nil {
		t.Fatal("a refused connection gave no error")
	}
	refuse = false
	mustRun(t, f.client, "true")
	told.want(t, "again false, failed true", "again false, failed false", "again true, failed true", "again true, failed false")
}

func TestCommandsAreTold(t *testing.T) {
	t.Parallel()
	type key struct{}
	var told notes
	f := start(t, func(c call) reply {
		if c.command == "false" {
			return reply{status: 1}
		}
		if c.command == "break" {
			_ = c.conn.Close()
		}
		return reply{}
	}, func(o *Options) {
		o.Called = func(ctx context.Context, call string, took time.Duration, err error) {
			told.add("%v: %s, took time %t, failed %t", ctx.Value(key{}), call, took > 0, err != nil)
		}
	})
	ctx := context.WithValue(t.Context(), key{}, "request")
	for _, argv := range [][]string{{"sudo", "mkdir", "-p", "/a b"}, {"false"}, {"break"}} {
		_, _ = f.client.Run(ctx, argv, []byte("a secret"))
	}
	told.want(t,
		"request: sudo mkdir -p '/a b', took time true, failed false",
		"request: false, took time true, failed false",
		"request: break, took time true, failed true")
}
