package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"config-server/internal/accounts"
	"config-server/internal/farm"
	"config-server/internal/httpapi"
	"config-server/internal/obs"
	"config-server/internal/workspaces"
)

func TestRequestID(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, given string
		kept        bool
	}{
		{"sane", "admin-be:42_a.B", true},
		{"none", "", false},
		{"with a blank", "a b", false},
		{"with a quote", `a"b`, false},
		{"Korean", "요청", false},
		{"too long", strings.Repeat("a", 129), false},
		{"as long as can be", strings.Repeat("a", 128), true},
	}
	fresh := regexp.MustCompile(`^[0-9a-f]{32}$`)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen := ""
			s := newService(func(_ *httpapi.Options, s *service) {
				s.users.users = func(ctx context.Context) ([]farm.Account, error) {
					seen = obs.RequestID(ctx)
					return nil, nil
				}
			})
			req := newRequest("GET", "/accounts/users", "")
			req.Header.Set("X-Request-Id", c.given)
			returned := s.send(req).Header.Get("X-Request-Id")
			if returned != seen {
				t.Errorf("returned %q, use case saw %q", returned, seen)
			}
			if c.kept && returned != c.given {
				t.Errorf("id became %q", returned)
			}
			if !c.kept && !fresh.MatchString(returned) {
				t.Errorf("id is %q", returned)
			}
		})
	}
}

func withToken(opts *httpapi.Options, _ *service) { opts.APIToken = "s3cret-marker" }

func TestToken(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, method, path, token string
		status                    int
	}{
		{"right", "GET", "/accounts/users", "s3cret-marker", 200},
		{"none", "GET", "/accounts/users", "", 401},
		{"wrong", "GET", "/accounts/users", "s3cret-markeR", 401},
		{"a part of it", "GET", "/accounts/users", "s3cret", 401},
		{"longer", "GET", "/accounts/users", "s3cret-marker2", 401},
		{"pods too", "POST", "/create-pod", "", 401},
		{"deletion too", "POST", "/delete-pod", "", 401},
		{"page too", "GET", "/apidocs/", "", 401},
		{"description too", "GET", "/apispec_1.json", "", 401},
		{"unknown routes tell nothing", "GET", "/nothing", "", 401},
		{"health is open", "GET", "/health", "", 200},
		{"readiness is open", "GET", "/readyz", "", 200},
		{"metrics are open", "GET", "/metrics", "", 200},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(withToken)
			req := newRequest(c.method, c.path, `{"username":"u","pod_name":"ailab-u-00000000"}`)
			req.Header.Set("X-Internal-Token", c.token)
			got := s.send(req)
			if got.Status != c.status {
				t.Errorf("status is %d, want %d: %s", got.Status, c.status, got.Text)
			}
			if c.status == http.StatusUnauthorized {
				checkFamily(t, c.path, got)
				if worked := s.worked(); len(worked) > 0 {
					t.Errorf("a use case was asked: %v", worked)
				}
			}
		})
	}
}

func TestDraining(t *testing.T) {
	t.Parallel()
	cases := []struct {
		method, path string
		status       int
	}{
		{"POST", "/create-pod", 503},
		{"POST", "/delete-pod", 503},
		{"POST", "/migrate", 503},
		{"PUT", "/accounts/users", 503},
		{"DELETE", "/accounts/users/user2100", 503},
		{"PUT", "/accounts/users/user2100/groups", 503},
		{"PUT", "/accounts/groups", 503},
		{"DELETE", "/accounts/groups/a", 503},
		{"GET", "/accounts/users", 200},
		{"GET", "/accounts/users/user2100", 200},
		{"GET", "/health", 200},
		{"GET", "/readyz", 503},
		{"GET", "/metrics", 200},
	}
	for _, c := range cases {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			t.Parallel()
			s := newService(func(opts *httpapi.Options, _ *service) { opts.Draining = func() bool { return true } })
			got := s.described(t, c.method, c.path, `{}`)
			if got.Status != c.status {
				t.Errorf("status is %d, want %d: %s", got.Status, c.status, got.Text)
			}
			if c.method != "GET" {
				checkFamily(t, c.path, got)
				if worked := s.worked(); len(worked) > 0 {
					t.Errorf("a use case was asked: %v", worked)
				}
			}
		})
	}
}

