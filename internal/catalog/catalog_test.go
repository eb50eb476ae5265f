package catalog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/catalog"
	"config-server/internal/farm"
	"config-server/internal/registry"
)

func TestImagesList(t *testing.T) {
	t.Parallel()
	pin := farm.Pin{Image: "decs:1", Digest: digestB}
	s := newStand(t, func(s *stand) {
		s.pins["decs:1"], s.pins["idle:1"] = pin, farm.Pin{Image: "idle:1", Digest: digestA}
		s.pods = []farm.Pod{
			{User: "lee", Name: "ailab-lee-1", Node: "farm6", Image: "decs@" + digestB, PinnedImage: "decs:1"},
			{User: "kim", Name: "ailab-kim-2", Node: "farm5", Image: "decs@" + digestA, PinnedImage: "decs:1"},
			{User: "kim", Name: "ailab-kim-1", Node: "farm5", Image: "docker.io/library/decs:1"},
			{User: "han", Name: "ailab-han-1", Node: "farm5", Image: "user-han:latest"},
			{User: "odd", Name: "ailab-odd-1", Node: "farm5", Image: "No Image"},
		}
	})
	got, err := s.Service.List(t.Context())
	idle := farm.Pin{Image: "idle:1", Digest: digestA}
	want := []catalog.Entry{
		{Image: "No Image", Workspaces: []catalog.Run{{User: "odd", Pod: "ailab-odd-1", Node: "farm5"}}},
		{Image: "decs:1", Pin: &pin, Workspaces: []catalog.Run{
			{User: "kim", Pod: "ailab-kim-1", Node: "farm5"},
			{User: "kim", Pod: "ailab-kim-2", Node: "farm5", Digest: digestA},
			{User: "lee", Pod: "ailab-lee-1", Node: "farm6", Digest: digestB},
		}},
		{Image: "idle:1", Pin: &idle},
		{Image: "user-han:latest", Workspaces: []catalog.Run{{User: "han", Pod: "ailab-han-1", Node: "farm5"}}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	s.podsErr = errors.New("no pods")
	if _, err := s.Service.List(t.Context()); !errors.Is(err, s.podsErr) {
		t.Errorf("%v", err)
	}
	s.pinsErr = errors.New("no pins")
	if _, err := s.Service.List(t.Context()); !errors.Is(err, s.pinsErr) {
		t.Errorf("%v", err)
	}
}

func TestImagesPin(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	first, err := s.Pin(t.Context(), "docker.io/library/decs:1")
	want := catalog.Pinned{
		Pin:      farm.Pin{Image: "decs:1", Digest: digestA, PinnedAt: time.Date(2026, 11, 30, 8, 15, 0, 0, time.UTC), RequestID: "r-1"},
		Warnings: []string{"there is no PodTemplate session: no pull secrets are used"},
	}
	if diff := cmp.Diff(want, first); err != nil || diff != "" {
		t.Fatalf("%v (-want +got)\n%s", err, diff)
	}
	if diff := cmp.Diff(map[string]farm.Pin{"decs:1": want.Pin}, s.pins); diff != "" {
		t.Errorf("kept (-want +got)\n%s", diff)
	}
	s.digest = func(farm.Image, []registry.Login) (string, error) { return digestB, nil }
	again, err := s.Pin(t.Context(), "decs:1")
	if err != nil || again.Before != digestA || again.Digest != digestB || s.pins["decs:1"].Digest != digestB {
		t.Errorf("pinned anew: %+v, %v", again, err)
	}
	if !strings.Contains(s.logged.String(), "image pinned") || !strings.Contains(s.logged.String(), digestB) {
		t.Errorf("log: %s", s.logged.String())
	}
	for name, tc := range map[string]struct {
		image  string
		change func(*stand)
		kind   farm.Kind
		text   string
	}{
		"no name":               {"Decs 1", nil, farm.Invalid, "is no name of an image"},
		"with a digest":         {"decs:1@" + digestA, nil, farm.Invalid, "nothing to pin"},
		"a saved image":         {"user-kim:latest", nil, farm.Invalid, "loaded from a tar"},
		"not in the registry":   {"decs:2", asks(fmt.Errorf("ask: %w", farm.ErrNotFound)), farm.NotFound, "ask: not found"},
		"not shown":             {"decs:2", asks(fmt.Errorf("ask: %w", farm.ErrDenied)), farm.Upstream, "ask: denied (there is no PodTemplate session"},
		"the registry fails":    {"decs:2", asks(errors.New("ask: it answers 500")), farm.Upstream, "ask: it answers 500"},
		"the database fails":    {"decs:2", func(s *stand) { s.pinsErr = errors.New("read pins: down") }, farm.Unavailable, "read pins: down"},
		"the pin is not kept":   {"decs:2", func(s *stand) { s.putErr = errors.New("keep pin: down") }, farm.Unavailable, "keep pin: down"},
		"the API server fails":  {"decs:2", func(s *stand) { s.read = errors.New("down") }, farm.Unavailable, "read POD_TEMPLATE: down"},
		"secrets are not there": {"decs:2", func(s *stand) { s.template, s.secretErr = session("a"), errors.New("down") }, farm.Unavailable, "read the pull secrets of POD_TEMPLATE: down"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, tc.change)
			_, err := s.Pin(t.Context(), tc.image)
			told, ok := farm.AsError(err)
			if !ok || told.Kind != tc.kind || !strings.Contains(told.Detail, tc.text) || len(s.pins) > 0 {
				t.Errorf("%v, %d pins", err, len(s.pins))
			}
		})
	}
}

