package faultproxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"config-server/internal/testkit/faultproxy"
)

// backend counts the requests that arrive, and streams lines to those for /watch.
func backend(t *testing.T) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var arrived atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		if r.URL.Path == "/watch" {
			_, _ = io.WriteString(w, "first\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "well")
	}))
	t.Cleanup(server.Close)
	return server, &arrived
}

func TestHTTPFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		fault   faultproxy.HTTPFault
		want    string // status and body, or "broken" or "hangs"
		arrived int32
	}{
		{"nothing", faultproxy.HTTPFault{Match: "^DELETE "}, "200 well", 1},
		{"a hook alone looks on", faultproxy.HTTPFault{Hook: func() {}}, "200 well", 1},
		{"a status", faultproxy.HTTPFault{Status: 403, Reason: "Forbidden"}, `403 {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the fault proxy says so","reason":"Forbidden","code":403}`, 0},
		{"a body", faultproxy.HTTPFault{Match: `^GET /some\?a=b$`, Body: "{"}, "200 {", 0},
		{"the answer is lost", faultproxy.HTTPFault{After: true, Reset: true}, "broken", 1},
		{"a broken connection", faultproxy.HTTPFault{Reset: true}, "broken", 0},
		{"no answer", faultproxy.HTTPFault{Hang: true}, "hangs", 0},
		{"skipped", faultproxy.HTTPFault{Skip: 1, Status: 500}, "200 well", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server, arrived := backend(t)
			proxy := faultproxy.NewHTTP(t, server.URL, nil)
			proxy.Fail(test.fault)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			if test.want != "hangs" {
				ctx = t.Context()
			}
			if got := get(ctx, t, proxy.URL+"/some?a=b"); got != test.want || arrived.Load() != test.arrived {
				t.Errorf("got %q after %d requests, want %q after %d", got, arrived.Load(), test.want, test.arrived)
			}
		})
	}
}

func TestHTTPFaultsAreUsedUp(t *testing.T) {
	t.Parallel()
	server, _ := backend(t)
	proxy := faultproxy.NewHTTP(t, server.URL, nil)
	proxy.Fail(faultproxy.HTTPFault{Times: 1, Body: "one"}, faultproxy.HTTPFault{Skip: 1, Times: 1, Body: "three"})
	var got []string
	for range 4 {
		got = append(got, get(t.Context(), t, proxy.URL))
	}
	if want := []string{"200 one", "200 well", "200 three", "200 well"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if hits := proxy.Hits(); !slices.Equal(hits, []int{1, 1}) {
		t.Errorf("hits: %v", hits)
	}
}

func TestOpenWatchesAreBroken(t *testing.T) {
	t.Parallel()
	server, _ := backend(t)
	proxy := faultproxy.NewHTTP(t, server.URL, nil)
	response, err := http.Get(proxy.URL + "/watch")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewReader(response.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" || err != nil {
		t.Fatalf("%q %v", line, err)
	}
	proxy.BreakOpen()
	if rest, err := io.ReadAll(lines); err == nil {
		t.Errorf("the watch ended well: %q", rest)
	}
}

func get(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "hangs"
	case err != nil:
		return "broken"
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "broken"
	}
	return strings.TrimSpace(response.Status[:3] + " " + string(body))
}
