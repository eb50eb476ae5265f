package registry_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/registry"
)

// Each kind of manifest that a node pulls, a list of platforms as itself, costs one HEAD.
func TestImagesDigestOfEachKind(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	c := client(t, registry.Options{})
	for _, tag := range []string{"image", "oci-image", "index", "list"} {
		before := len(s.asked())
		want := s.want(tag)
		got, err := digest(t, c, s.image(tag))
		if err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", tag, got, err, want)
		}
		asked := s.asked()[before:]
		if len(asked) != 1 || asked[0].method != "HEAD" || asked[0].path != "/v2/team/decs/manifests/"+tag || asked[0].authorization != "" {
			t.Errorf("%s: asked %+v", tag, asked)
		}
		for _, kind := range []string{
			"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
			"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
		} {
			if !strings.Contains(asked[0].accept, kind) {
				t.Errorf("%s: %s is not accepted: %s", tag, kind, asked[0].accept)
			}
		}
	}
}

// withoutDigest takes the header from answers of the methods, or puts another in its place.
func withoutDigest(instead string, methods ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, method := range methods {
				if method == r.Method {
					w = headerEdit{w, func(h http.Header) {
						h.Del("Docker-Content-Digest")
						if instead != "" {
							h.Set("Docker-Content-Digest", instead)
						}
					}}
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// headerEdit changes an answer's header before it goes out.
type headerEdit struct {
	http.ResponseWriter
	edit func(http.Header)
}

func (h headerEdit) WriteHeader(status int) {
	h.edit(h.Header())
	h.ResponseWriter.WriteHeader(status)
}

func TestImagesDigestThatTheHeaderLacks(t *testing.T) {
	t.Parallel()
	other := "sha256:" + strings.Repeat("0", 64)
	for name, tc := range map[string]struct {
		wrap    func(http.Handler) http.Handler
		methods []string
		failure string // empty = the right digest
	}{
		"HEAD has it":             {nil, []string{"HEAD"}, ""},
		"HEAD lacks it":           {withoutDigest("", "HEAD"), []string{"HEAD", "GET"}, ""},
		"neither has it":          {withoutDigest("", "HEAD", "GET"), []string{"HEAD", "GET"}, ""},
		"HEAD has something else": {withoutDigest("none", "HEAD", "GET"), []string{"HEAD", "GET"}, ""},
		"GET has one of other bytes": {func(next http.Handler) http.Handler {
			return withoutDigest("", "HEAD")(withoutDigest(other, "GET")(next))
		}, []string{"HEAD", "GET"}, "not what the digest"},
		"HEAD is no method":       {answering("HEAD", 405, ""), []string{"HEAD", "GET"}, ""},
		"HEAD is not implemented": {answering("HEAD", 501, ""), []string{"HEAD", "GET"}, ""},
		"the manifest is empty":   {answering("", 200, ""), []string{"HEAD", "GET"}, "the manifest is empty"},
		"the manifest never ends": {answering("", 200, strings.Repeat("x", 5<<20)), []string{"HEAD", "GET"}, "larger than"},
		"GET fails after a good HEAD": {func(next http.Handler) http.Handler {
			return withoutDigest("", "HEAD")(answering("GET", 500, "")(next))
		}, []string{"HEAD", "GET"}, "it answers 500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, tc.wrap)
			want := s.want("index")
			got, err := digest(t, client(t, registry.Options{}), s.image("index"))
			if tc.failure == "" && (err != nil || got != want) || tc.failure != "" && (err == nil || !strings.Contains(err.Error(), tc.failure)) {
				t.Errorf("%s, %v; want %s %s", got, err, want, tc.failure)
			}
			var methods []string
			for _, r := range s.asked() {
				methods = append(methods, r.method)
			}
			if diff := cmp.Diff(tc.methods, methods); diff != "" {
				t.Errorf("methods (-want +got):\n%s", diff)
			}
		})
	}
}

// answering answers a method, or with an empty one all, in the registry's place.
func answering(method string, status int, body string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if method != "" && r.Method != method {
				next.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
}

func TestImagesRegistryThatSaysNo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wrap func(http.Handler) http.Handler
		is   error // nil = neither
		text string
	}{
		"no such tag":               {nil, farm.ErrNotFound, "has no such image"},
		"forbidden":                 {answering("", 403, password), farm.ErrDenied, "denied"},
		"401 without a challenge":   {answering("", 401, password), farm.ErrDenied, "denied"},
		"an error of its own":       {answering("", 500, password), nil, "it answers 500"},
		"out of service":            {answering("", 503, password), nil, "it answers 503"},
		"too many questions":        {answering("", 429, password), nil, "try again later"},
		"something that is no 200":  {answering("", 204, ""), nil, "it answers 204"},
		"a challenge of its own":    {challenging(`Negotiate`), farm.ErrDenied, "denied"},
		"a realm that is none":      {challenging(`Bearer realm="::"`), nil, "no address of a token service"},
		"a realm with a password":   {challenging(`Bearer realm="https://a:b@c/"`), nil, "no address of a token service"},
		"a realm of another scheme": {challenging(`Bearer realm="ftp://127.0.0.1/"`), nil, "without TLS"},
		"a realm without TLS":       {challenging(`Bearer realm="http://auth.example.org/token"`), nil, "without TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, tc.wrap)
			image := s.image("nothing")
			_, err := digest(t, client(t, registry.Options{}), image, logins(t, image, user+":"+password)...)
			if err == nil || !strings.Contains(err.Error(), tc.text) || errors.Is(err, farm.ErrNotFound) != (tc.is == farm.ErrNotFound) || errors.Is(err, farm.ErrDenied) != (tc.is == farm.ErrDenied) {
				t.Errorf("%v", err)
			}
			for _, r := range s.asked() {
				if r.authorization != "" {
					t.Errorf("asked with a login that nobody wanted: %+v", r)
				}
			}
		})
	}
}