func asks(err error) func(*stand) {
	return func(s *stand) { s.digest = func(farm.Image, []registry.Login) (string, error) { return "", err } }
}

func TestImagesUnpin(t *testing.T) {
	t.Parallel()
	pin := farm.Pin{Image: "decs:latest", Digest: digestA}
	s := newStand(t, func(s *stand) { s.pins[pin.Image] = pin })
	got, err := s.Unpin(t.Context(), "docker.io/library/decs")
	if err != nil || got != pin || len(s.pins) != 0 || s.called("digest") != 0 {
		t.Errorf("%+v, %v, %d pins, %v", got, err, len(s.pins), s.calls)
	}
	for image, kind := range map[string]farm.Kind{"decs": farm.NotFound, "Decs": farm.Invalid, "": farm.Invalid} {
		if _, err := s.Unpin(t.Context(), image); farmKind(err) != kind {
			t.Errorf("%q: %v", image, err)
		}
	}
	s.pinsErr = errors.New("down")
	if _, err := s.Unpin(t.Context(), "decs"); farmKind(err) != farm.Unavailable {
		t.Errorf("%v", err)
	}
}

func farmKind(err error) farm.Kind {
	told, ok := farm.AsError(err)
	if !ok {
		return ""
	}
	return told.Kind
}

// session is a template of every session with pull secrets.
func session(secrets ...string) *corev1.PodTemplate {
	template := &corev1.PodTemplate{}
	for _, name := range secrets {
		template.Template.Spec.ImagePullSecrets = append(template.Template.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return template
}

func pullSecret(host, user string) farm.Secret {
	config := fmt.Sprintf(`{"auths":{%q:{"username":%q,"password":"s3cret"}}}`, host, user)
	return farm.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)}}
}

// Logins are read once a minute; what is in the way of some is told with each pin, and shows nothing.
func TestImagesLoginsOfTheSession(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(s *stand) {
		s.template = session("lab", "gone", "odd", "broken")
		s.secrets = map[string]farm.Secret{
			"lab": pullSecret("registry.example.org", "robot"), "odd": {Data: map[string][]byte{"key": nil}},
			"broken": {Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("s3cret")}},
		}
	})
	pin := func() catalog.Pinned {
		t.Helper()
		made, err := s.Pin(t.Context(), "registry.example.org/decs:1")
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	want := []string{
		"there is no pull secret gone", "pull secret odd has no .dockerconfigjson",
		"pull secret broken: it is no JSON object of registries' logins",
	}
	for range 3 {
		if diff := cmp.Diff(want, pin().Warnings); diff != "" {
			t.Errorf("warnings (-want +got)\n%s", diff)
		}
	}
	if s.called("template") != 1 || s.called("secret") != 4 || s.called("digest registry.example.org/decs:1 with 1") != 3 {
		t.Errorf("within a minute: %v", s.calls)
	}
	if strings.Contains(s.logged.String(), "s3cret") || strings.Count(s.logged.String(), "there is no pull secret gone") != 1 {
		t.Errorf("log: %s", s.logged.String())
	}

	// A minute later they are others.
	s.template, s.secrets["more"] = session("lab", "more"), pullSecret("*.example.org", "other")
	s.now = s.now.Add(59 * time.Second)
	pin()
	if n := s.called("template"); n != 1 {
		t.Errorf("after 59 s: %d readings", n)
	}
	s.now = s.now.Add(time.Second)
	if made := pin(); len(made.Warnings) != 0 || s.called("digest registry.example.org/decs:1 with 2") != 1 {
		t.Errorf("after a minute: %+v, %v", made, s.calls)
	}

	// Without the rights the registry is asked as anybody may.
	s.now, s.secretErr = s.now.Add(time.Hour), forbidden()
	made := pin()
	if diff := cmp.Diff([]string{
		"pull secret lab may not be read (get secrets): registries are asked without it",
		"pull secret more may not be read (get secrets): registries are asked without it",
	}, made.Warnings); diff != "" || s.called("digest registry.example.org/decs:1 with 0") != 1 {
		t.Errorf("without the right to Secrets: %v (-want +got)\n%s", s.calls, diff)
	}
	s.now, s.read = s.now.Add(time.Hour), forbidden()
	if made := pin(); len(made.Warnings) != 1 || !strings.HasPrefix(made.Warnings[0], "PodTemplate session may not be read") {
		t.Errorf("without the right to templates: %v", made.Warnings)
	}
}
