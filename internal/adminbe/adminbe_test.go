package adminbe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"config-server/internal/farm"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// newClient asks handler through a real connection.
func newClient(t *testing.T, handler http.HandlerFunc, change func(*Options)) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	opts := Options{URLTemplate: server.URL + "/api/requests/config/{username}", Timeout: 10 * time.Second, Transport: transport}
	if change != nil {
		change(&opts)
	}
	client, err := New(opts)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return client
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestURLTemplate(t *testing.T) {
	t.Parallel()
	cases := map[string]bool{
		"http://admin-prod.default/api/requests/config/{username}": true,
		"https://admin/config?user={username}&x=1":                 true,
		"http://admin/config":                                      false,
		"http://admin/{username}/{username}":                       false,
		"http://{username}/config":                                 false,
		"admin/config/{username}":                                  false,
		"ftp://admin/config/{username}":                            false,
		"http:///config/{username}":                                false,
		"http://ad min/config/{username}":                          false,
		"":                                                         false,
	}
	for template, good := range cases {
		if _, err := New(Options{URLTemplate: template}); (err == nil) != good {
			t.Errorf("New(%q): %v, want good = %v", template, err, good)
		}
	}
}

func TestUserNameIsEscapedInTheURL(t *testing.T) {
	t.Parallel()
	cases := []struct {
		template string
		user     farm.UserName
		uri      string
	}{
		{"/config/{username}", "kim", "/config/kim"},
		{"/config/{username}", "2019112233", "/config/2019112233"},
		{"/config/{username}/x", "a?b#c%d", "/config/a%3Fb%23c%25d/x"},
		{"/config?u={username}&x=1", "a&b=c", "/config?u=a%26b%3Dc&x=1"},
	}
	for _, c := range cases {
		var uri string
		client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
			uri = r.RequestURI
			_, _ = io.WriteString(w, `{"image":"i"}`)
		}, func(o *Options) {
			o.URLTemplate = strings.Replace(o.URLTemplate, "/api/requests/config/{username}", c.template, 1)
		})
		if _, err := client.UserConfig(t.Context(), c.user); err != nil || uri != c.uri {
			t.Errorf("user %q: asked %q, %v, want %q", c.user, uri, err, c.uri)
		}
	}
}

func TestImpossibleNamesAreNotAskedFor(t *testing.T) {
	t.Parallel()
	client := newClient(t, func(http.ResponseWriter, *http.Request) { t.Error("admin_be was asked") }, nil)
	for _, user := range []farm.UserName{"", ".", "..", "a/b", "a b", "a\nb"} {
		_, err := client.UserConfig(t.Context(), user)
		if e, ok := farm.AsError(err); !ok || e.Kind != farm.Invalid || e.Code != farm.InvalidCreatePodRequest {
			t.Errorf("%q: %v", user, err)
		}
	}
}

