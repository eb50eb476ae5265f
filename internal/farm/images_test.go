package farm_test

import (
	"strings"
	"testing"

	"config-server/internal/farm"
)

func TestImagesNames(t *testing.T) {
	t.Parallel()
	const hex = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	deep := strings.Repeat("a/", 100) + "b"
	for name, want := range map[string]struct{ registry, repository, reference, short, at string }{
		"decs":                              {"docker.io", "library/decs", "latest", "decs:latest", "decs@d"},
		"docker.io/library/decs:latest":     {"docker.io", "library/decs", "latest", "decs:latest", "decs@d"},
		"dguailab/decs:1.0":                 {"docker.io", "dguailab/decs", "1.0", "dguailab/decs:1.0", "dguailab/decs@d"},
		"index.docker.io/dguailab/decs:1.0": {"docker.io", "dguailab/decs", "1.0", "dguailab/decs:1.0", "dguailab/decs@d"},
		"r.example.org:5000/a/b/c":          {"r.example.org:5000", "a/b/c", "latest", "r.example.org:5000/a/b/c:latest", "r.example.org:5000/a/b/c@d"},
		"localhost/a@sha256:" + hex:         {"localhost", "a", "sha256:" + hex, "localhost/a@sha256:" + hex, "localhost/a@d"},
		"localhost/a:1@sha256:" + hex:       {"localhost", "a", "sha256:" + hex, "localhost/a:1@sha256:" + hex, "localhost/a@d"},
		"[2001:db8::1]:5000/a:1":            {"[2001:db8::1]:5000", "a", "1", "[2001:db8::1]:5000/a:1", "[2001:db8::1]:5000/a@d"},
		"127.0.0.1:5000/" + deep:            {"127.0.0.1:5000", deep, "latest", "127.0.0.1:5000/" + deep + ":latest", "127.0.0.1:5000/" + deep + "@d"},
	} {
		image, err := farm.ParseImage(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if image.Registry != want.registry || image.Repository != want.repository || image.Reference() != want.reference || image.String() != want.short || image.At("d") != want.at {
			t.Errorf("%s: %+v, %s, %s", name, image, image, image.At("d"))
		}
		if again, err := farm.ParseImage(image.String()); err != nil || again != image {
			t.Errorf("%s: read again it is %+v, %v", image, again, err)
		}
	}
	bad := []string{
		"", " ", "decs:", "Decs", "a b", "decs:1 2", "decs@sha256:1", "https://a/b", "a/../b", "a//b", "/a", "a/", "-a", "\uac00", "a:b:c", "a\n", hex, strings.Repeat("a", 401),
	}
	for _, name := range bad {
		if image, err := farm.ParseImage(name); err == nil {
			t.Errorf("%q is taken as %+v", name, image)
		}
	}
	for name, saved := range map[string]bool{
		"user-kim:latest": true, "user-kim": true, "docker.io/library/user-kim:latest": true,
		"user-kim:1": false, "user/kim:latest": false, "registry.example.org/user-kim:latest": false, "users:latest": false,
	} {
		if image, err := farm.ParseImage(name); err != nil || image.Saved() != saved {
			t.Errorf("%s: saved %v, %v", name, image.Saved(), err)
		}
	}
}
