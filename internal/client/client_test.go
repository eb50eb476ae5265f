package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"config-server/internal/client"
	"config-server/internal/farm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// played is a service that answers everything alike.
func played(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func answers(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("X-Request-Id", "R-1")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func newClient(t *testing.T, opts client.Options) *client.Client {
	t.Helper()
	c, err := client.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestNewRefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]client.Options{
		"empty":                {URL: ""},
		"no scheme":            {URL: "127.0.0.1:8000"},
		"another scheme":       {URL: "ftp://127.0.0.1"},
		"no host":              {URL: "http://"},
		"a password in it":     {URL: "http://a:secret@127.0.0.1:8000"},
		"a query":              {URL: "http://127.0.0.1:8000?x=secret"},
		"an empty query":       {URL: "http://127.0.0.1:8000/?"},
		"a fragment":           {URL: "http://127.0.0.1:8000/#secret"},
		"an empty fragment":    {URL: "http://127.0.0.1:8000/#"},
		"a port too high":      {URL: "http://127.0.0.1:65536"},
		"a port far too high":  {URL: "http://127.0.0.1:99999999999999999999"},
		"port 0":               {URL: "http://127.0.0.1:0"},
		"a token of two lines": {URL: "http://127.0.0.1:8000", Token: "secret\r\nHost: evil"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := client.New(opts)
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestListsAreAskedWithTheTokenBelowTheAddress(t *testing.T) {
	t.Parallel()
	var asked []string
	url := played(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Internal-Token"))
		answers(200, "application/json", `{"users":[{"name":"kim","uid":20000,"gid":20000,"gecos":"김민수","home":"/home/kim","shell":"/bin/bash","later":1}],
			"groups":[{"name":"ailab","gid":20005,"members":["kim"]}]}`)(w, r)
	})
	c := newClient(t, client.Options{URL: url + "/farm/", Token: "marker"})
	users, err := c.Users(t.Context())
	if want := (client.Users{Users: []client.User{{Name: "kim", UID: 20000, GID: 20000, Gecos: "김민수", Home: "/home/kim", Shell: "/bin/bash"}}}); err != nil || !cmp.Equal(users, want) {
		t.Errorf("%+v, %v", users, err)
	}
	groups, err := c.Groups(t.Context())
	if want := (client.Groups{Groups: []client.Group{{Name: "ailab", GID: 20005, Members: []string{"kim"}}}}); err != nil || !cmp.Equal(groups, want) {
		t.Errorf("%+v, %v", groups, err)
	}
	if want := []string{"GET /farm/accounts/users marker", "GET /farm/accounts/groups marker"}; !cmp.Equal(asked, want) {
		t.Errorf("asked %v", asked)
	}
}

func TestFailuresSayWhatToDo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status     int
		kind, body string
		token      string
		says       []string
	}{
		"no token":             {401, "application/json", `{"error":"header X-Internal-Token is missing or wrong"}`, "", []string{"401", "set API_TOKEN"}},
		"wrong token":          {401, "application/json", `{"error":"header X-Internal-Token is missing or wrong"}`, "marker", []string{"401", "not the service's"}},
		"an older service":     {404, "application/json", `{"error":"no such route"}`, "", []string{"404", "of a version that does not know"}},
		"another program":      {404, "text/html", `<h1>no</h1>`, "", []string{"404", "something else"}},
		"a failure of a part":  {500, "application/json", `{"error":"the share is away"}`, "", []string{"500: the share is away", "request id R-1"}},
		"a failure of a pod":   {500, "application/json", `{"step":"X","error":"CODE","detail":"said in words"}`, "", []string{"CODE: said in words"}},
		"shutting down":        {503, "application/json", `{"error":"shutting down"}`, "", []string{"503: shutting down"}},
		"a list, but no JSON":  {200, "application/json", `{"users":`, "", []string{"read the answer of http://"}},
		"a page, and no list":  {200, "text/html", `<h1>hello</h1>`, "", []string{"read the answer of http://"}},
		"nothing":              {204, "", "", "", []string{"204", "something else"}},
		"a redirect elsewhere": {302, "text/html", `moved`, "marker", []string{"302", "something else"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			url := played(t, func(w http.ResponseWriter, r *http.Request) {
				asked++
				w.Header().Set("Location", "/elsewhere")
				answers(tc.status, tc.kind, tc.body)(w, r)
			})
			_, err := newClient(t, client.Options{URL: url, Token: tc.token}).Users(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			for _, text := range append(tc.says, url+"/accounts/users") {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v does not say %q", err, text)
				}
			}
			var refusal *client.Refusal
			if refused := errors.As(err, &refusal); refused != (tc.status != 200) || refused && refusal.Status != tc.status {
				t.Errorf("refusal %+v", refusal)
			}
			if strings.Contains(err.Error(), "marker") || asked != 1 {
				t.Errorf("asked %d times: %v", asked, err)
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = newClient(t, client.Options{URL: "http://" + address}).Users(t.Context())
	if !errors.Is(err, client.ErrUnanswered) || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "--server") {
		t.Errorf("%v", err)
	}
	if strings.Count(err.Error(), address+"/accounts/users") != 1 {
		t.Errorf("the address is told more than once: %v", err)
	}
}

// A stream that hangs is not waited for without end, and neither is one that nobody wants any more.
func TestWatchEndsWhenTheStreamHangs(t *testing.T) {
	t.Parallel()
	away := errors.New("the caller went away")
	for name, tc := range map[string]struct {
		silence time.Duration
		leave   bool
		says    string
	}{
		"silence":        {50 * time.Millisecond, false, "it said nothing for 50ms"},
		"nobody watches": {time.Minute, true, away.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := played(t, func(w http.ResponseWriter, r *http.Request) {
				answers(200, "text/event-stream", "data: {\"stage\":\"started\"}\n\n")(w, r)
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			last, err := newClient(t, client.Options{URL: url, Silence: tc.silence}).Watch(ctx, "kim", func(client.Status) error {
				if tc.leave {
					leave(away)
				}
				return nil
			})
			if last.Stage != "started" || err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%+v, %v", last, err)
			}
		})
	}
}

func TestNamesThatCannotExistAreNotAskedFor(t *testing.T) {
	t.Parallel()
	c := newClient(t, client.Options{URL: "http://127.0.0.1:1"})
	for _, name := range []string{"", "..", "a/b"} {
		if _, err := c.Status(t.Context(), name); !errors.Is(err, farm.ErrBadName) {
			t.Errorf("status of %q: %v", name, err)
		}
		if _, err := c.Watch(t.Context(), name, func(client.Status) error { return nil }); !errors.Is(err, farm.ErrBadName) {
			t.Errorf("watch of %q: %v", name, err)
		}
	}
}
