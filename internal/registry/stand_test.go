package registry_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"go.uber.org/goleak"

	"config-server/internal/farm"
	"config-server/internal/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	user     = "robot"
	password = "s3cret-of-the-registry"
	bearer   = "t0ken-of-the-registry"
)

// stand is a real registry behind a handler that a test can put in between.
type stand struct {
	t      *testing.T
	server *httptest.Server
	wrap   func(next http.Handler) http.Handler

	mu   sync.Mutex
	seen []request
}

// request is one that arrived.
type request struct{ method, path, authorization, accept string }

// newStand starts a registry with the four kinds of manifests: image, oci-image, index, list.
func newStand(t *testing.T, wrap func(next http.Handler) http.Handler) *stand {
	t.Helper()
	s := &stand{t: t}
	real := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.wrap == nil {
			real.ServeHTTP(w, r)
			return
		}
		s.note(r)
		s.wrap(real).ServeHTTP(w, r)
	}))
	t.Cleanup(s.server.Close)
	s.push()
	if wrap == nil {
		wrap = func(next http.Handler) http.Handler { return next }
	}
	s.wrap = wrap
	return s
}

func (s *stand) note(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, request{r.Method, r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("Accept")})
}

// asked lists the requests so far.
func (s *stand) asked() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.seen...)
}

func (s *stand) host() string { return strings.TrimPrefix(s.server.URL, "http://") }

func (s *stand) push() {
	s.t.Helper()
	image, err := random.Image(100, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	index, err := random.Index(100, 1, 2)
	if err != nil {
		s.t.Fatal(err)
	}
	transport := remote.WithTransport(s.server.Client().Transport)
	for tag, kind := range map[string]types.MediaType{"image": types.DockerManifestSchema2, "oci-image": types.OCIManifestSchema1} {
		err = remote.Write(s.tag(tag), mutate.MediaType(image, kind), transport)
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for tag, kind := range map[string]types.MediaType{"index": types.OCIImageIndex, "list": types.DockerManifestList} {
		if err = remote.WriteIndex(s.tag(tag), mutate.IndexMediaType(index, kind), transport); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stand) tag(tag string) name.Tag {
	s.t.Helper()
	found, err := name.NewTag(s.host() + "/team/decs:" + tag)
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// image is the image with that tag, as a user configuration would name it.
func (s *stand) image(tag string) farm.Image { return parse(s.t, s.host()+"/team/decs:"+tag) }

func parse(t testing.TB, text string) farm.Image {
	t.Helper()
	image, err := farm.ParseImage(text)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// want is the digest of a tag, as the library that pushed it has it.
func (s *stand) want(tag string) string {
	s.t.Helper()
	wrap := s.wrap
	s.wrap = nil
	defer func() { s.wrap = wrap }()
	descriptor, err := remote.Get(s.tag(tag), remote.WithTransport(s.server.Client().Transport))
	if err != nil {
		s.t.Fatal(err)
	}
	return v1.Hash(descriptor.Digest).String()
}

// client asks with a transport of its own, so that nothing is left when the test ends.
func client(t testing.TB, opts registry.Options) *registry.Client {
	t.Helper()
	if opts.Transport == nil {
		opts.Transport = &http.Transport{}
	}
	c := registry.New(opts)
	t.Cleanup(c.Close)
	return c
}

// logins are those of a .dockerconfigjson for the image.
func logins(t testing.TB, image farm.Image, pairs ...string) []registry.Login {
	t.Helper()
	var all []registry.Login
	for _, pair := range pairs {
		user, password, _ := strings.Cut(pair, ":")
		config, err := json.Marshal(map[string]any{"auths": map[string]any{image.Registry: map[string]string{"username": user, "password": password}}})
		if err != nil {
			t.Fatal(err)
		}
		var ring registry.Keyring
		if err := ring.Add(config); err != nil {
			t.Fatal(err)
		}
		all = append(all, ring.For(image)...)
	}
	return all
}

// digest asks, and fails the test if an error shows a secret.
func digest(t testing.TB, c *registry.Client, image farm.Image, with ...registry.Login) (string, error) {
	t.Helper()
	found, err := c.Digest(t.Context(), image, with)
	if err != nil {
		for _, secret := range []string{password, bearer, "cm9ib3Q6"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows a secret: %v", err)
			}
		}
		if found != "" {
			t.Errorf("digest %s beside an error", found)
		}
	}
	return found, err
}

// reaching dials one address, whatever the name that is asked for.
func reaching(addresses map[string]string, transport *http.Transport) *http.Transport {
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if to, ok := addresses[address]; ok {
			address = to
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return transport
}