func challenging(header string) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", header)
			w.WriteHeader(http.StatusUnauthorized)
		})
	}
}

func TestImagesSlowRegistryHasALimit(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := newStand(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // ends when the client gives up
			close(gone)
		})
	})
	var told error
	c := client(t, registry.Options{Limit: 50 * time.Millisecond, Called: func(_ ctx, call string, _ time.Duration, err error) {
		if !strings.HasPrefix(call, "look up an image at 127.0.0.1:") {
			t.Errorf("call %q", call)
		}
		told = err
	}})
	if _, err := digest(t, c, s.image("index")); err == nil || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("%v", err)
	}
	<-gone
	if told == nil {
		t.Error("nobody is told that the registry failed")
	}
}

// A registry that says too much is not listened to: each word of this header would be a way to log in.
func TestImagesRegistryWithAHugeHeader(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", strings.Repeat("a ", 1<<19))
			w.WriteHeader(http.StatusUnauthorized)
		})
	})
	c := registry.New(registry.Options{})
	t.Cleanup(c.Close)
	if _, err := digest(t, c, s.image("index")); err == nil || !strings.Contains(err.Error(), "headers exceeded") {
		t.Errorf("%v", err)
	}
}

// Without TLS only this machine and hosts that are named are asked, and a certificate has to be right.
func TestImagesRegistryWithoutTLS(t *testing.T) {
	t.Parallel()
	plain := newStand(t, nil)
	secret := "registry.example.org:5000"
	at := func() *http.Transport { return reaching(map[string]string{secret: plain.host()}, &http.Transport{}) }
	image := parse(t, secret+"/team/decs:index")
	if _, err := digest(t, client(t, registry.Options{Transport: at()}), image); err == nil || !strings.Contains(err.Error(), "IMAGE_REGISTRY_INSECURE") {
		t.Errorf("not named: %v", err)
	}
	if n := len(plain.asked()); n != 0 {
		t.Errorf("%d requests were sent without TLS", n)
	}
	for _, named := range []string{secret, "registry.example.org"} {
		got, err := digest(t, client(t, registry.Options{Transport: at(), Insecure: []string{named}}), image)
		if want := plain.want("index"); err != nil || got != want {
			t.Errorf("named as %s: %s, %v", named, got, err)
		}
	}
	if _, err := digest(t, client(t, registry.Options{Transport: at(), Insecure: []string{"example.org", "registry.example.org:443"}}), image); err == nil {
		t.Error("others are named, and it is asked")
	}
}

func TestImagesRegistryWithACertificate(t *testing.T) {
	t.Parallel()
	var handled bytes.Buffer
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handled.WriteString(r.Method)
		w.Header().Set("Docker-Content-Digest", "sha256:"+strings.Repeat("a", 64))
	}))
	server.Config.ErrorLog = discardLog()
	server.StartTLS()
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "https://")
	image := parse(t, host+"/team/decs:1")
	if _, err := digest(t, client(t, registry.Options{Insecure: []string{host}}), image); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("of an authority that nobody knows: %v", err)
	}
	if handled.Len() > 0 {
		t.Errorf("asked all the same: %s", handled.String())
	}
	roots := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	known := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	if got, err := digest(t, client(t, registry.Options{Transport: known}), image); err != nil || got != "sha256:"+strings.Repeat("a", 64) {
		t.Errorf("of an authority that is known: %s, %v", got, err)
	}
	wrongName := reaching(map[string]string{"registry.example.net:443": host}, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}})
	if _, err := digest(t, client(t, registry.Options{Transport: wrongName}), parse(t, "registry.example.net/team/decs:1")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("of another name: %v", err)
	}
}
