package load

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Counter is a proxy that notes every call that passes it.
type Counter struct {
	URL string

	mu    sync.Mutex
	calls []*http.Request
}

// NewCounter starts a proxy in front of target, which ends with the test. A nil transport is Go's own.
func NewCounter(t testing.TB, target string, transport http.RoundTripper) *Counter {
	t.Helper()
	base, err := url.Parse(target)
	if err != nil {
		t.Fatalf("counting proxy for %s: %v", target, err)
	}
	c := new(Counter)
	silent := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(base) },
		Transport:     transport,
		FlushInterval: -1, // watches are streams
		ErrorLog:      silent,
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.calls = append(c.calls, r.Clone(r.Context()))
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = silent
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	c.URL = server.URL
	return c
}

// Take returns the calls since the last Take, without their bodies, in order.
func (c *Counter) Take() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}
