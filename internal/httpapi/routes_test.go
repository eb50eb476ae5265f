package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/api"
	"config-server/internal/httpapi"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	got := newService().described(t, "GET", "/health", "")
	if got.Status != 200 || got.Text != "OK" || got.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d %q %v", got.Status, got.Text, got.Header)
	}
}

// Health asks nobody: it answers while everything that could hold it up hangs.
func TestHealthIsAskedBeforeEverything(t *testing.T) {
	t.Parallel()
	s := newService(withToken, func(opts *httpapi.Options, _ *service) {
		opts.Draining = func() bool { panic("asked") }
		opts.Ready = []httpapi.Check{{Name: "x", Run: func(context.Context) error { panic("asked") }}}
	})
	if got := s.call("GET", "/health", ""); got.Status != 200 {
		t.Errorf("%d %s", got.Status, got.Text)
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	cases := []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/", 404, ""},
		{"GET", "/nothing", 404, ""},
		{"GET", "/accounts", 404, ""},
		{"GET", "/create-pod/", 404, ""},
		{"GET", "/apidocs/nothing.js", 404, ""},
		{"POST", "/health", 405, "GET"},
		{"POST", "/metrics", 405, "GET"},
		{"GET", "/create-pod", 405, "POST"},
		{"PUT", "/delete-pod", 405, "POST"},
		{"DELETE", "/migrate", 405, "POST"},
		{"POST", "/accounts/users", 405, "GET, PUT"},
		{"PATCH", "/accounts/users", 405, "GET, PUT"},
		{"POST", "/accounts/groups", 405, "GET, PUT"},
		{"GET", "/accounts/groups/a", 405, "DELETE"},
		{"POST", "/accounts/users/a", 405, "GET, DELETE"},
		{"PUT", "/accounts/users/a", 405, "GET, DELETE"},
		{"POST", "/accounts/users/a/groups", 405, "PUT"},
		{"POST", "/accounts/users/a/b", 405, "GET, DELETE"},
		{"POST", "/accounts/groups/a/b", 405, "DELETE"},
		{"POST", "/pods/a/status", 405, "GET"},
		{"OPTIONS", "/accounts/users", 405, "GET, PUT"},
		{"BREW", "/create-pod", 405, "POST"},
	}
	for _, c := range cases {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			got := newService().call(c.method, c.path, "{}")
			if got.Status != c.status {
				t.Errorf("status is %d, want %d: %s", got.Status, c.status, got.Text)
			}
			if allow := got.Header.Get("Allow"); allow != c.allow {
				t.Errorf("Allow is %q, want %q", allow, c.allow)
			}
			checkFamily(t, c.path, got)
		})
	}
}

func TestHEADWhereverGET(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/health", "/readyz", "/metrics", "/apidocs/", "/apispec_1.json", "/accounts/users", "/accounts/users/user2100", "/accounts/groups", "/workspaces", "/nodes", "/findings"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			if got := newService().call("HEAD", path, ""); got.Status != 200 {
				t.Errorf("status is %d", got.Status)
			}
		})
	}
}

// Everything that the page names comes from the service itself.
func TestPageNeedsNothingFromOutside(t *testing.T) {
	t.Parallel()
	s := newService()
	fetched := map[string]bool{}
	var fetch func(address string)
	fetch = func(address string) {
		if fetched[address] || strings.HasPrefix(address, "data:") {
			return
		}
		fetched[address] = true
		if strings.Contains(address, "://") || strings.HasPrefix(address, "//") {
			t.Errorf("%s lies outside", address)
			return
		}
		target := address
		if !strings.HasPrefix(address, "/") {
			target = "/apidocs/" + strings.TrimPrefix(address, "./")
		}
		got := s.call("GET", target, "")
		if got.Status != 200 || got.Text == "" {
			t.Errorf("%s: %d", target, got.Status)
		}
		for _, next := range links(got) {
			fetch(next)
		}
	}
	fetch("/apidocs/")
	for _, must := range []string{"./swagger-ui.css", "./swagger-ui-bundle.js", "./swagger-initializer.js"} {
		if !fetched[must] {
			t.Errorf("the page does not name %s: %v", must, fetched)
		}
	}
}

var (
	attribute = regexp.MustCompile(`(?:src|href)="([^"#]+)"`)
	styleURL  = regexp.MustCompile(`url\(["']?([^"')]+)["']?\)`)
)

