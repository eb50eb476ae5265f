package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/registry"
)

type ctx = context.Context

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

// tokens is a token service. It gives the token to the user, or to anybody.
type tokens struct {
	*httptest.Server
	anybody bool
	answer  string // empty = {"token": ...}

	mu   sync.Mutex
	seen []string
}

func newTokens(t *testing.T) *tokens {
	t.Helper()
	s := &tokens{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, secret, has := r.BasicAuth()
		s.mu.Lock()
		s.seen = append(s.seen, fmt.Sprintf("%s %s service=%s scope=%s user=%s", r.Method, r.URL.Path, r.FormValue("service"), strings.Join(r.Form["scope"], "+"), name))
		s.mu.Unlock()
		if has && (name != user || secret != password) || !has && !s.anybody {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer := s.answer
		if answer == "" {
			answer = `{"token":"` + bearer + `","expires_in":300}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokens) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// guarded lets only requests with the Authorization pass, and says by challenge how to get it.
func guarded(authorization, challenge string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != authorization {
				w.Header().Set("WWW-Authenticate", challenge)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func TestImagesTokens(t *testing.T) {
	t.Parallel()
	const right, wrong = user + ":" + password, "other:nothing"
	for name, tc := range map[string]struct {
		parameters string // of the challenge, behind the realm
		logins     []string
		anybody    bool
		answer     string
		wrap       func(http.Handler) http.Handler // between the guard and the registry
		seen       []string
		failure    string
	}{
		"with service and scope": {parameters: `,service="registry.example.org",scope="repository:team/decs:pull"`, logins: []string{right},
			seen: []string{"GET /token service=registry.example.org scope=repository:team/decs:pull user=robot"}},
		"several scopes": {parameters: `,scope="repository:team/decs:pull repository:team/base:pull,push"`, logins: []string{right},
			seen: []string{"GET /token service= scope=repository:team/decs:pull+repository:team/base:pull,push user=robot"}},
		"without service and scope": {logins: []string{right}, seen: []string{"GET /token service= scope=repository:team/decs:pull user=robot"}},
		"for anybody":               {parameters: `,service=s`, anybody: true, seen: []string{"GET /token service=s scope=repository:team/decs:pull user="}},
		"the second login is good": {logins: []string{wrong, right},
			seen: []string{"GET /token service= scope=repository:team/decs:pull user=other", "GET /token service= scope=repository:team/decs:pull user=robot"}},
		"no login is good": {logins: []string{wrong}, seen: []string{"GET /token service= scope=repository:team/decs:pull user=other"}, failure: "denied"},
		"no login":         {seen: []string{"GET /token service= scope=repository:team/decs:pull user="}, failure: "denied"},
		"as access_token":  {logins: []string{right}, answer: `{"access_token":"` + bearer + `"}`, seen: []string{"GET /token service= scope=repository:team/decs:pull user=robot"}},
		"no token":         {logins: []string{right}, answer: `{}`, seen: []string{"GET /token service= scope=repository:team/decs:pull user=robot"}, failure: "no token in it"},
		"a broken token":   {logins: []string{right}, answer: `{"token":"` + bearer + `\n"}`, seen: []string{"GET /token service= scope=repository:team/decs:pull user=robot"}, failure: "no token in it"},
		"no JSON":          {logins: []string{right}, answer: bearer, seen: []string{"GET /token service= scope=repository:team/decs:pull user=robot"}, failure: "no JSON object"},
		"the token serves for the GET too": {logins: []string{right}, wrap: withoutDigest("", "HEAD"),
			seen: []string{"GET /token service= scope=repository:team/decs:pull user=robot"}},
		"the token is not enough": {logins: []string{right}, wrap: answering("", 403, ""), seen: []string{"GET /token service= scope=repository:team/decs:pull user=robot"}, failure: "denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := newTokens(t)
			service.anybody, service.answer = tc.anybody, tc.answer
			guard := guarded("Bearer "+bearer, `Basic realm="x", Bearer realm="`+service.URL+`/token"`+tc.parameters)
			s := newStand(t, func(next http.Handler) http.Handler {
				if tc.wrap != nil {
					next = tc.wrap(next)
				}
				return guard(next)
			})
			image, want := s.image("index"), s.want("index")
			got, err := digest(t, client(t, registry.Options{}), image, logins(t, image, tc.logins...)...)
			if tc.failure == "" && (err != nil || got != want) || tc.failure != "" && (err == nil || !strings.Contains(err.Error(), tc.failure)) {
				t.Errorf("%s, %v; want %s %s", got, err, want, tc.failure)
			}
			if denied := tc.failure == "denied"; errors.Is(err, farm.ErrDenied) != denied {
				t.Errorf("%v", err)
			}
			if diff := cmp.Diff(tc.seen, service.asked()); diff != "" {
				t.Errorf("the token service was asked (-want +got):\n%s", diff)
			}
			for i, r := range s.asked() {
				if i == 0 && r.authorization != "" || strings.HasPrefix(r.authorization, "Basic") {
					t.Errorf("request %d came with %s", i, r.authorization)
				}
			}
		})
	}
}

func TestImagesBasicLogin(t *testing.T) {
	t.Parallel()
	basic := "Basic cm9ib3Q6czNjcmV0LW9mLXRoZS1yZWdpc3RyeQ=="
	s := newStand(t, guarded(basic, `Basic realm="team, and others"`))
	image, want := s.image("index"), s.want("index")
	c := client(t, registry.Options{})
	if got, err := digest(t, c, image, logins(t, image, "a:b", user+":"+password)...); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	for _, with := range [][]registry.Login{nil, logins(t, image, "a:b")} {
		if _, err := digest(t, c, image, with...); !errors.Is(err, farm.ErrDenied) {
			t.Errorf("with %d logins: %v", len(with), err)
		}
	}
}

// Redirects are followed, and no login goes along: not to another host, not to another port of the same.
func TestImagesRedirects(t *testing.T) {
	t.Parallel()
	behind := newStand(t, nil) // what the registry sends to
	service := newTokens(t)
	to := func(target string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		})
	}
	front := newStand(t, func(http.Handler) http.Handler {
		return guarded("Bearer "+bearer, `Bearer realm="`+service.URL+`/token"`)(to(behind.server.URL))
	})
	image := front.image("index")
	with := logins(t, image, user+":"+password)
	c := client(t, registry.Options{})
	if got, err := digest(t, c, image, with...); err != nil || got != behind.want("index") {
		t.Fatalf("%s, %v", got, err)
	}
	asked := behind.asked()
	if len(asked) != 1 || asked[0].authorization != "" || asked[0].method != "HEAD" || !strings.Contains(asked[0].accept, "index") {
		t.Errorf("behind the redirect: %+v", asked)
	}

	// One that wants a login itself gets none, and nobody asks whom it names.
	greedy := newTokens(t)
	greedy.anybody = true
	behind.wrap = guarded("Bearer "+bearer, `Bearer realm="`+greedy.URL+`/token"`)
	if _, err := digest(t, c, image, with...); !errors.Is(err, farm.ErrDenied) {
		t.Errorf("a login is wanted behind a redirect: %v", err)
	}
	if seen := greedy.asked(); len(seen) > 0 {
		t.Errorf("it got %v", seen)
	}

	// A token service that sends elsewhere.
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("behind the token service: %s", r.Header.Get("Authorization"))
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(elsewhere.Close)
	sending := httptest.NewServer(to(elsewhere.URL))
	t.Cleanup(sending.Close)
	front.wrap = guarded("Bearer "+bearer, `Bearer realm="`+sending.URL+`/token"`)
	if _, err := digest(t, c, image, with...); !errors.Is(err, farm.ErrDenied) {
		t.Errorf("a token service that sends elsewhere: %v", err)
	}

	front.wrap = func(http.Handler) http.Handler { return to(front.server.URL + "/again") }
	if _, err := digest(t, c, image); err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("for ever: %v", err)
	}
	front.wrap = func(http.Handler) http.Handler { return to("http://registry.example.org") }
	if _, err := digest(t, c, image); err == nil || !strings.Contains(err.Error(), "without TLS") {
		t.Errorf("to a host that has to have TLS: %v", err)
	}
}