// A panic anywhere is a 500 in the family's shape, and the service goes on.
func TestPanic(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	s := newService(func(opts *httpapi.Options, s *service) {
		opts.Log = obs.NewLogger(&logged, nil)
		s.pods.create = func(context.Context, workspaces.CreateRequest) (workspaces.Created, error) { panic("boom") }
		s.pods.delete = func(context.Context, string) (workspaces.Deleted, error) { panic(errors.New("boom")) }
		s.users.users = func(context.Context) ([]farm.Account, error) {
			var none *farm.Account
			return []farm.Account{*none}, nil
		}
	})
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/create-pod", `{"username":"u"}`},
		{"POST", "/delete-pod", `{"pod_name":"ailab-u-00000000"}`},
		{"GET", "/accounts/users", ""},
	} {
		got := s.described(t, c.method, c.path, c.body)
		if got.Status != 500 || strings.Contains(got.Text, "boom") {
			t.Errorf("%s: %d %s", c.path, got.Status, got.Text)
		}
		checkFamily(t, c.path, got)
	}
	if got := s.call("GET", "/accounts/users/user2100", ""); got.Status != 200 {
		t.Errorf("afterwards: %d %s", got.Status, got.Text)
	}
	if !strings.Contains(logged.String(), "boom") || !strings.Contains(logged.String(), "middleware_test.go") {
		t.Errorf("the log has neither value nor stack:\n%s", logged.String())
	}
	if text := s.call("GET", "/metrics", "").Text; !strings.Contains(text, "config_server_http_panics_total 3") {
		t.Error("panics are not counted")
	}
}

// A handler that gives up its connection on purpose is not answered.
func TestAbortedHandlerStaysAborted(t *testing.T) {
	t.Parallel()
	s := newService(func(_ *httpapi.Options, s *service) {
		s.users.users = func(context.Context) ([]farm.Account, error) { panic(http.ErrAbortHandler) }
	})
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("recovered %v", v)
		}
	}()
	s.call("GET", "/accounts/users", "")
}

// Each request has one line with id, route and outcome; no line has a body, a query or a secret.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	s := newService(withToken, func(opts *httpapi.Options, s *service) {
		opts.Log = obs.NewLogger(&logged, nil)
		s.users.createUser = func(context.Context, accounts.NewUser) (accounts.Created, error) {
			return accounts.Created{}, farm.Failf(farm.Internal, farm.StepCreateHomeDirectory, farm.NASSSHFailed, errors.New("dial: refused"), "no answer")
		}
	})
	req := newRequest("PUT", "/accounts/users?key=query-marker", `{"name":"body-marker","passwd_base64":"cGFzc3dvcmQtbWFya2Vy"}`)
	req.Header.Set("X-Request-Id", "r-1")
	req.Header.Set("X-Internal-Token", "s3cret-marker")
	s.send(req)

	var line map[string]any
	if err := json.Unmarshal(logged.Bytes(), &line); err != nil {
		t.Fatalf("not one JSON line: %v\n%s", err, logged.String())
	}
	for key, want := range map[string]any{
		"msg": "request", "level": "ERROR", "request_id": "r-1", "method": "PUT", "path": "/accounts/users",
		"status": 500.0, "code": "NAS_SSH_FAILED", "error": "CREATE_HOME_DIRECTORY NAS_SSH_FAILED: no answer: dial: refused",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	for _, secret := range []string{"marker", "cGFzc3dvcmQ"} {
		if strings.Contains(logged.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, logged.String())
		}
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, method, path, body string
		limit                    time.Duration
	}{
		{"pods", "POST", "/create-pod", `{"username":"u"}`, httpapi.DefaultPodsBudget},
		{"migrate", "POST", "/migrate", `{"username":"u","nodes":["farm5"]}`, httpapi.DefaultPodsBudget},
		{"accounts", "GET", "/accounts/users", "", httpapi.DefaultAccountsBudget},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var cause error
				wait := func(ctx context.Context) error {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return ctx.Err()
				}
				s := newService(func(_ *httpapi.Options, s *service) {
					s.pods.create = func(ctx context.Context, _ workspaces.CreateRequest) (workspaces.Created, error) {
						return workspaces.Created{}, wait(ctx)
					}
					s.pods.migrate = func(ctx context.Context, _ workspaces.MigrateRequest) (workspaces.Migrated, error) {
						return workspaces.Migrated{}, wait(ctx)
					}
					s.users.users = func(ctx context.Context) ([]farm.Account, error) { return nil, wait(ctx) }
				})
				begin := time.Now()
				got := s.call(c.method, c.path, c.body)
				if took := time.Since(begin); took != c.limit {
					t.Errorf("ended after %v, want %v", took, c.limit)
				}
				if got.Status != 500 || !errors.Is(cause, httpapi.ErrBudget) {
					t.Errorf("%d %s, cause %v", got.Status, got.Text, cause)
				}
			})
		})
	}
}