func TestAnswersAndTheirErrors(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		handler   http.HandlerFunc
		kind      farm.Kind
		code      farm.Code
		detail    string // exact, or with * a part
		wasStatus int
	}{
		"404":               {answer(404, `{}`), farm.NotFound, farm.UserConfigNotFound, "user 'kim' not found in WAS", 404},
		"404 in the answer": {answer(200, `{"status":404}`), farm.NotFound, farm.UserConfigNotFound, "user 'kim' not found in WAS", 200},
		"500":               {answer(500, `{"error":"x"}`), farm.Upstream, farm.UserConfigFetchFailed, "WAS returned 500 for user 'kim'", 500},
		"403":               {answer(403, ``), farm.Upstream, farm.UserConfigFetchFailed, "WAS returned 403 for user 'kim'", 403},
		"HTML":              {answer(200, `<html>`), farm.Upstream, farm.UserConfigFetchFailed, "*not JSON", 0},
		"empty":             {answer(204, ``), farm.Upstream, farm.UserConfigFetchFailed, "*not JSON", 0},
		"no image":          {answer(200, `{"username":"kim"}`), farm.Upstream, farm.UserConfigFetchFailed, "*image is missing", 0},
		"bad port":          {answer(200, `{"image":"i","additional_ports":[{}]}`), farm.Upstream, farm.UserConfigFetchFailed, "*additional_ports[0].internal_port", 0},
		"too long":          {answer(200, `{"image":"i","x":"`+strings.Repeat("x", MaxBody)+`"}`), farm.Upstream, farm.UserConfigFetchFailed, "*longer than 1048576 bytes", 0},
		"redirect elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/login", http.StatusFound)
		}, farm.Upstream, farm.UserConfigFetchFailed, "WAS returned 302 for user 'kim'", 302},
		"redirect in circles": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, farm.Upstream, farm.UserConfigFetchFailed, "WAS returned 302 for user 'kim'", 302},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"image"`)
		}, farm.Upstream, farm.UserConfigFetchFailed, "*EOF", 0},
		"reset": {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) },
			farm.Upstream, farm.UserConfigFetchFailed, "*EOF", 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newClient(t, c.handler, nil).UserConfig(t.Context(), "kim")
			e, ok := farm.AsError(err)
			if !ok {
				t.Fatalf("error %v, want a farm.Error", err)
			}
			if e.Kind != c.kind || e.Step != farm.StepFetchUserConfig || e.Code != c.code || e.WASStatus != c.wasStatus {
				t.Errorf("got %s %s %s %d", e.Kind, e.Step, e.Code, e.WASStatus)
			}
			if part, isPart := strings.CutPrefix(c.detail, "*"); isPart && !strings.Contains(e.Detail, part) || !isPart && e.Detail != c.detail {
				t.Errorf("detail %q, want %q", e.Detail, c.detail)
			}
		})
	}
}

func TestRedirectOnTheSameHostIsFollowed(t *testing.T) {
	t.Parallel()
	client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/") {
			http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently)
			return
		}
		_, _ = io.WriteString(w, `{"image":"i"}`)
	}, nil)
	if config, err := client.UserConfig(t.Context(), "kim"); err != nil || config.Image != "i" {
		t.Errorf("%+v, %v", config, err)
	}
}

func TestHangingAdminBEIsLeftAfterTheLimit(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]func(http.ResponseWriter){
		"before the status": func(http.ResponseWriter) {},
		"in the body": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `{"image":`)
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
				handler(w)
				<-r.Context().Done()
			}, func(o *Options) { o.Timeout = 50 * time.Millisecond })
			_, err := client.UserConfig(t.Context(), "kim")
			e, ok := farm.AsError(err)
			if !ok || e.Kind != farm.Upstream || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(e.Detail, "no answer within 50ms") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestCallerGone(t *testing.T) {
	t.Parallel()
	client := newClient(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil)
	gone := errors.New("caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := client.UserConfig(ctx, "kim"); !errors.Is(err, gone) {
		t.Errorf("error %v, want %v", err, gone)
	}
}

func TestUnreachableAdminBE(t *testing.T) {
	t.Parallel()
	client := newClient(t, answer(200, ""), func(o *Options) {
		o.URLTemplate = "http://user:tokentoken@127.0.0.1:1/config/{username}?key=tokentoken"
	})
	_, err := client.UserConfig(t.Context(), "kim")
	e, ok := farm.AsError(err)
	if !ok || e.Kind != farm.Upstream || e.Code != farm.UserConfigFetchFailed {
		t.Fatalf("error %v", err)
	}
	if strings.Contains(fmt.Sprint(err, e.Detail, e.Cause), "tokentoken") {
		t.Errorf("the template's credential is in the error: %v", err)
	}
}

func TestConnectionClosedWhileIdleIsReplaced(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	var asked atomic.Int32
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, `{"image":"i"}`)
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := New(Options{URLTemplate: server.URL + "/{username}", Transport: transport})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	for range 20 {
		if _, err := client.UserConfig(t.Context(), "kim"); err != nil {
			t.Fatalf("UserConfig: %v", err)
		}
		server.CloseClientConnections()
	}
	if asked.Load() != 20 {
		t.Errorf("asked %d times, want 20", asked.Load())
	}
}

// TestNoSecretInAnyError plants a password in answers that fail in different ways.
func TestNoSecretInAnyError(t *testing.T) {
	t.Parallel()
	const secret = "cGxhbnRlZA=="
	for _, body := range []string{
		`{"passwd_base64":"` + secret + `"}`,
		`{"passwd_base64":"` + secret + `","image":"i","additional_ports":[{"internal_port":"` + secret + `"}]}`,
		`{"passwd_base64":"` + secret + `","image":"i","gpu_nodes":[{"node_name":"a","cpu_limit":"` + secret + `"}]}`,
		`{"passwd_base64":"` + secret + `","image":"` + secret + ` x"}`,
		`{"passwd_base64":"` + secret + `"`,
		`"` + secret + `"`,
		secret,
	} {
		for _, status := range []int{200, 404, 500} {
			_, err := newClient(t, answer(status, body), nil).UserConfig(t.Context(), "kim")
			e, ok := farm.AsError(err)
			if !ok {
				t.Errorf("%d %s: no error", status, body)
				continue
			}
			if strings.Contains(fmt.Sprintf("%v %+v %v", err, e, e.Cause), secret) {
				t.Errorf("the password is in the error: %v", err)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for status, good := range map[int]bool{200: true, 404: true, 401: true, 500: false, 503: false} {
		if err := newClient(t, answer(status, `{}`), nil).Check(t.Context()); (err == nil) != good {
			t.Errorf("%d: %v, want good = %v", status, err, good)
		}
	}
	client := newClient(t, answer(200, ""), func(o *Options) { o.URLTemplate = "http://127.0.0.1:1/{username}" })
	if err := client.Check(t.Context()); err == nil {
		t.Error("Check of an unreachable admin_be gave no error")
	}
}

func TestRequestIDIsSentAlong(t *testing.T) {
	t.Parallel()
	type key struct{}
	var got []string
	client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, strings.Join(r.Header.Values("X-Request-Id"), ","))
		w.WriteHeader(http.StatusNotFound)
	}, func(o *Options) {
		o.RequestID = func(ctx context.Context) string { id, _ := ctx.Value(key{}).(string); return id }
	})
	for _, ctx := range []context.Context{context.WithValue(t.Context(), key{}, "r-1"), t.Context()} {
		if err := client.Check(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 2 || got[0] != "r-1" || got[1] != "" {
		t.Errorf("sent %q, want one id and none", got)
	}
}

func TestCallsAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		failed  bool
	}{
		"well":         {answer(200, `{"image":"x:1"}`), false},
		"unknown user": {answer(404, ``), false},
		"broken":       {answer(500, ``), true},
		"refused":      {answer(403, ``), true},
		"no answer":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			client := newClient(t, c.handler, func(o *Options) {
				o.Called = func(_ context.Context, call string, _ time.Duration, err error) {
					told = append(told, fmt.Sprint(call, ", failed ", err != nil))
				}
			})
			_, _ = client.UserConfig(t.Context(), "kim")
			if want := fmt.Sprint("get the configuration of kim, failed ", c.failed); len(told) != 1 || told[0] != want {
				t.Errorf("told %q, want %q", told, want)
			}
		})
	}
}