// links lists the addresses in a page or a style sheet.
func links(got answer) []string {
	pattern := attribute
	switch kind := got.Header.Get("Content-Type"); {
	case strings.HasPrefix(kind, "text/css"):
		pattern = styleURL
	case !strings.HasPrefix(kind, "text/html"):
		return nil
	}
	var found []string
	for _, match := range pattern.FindAllStringSubmatch(got.Text, -1) {
		found = append(found, match[1])
	}
	return found
}

func TestDocumentation(t *testing.T) {
	t.Parallel()
	s := newService()
	want, err := api.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object(t, string(want)), s.described(t, "GET", "/apispec_1.json", "").object(t)); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
	if page := s.described(t, "GET", "/apidocs/", ""); !strings.Contains(page.Text, "swagger-ui") {
		t.Errorf("page: %s", page.Text)
	}
	if got := s.call("GET", "/apidocs", ""); got.Status != http.StatusPermanentRedirect || got.Header.Get("Location") != "/apidocs/" {
		t.Errorf("redirect: %d %q", got.Status, got.Header.Get("Location"))
	}
	if start := s.call("GET", "/apidocs/swagger-initializer.js", ""); !strings.Contains(start.Text, `"../apispec_1.json"`) {
		t.Errorf("start: %s", start.Text)
	}
}

func check(name string, run func(ctx context.Context) error) func(*httpapi.Options, *service) {
	return func(opts *httpapi.Options, _ *service) {
		opts.Ready = append(opts.Ready, httpapi.Check{Name: name, Run: run})
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	fine := func(context.Context) error { return nil }
	broken := func(context.Context) error { return errors.New("connection refused") }
	cases := []struct {
		name   string
		checks []func(*httpapi.Options, *service)
		status int
		text   string
		errors []string
	}{
		{"no parts", nil, 200, "ready", nil},
		{"all well", []func(*httpapi.Options, *service){check("a", fine), check("b", fine)}, 200, "ready", []string{"", ""}},
		{"one broken", []func(*httpapi.Options, *service){check("a", fine), check("b", broken)}, 503, "not ready", []string{"", "connection refused"}},
		{"one panics", []func(*httpapi.Options, *service){check("a", func(context.Context) error { panic("boom") })}, 503, "not ready", []string{"panic: boom"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(c.checks...)
			got := s.described(t, "GET", "/readyz", "")
			body := got.object(t)
			if got.Status != c.status || body["status"] != c.text {
				t.Errorf("%d %s", got.Status, got.Text)
			}
			var told []string
			for _, result := range body["checks"].([]any) {
				text, _ := result.(map[string]any)["error"].(string)
				told = append(told, text)
			}
			if diff := cmp.Diff(c.errors, told); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if c.name == "one broken" {
				checkParts(t, s, `config_server_part_ready{part="a"} 1`, `config_server_part_ready{part="b"} 0`)
			}
		})
	}
}

func checkParts(t *testing.T, s *service, want ...string) {
	t.Helper()
	text := s.call("GET", "/metrics", "").Text
	for _, line := range want {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// The parts can be asked without a request, for the metrics. One who gives up says nothing of them.
func TestAskParts(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	s := newService(check("a", func(context.Context) error {
		if down.Load() {
			return errors.New("connection refused")
		}
		return nil
	}))
	if strings.Contains(s.call("GET", "/metrics", "").Text, "config_server_part_ready{") {
		t.Error("a part is told that was never asked")
	}
	s.AskParts(t.Context())
	checkParts(t, s, `config_server_part_ready{part="a"} 1`)
	down.Store(true)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.AskParts(gone)
	checkParts(t, s, `config_server_part_ready{part="a"} 1`)
	s.AskParts(t.Context())
	checkParts(t, s, `config_server_part_ready{part="a"} 0`)
}

// A part that hangs and does not listen to its deadline costs each caller the limit and is asked once.
func TestReadinessOfAPartThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var asked atomic.Int32
		s := newService(check("deaf", func(context.Context) error {
			asked.Add(1)
			<-release
			return nil
		}))
		for range 3 {
			begin := time.Now()
			got := s.call("GET", "/readyz", "")
			if took := time.Since(begin); took != httpapi.DefaultReadyLimit {
				t.Errorf("answered after %v", took)
			}
			if got.Status != 503 || !strings.Contains(got.Text, "no answer in time") {
				t.Errorf("%d %s", got.Status, got.Text)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		close(release)
		synctest.Wait()
		if got := s.call("GET", "/readyz", ""); got.Status != 200 {
			t.Errorf("afterwards: %d %s", got.Status, got.Text)
		}
	})
}