// Requests are counted by route pattern; no path that a caller makes up becomes a series.
func TestMetricsByRoutePattern(t *testing.T) {
	t.Parallel()
	s := newService()
	for _, c := range []struct{ method, path string }{
		{"GET", "/accounts/users/a"}, {"GET", "/accounts/users/b"}, {"GET", "/accounts/users/a/b"},
		{"GET", "/made-up-1"}, {"GET", "/made-up-2"}, {"BREW", "/accounts/users"}, {"POST", "/create-pod"}, {"GET", "/create-pod"},
	} {
		s.call(c.method, c.path, "")
	}
	text := s.call("GET", "/metrics", "").Text
	for _, want := range []string{
		`config_server_http_requests_total{code="200",method="GET",route="/accounts/users/{name}"} 2`,
		`config_server_http_requests_total{code="400",method="GET",route="/accounts/users/*"} 1`,
		`config_server_http_requests_total{code="404",method="GET",route="unmatched"} 2`,
		`config_server_http_requests_total{code="405",method="other",route="unmatched"} 1`,
		`config_server_http_requests_total{code="405",method="GET",route="unmatched"} 1`,
		`config_server_http_requests_total{code="400",method="POST",route="/create-pod"} 1`,
		`config_server_http_request_duration_seconds_count{method="GET",route="/accounts/users/{name}"} 2`,
		`config_server_http_requests_in_flight 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(text, "made-up") {
		t.Error("a path became a label")
	}
}

// The failures of every route are there from the start, so that the first one is an increase.
func TestFailuresBeginAtZero(t *testing.T) {
	t.Parallel()
	text := newService().call("GET", "/metrics", "").Text
	for _, route := range []string{
		`method="POST",route="/create-pod"`, `method="PUT",route="/accounts/users"`, `method="DELETE",route="/accounts/users/{name}"`,
		`method="GET",route="/pods/{username}/status"`,
	} {
		for _, code := range []string{"500", "502", "503"} {
			if want := `config_server_http_requests_total{code="` + code + `",` + route + `} 0`; !strings.Contains(text, want+"\n") {
				t.Errorf("no line %s", want)
			}
		}
	}
}

// An answer that cannot be finished is cut off instead of looking whole.
func TestPanicAfterTheAnswerBegan(t *testing.T) {
	t.Parallel()
	s := newService()
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("recovered %v", v)
		}
	}()
	s.ServeHTTP(brokenWriter{httptest.NewRecorder()}, newRequest("GET", "/accounts/users", ""))
	t.Error("the handler returned")
}

// brokenWriter panics when the body comes.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (brokenWriter) Write([]byte) (int, error) { panic("pipe") }
