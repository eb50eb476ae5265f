package catalog_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/catalog"
	"config-server/internal/farm"
	"config-server/internal/podspec"
	"config-server/internal/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stand plays every part. What a test does not set goes well.
type stand struct {
	*catalog.Service

	pins      map[string]farm.Pin
	pinsErr   error
	putErr    error
	pods      []farm.Pod
	podsErr   error
	template  *corev1.PodTemplate // nil = there is none
	read      error               // of PodTemplate
	secrets   map[string]farm.Secret
	secretErr error
	digest    func(image farm.Image, logins []registry.Login) (string, error)

	created  *corev1.Pod
	create   error
	start    error
	log      func(ctx context.Context) (io.ReadCloser, error)
	end      farm.PodEnd
	endErr   error
	left     []farm.Pod
	leftErr  error
	removing error

	now    time.Time
	logged bytes.Buffer

	mu    sync.Mutex
	calls []string
}

func newStand(t *testing.T, change func(*stand)) *stand {
	t.Helper()
	s := &stand{pins: map[string]farm.Pin{}, secrets: map[string]farm.Secret{}, now: time.Date(2026, 11, 30, 8, 15, 0, 123, time.UTC)}
	if change != nil {
		change(s)
	}
	s.Service = catalog.New(catalog.Options{
		Pins: s, Registry: s, Cluster: cluster{s}, SessionTemplate: "session", StartLimit: time.Minute,
		Settings:  podspec.Settings{Namespace: "ailab-infra", ImagePullPolicy: "Never"},
		RequestID: func(context.Context) string { return "r-1" },
		Now:       func() time.Time { return s.now }, Log: slog.New(slog.NewTextHandler(&s.logged, nil)),
	})
	return s
}

func (s *stand) note(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

// called counts the calls that begin with a word.
func (s *stand) called(word string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, call := range s.calls {
		if strings.HasPrefix(call, word) {
			n++
		}
	}
	return n
}

func (s *stand) List(context.Context) ([]farm.Pin, error) {
	var all []farm.Pin
	for _, pin := range s.pins {
		all = append(all, pin)
	}
	return all, s.pinsErr
}

func (s *stand) Put(_ context.Context, pin farm.Pin) error {
	if s.putErr == nil {
		s.pins[pin.Image] = pin
	}
	return s.putErr
}

func (s *stand) Delete(_ context.Context, image string) (farm.Pin, bool, error) {
	pin, found := s.pins[image]
	delete(s.pins, image)
	return pin, found, s.pinsErr
}

func (s *stand) Digest(_ context.Context, image farm.Image, logins []registry.Login) (string, error) {
	s.note(fmt.Sprintf("digest %s with %d", image, len(logins)))
	if s.digest != nil {
		return s.digest(image, logins)
	}
	return digestA, nil
}

// cluster is the stand as the API server.
type cluster struct{ *stand }

func (c cluster) KnownPods(context.Context) ([]farm.Pod, error) { return c.pods, c.podsErr }

func (c cluster) PodTemplate(_ context.Context, name string) (corev1.PodTemplate, bool, error) {
	c.note("template " + name)
	if c.template == nil || c.read != nil {
		return corev1.PodTemplate{}, false, c.read
	}
	return *c.template, true, nil
}

func (c cluster) Secret(_ context.Context, name string) (farm.Secret, bool, error) {
	c.note("secret " + name)
	secret, found := c.secrets[name]
	return secret, found, c.secretErr
}

func (c cluster) CreatePod(_ context.Context, pod *corev1.Pod) (farm.Pod, error) {
	c.note("create")
	c.created = pod
	if c.create != nil {
		return farm.Pod{}, c.create
	}
	return farm.Pod{Name: farm.PodName(pod.Name), UID: "uid-1"}, nil
}

func (c cluster) Pod(_ context.Context, name farm.PodName) (farm.Pod, bool, error) {
	c.note("look")
	return farm.Pod{Name: name, UID: "uid-2"}, true, nil
}

func (c cluster) DeletePod(ctx context.Context, name farm.PodName, uid string) (bool, error) {
	if ctx.Err() != nil {
		c.note("delete in vain")
	}
	c.note(fmt.Sprintf("delete %s %s", strings.TrimRight(string(name), "0123456789abcdef"), uid))
	return true, c.removing
}

func (c cluster) WaitStarted(context.Context, farm.Pod, time.Duration) error { return c.start }

func (c cluster) WaitEnded(context.Context, farm.Pod, time.Duration) (farm.PodEnd, error) {
	return c.end, c.endErr
}

func (c cluster) FollowLog(ctx context.Context, _ farm.PodName, _ string) (io.ReadCloser, error) {
	return c.log(ctx)
}

func (c cluster) ExportPods(context.Context) ([]farm.Pod, error) { return c.left, c.leftErr }

const (
	digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	digestB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func forbidden() error {
	return fmt.Errorf("get it: %w", &farm.APIError{Status: 403, Err: io.ErrNoProgress})
}

// archive is a tar with the files, as programs write it: with its end filled up.
func archive(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return append(plain.Bytes(), make([]byte, 10240-plain.Len()%10240)...)
}

// logOf is what the script of an export writes for content.
func logOf(content []byte) string {
	return sizedLog(content, len(content))
}

// sizedLog is logOf with another size in its last line.
func sizedLog(content []byte, size int) string {
	text := base64.StdEncoding.EncodeToString(content)
	var lines strings.Builder
	for len(text) > 76 {
		lines.WriteString(text[:76] + "\n")
		text = text[76:]
	}
	return lines.String() + text + fmt.Sprintf("\n\n%s%d\n", podspec.ExportDone, size)
}

func writing(text string) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
}
