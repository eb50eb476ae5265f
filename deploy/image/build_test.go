package main

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"config-server/deploy/image/internal/tartest"
)

// The real image, built from this checkout for this machine.
func TestPlain(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it builds the program, which takes a while")
	}
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	b := newBuilder(t)
	b.platforms = []string{platform.String()}
	build(t, b)
	image := open(t, b)

	t.Run("a second build elsewhere has the same digest", func(t *testing.T) {
		again := newBuilder(t)
		again.platforms = b.platforms
		build(t, again)
		for _, name := range []string{"config-server-plain.json", "config-server-plain/index.json"} {
			if first, second := tartest.File(t, filepath.Join(b.out, name)), tartest.File(t, filepath.Join(again.out, name)); !bytes.Equal(first, second) {
				t.Errorf("%s differs:\n%s\n%s", name, first, second)
			}
		}
	})
	t.Run("what is in it", func(t *testing.T) {
		files := contents(t, image)
		for _, want := range []struct {
			path     string
			mode     int64
			uid, gid int
		}{
			{"usr/local/bin/config-server", 0o755, 0, 0}, {"etc/passwd", 0o644, 0, 0}, {"etc/group", 0o644, 0, 0}, {"etc/ssl/certs/ca-certificates.crt", 0o644, 0, 0},
			{"tmp", 0o1777, 0, 0}, {"var/lib/config-server", 0o700, 65532, 65532},
			{"usr/share/doc/config-server/sbom.spdx.json", 0o644, 0, 0}, {"usr/share/doc/config-server/THIRD_PARTY_LICENSES", 0o644, 0, 0},
		} {
			got, found := files[want.path]
			if !found || got.Mode != want.mode || got.Uid != want.uid || got.Gid != want.gid {
				t.Errorf("%s: found %v, %+v", want.path, found, got.Header)
			}
		}
		for path, file := range files {
			if strings.HasPrefix(path, "usr/share/doc/config-server/") && file.Typeflag == tar.TypeReg {
				beside := filepath.Join(b.out, "config-server-plain-linux-"+runtime.GOARCH+"."+filepath.Base(path))
				if !bytes.Equal(file.Content, tartest.File(t, beside)) {
					t.Errorf("%s is another one than %s", path, beside)
				}
			}
		}
	})
	t.Run("how it is run", func(t *testing.T) {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != "65532:65532" || config.Architecture != runtime.GOARCH || config.Config.Labels["org.opencontainers.image.version"] != b.version {
			t.Errorf("configuration %+v", config)
		}
	})
	t.Run("its list names every module of the program", func(t *testing.T) {
		info, err := buildinfo.ReadFile(filepath.Join(b.out, "work", "config-server-linux-"+runtime.GOARCH))
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Packages []struct{ Name, VersionInfo, LicenseDeclared string }
		}
		if err := json.Unmarshal(tartest.File(t, filepath.Join(b.out, "config-server-plain-linux-"+runtime.GOARCH+".sbom.spdx.json")), &doc); err != nil {
			t.Fatal(err)
		}
		listed := map[string]string{}
		for _, p := range doc.Packages {
			listed[p.Name+" "+p.VersionInfo] = p.LicenseDeclared
		}
		notices := string(tartest.File(t, filepath.Join(b.out, "config-server-plain-linux-"+runtime.GOARCH+".THIRD_PARTY_LICENSES")))
		for _, module := range info.Deps {
			name := module.Path + " " + module.Version
			if licence := listed[name]; licence == "" || licence == "NOASSERTION" {
				t.Errorf("%s has licence %q", name, licence)
			}
			if !strings.Contains(notices, "\n"+name+", ") {
				t.Errorf("no text of %s", name)
			}
		}
		if len(info.Deps) < 20 || listed["stdlib "+info.GoVersion] != "BSD-3-Clause" {
			t.Errorf("%d modules; the standard library is under %q", len(info.Deps), listed["stdlib "+info.GoVersion])
		}
	})
	t.Run("the same inputs are not built again, others are", func(t *testing.T) {
		archive := filepath.Join(b.out, "config-server-plain-linux-"+runtime.GOARCH+".tar")
		if err := os.Remove(archive); err != nil {
			t.Fatal(err)
		}
		build(t, b)
		if _, err := os.Stat(archive); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it was built again: %v", err)
		}
		b.made = b.made.Add(time.Second)
		build(t, b)
		if _, err := os.Stat(archive); err != nil {
			t.Errorf("it was not built again: %v", err)
		}
	})
	t.Run("more than the limit is refused", func(t *testing.T) {
		b.made = b.made.Add(time.Second)
		err := b.build(t.Context(), "plain", variant{platforms: []v1.Platform{platform}, limit: 1_000_000})
		if err == nil || !strings.Contains(err.Error(), "the limit is 1.0 MB") {
			t.Errorf("build: %v", err)
		}
	})
}

func TestBuildForAPlatformThatAVariantDoesNotHave(t *testing.T) {
	t.Parallel()
	b := newBuilder(t)
	b.platforms = []string{"linux/mips"}
	if err := b.build(t.Context(), "plain", variants["plain"]); err == nil || !strings.Contains(err.Error(), "linux/mips") {
		t.Errorf("build: %v", err)
	}
}

func TestTwoBuildsInOneFolderWaitForOneAnother(t *testing.T) {
	t.Parallel()
	first, second := newBuilder(t), newBuilder(t)
	second.out = first.out
	release, err := first.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	given, cancel := context.WithCancel(t.Context())
	second.say = func(string, ...any) { cancel() } // as soon as it waits, it is called off
	if _, err := second.lock(given); !errors.Is(err, context.Canceled) {
		t.Errorf("a second build beside the first: %v", err)
	}
	second.say = func(string, ...any) { release() }
	again, err := second.lock(t.Context())
	if err != nil {
		t.Fatalf("a build after the first: %v", err)
	}
	again()
}

func TestEpoch(t *testing.T) {
	for text, want := range map[string]int64{"1700000000": 1_700_000_000, "0": 0, "-1": -1, "yesterday": -1} {
		t.Setenv("SOURCE_DATE_EPOCH", text)
		got, err := epoch(t.Context(), ".")
		if refused := want < 0; refused != (err != nil) || !refused && got.Unix() != want {
			t.Errorf("epoch with %q: %v, %v", text, got, err)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if _, err := epoch(t.Context(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH") {
		t.Errorf("epoch without a repository: %v", err)
	}
}

func TestAuthoritiesAreManyAndWhole(t *testing.T) {
	t.Parallel()
	if n := bytes.Count(authorities(), []byte("-----BEGIN CERTIFICATE-----\n")); n < 100 {
		t.Errorf("%d certificate authorities", n)
	}
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	checkout, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{checkout: checkout, out: t.TempDir(), version: "v0-test", made: time.Unix(1_700_000_000, 0).UTC(), say: t.Logf}
	if err := os.Mkdir(b.work(), 0o755); err != nil {
		t.Fatal(err)
	}
	return b
}

func build(t *testing.T, b *builder) {
	t.Helper()
	if err := b.build(t.Context(), "plain", variants["plain"]); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, b *builder) v1.Image {
	t.Helper()
	image, err := tarball.ImageFromPath(filepath.Join(b.out, "config-server-plain-linux-"+runtime.GOARCH+".tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// contents are the image's files and folders by path.
func contents(t *testing.T, image v1.Image) map[string]tartest.Entry {
	t.Helper()
	extracted := mutate.Extract(image)
	defer func() { _ = extracted.Close() }()
	all := map[string]tartest.Entry{}
	for _, entry := range tartest.Entries(t, extracted) {
		all[strings.TrimSuffix(entry.Name, "/")] = entry
	}
	return all
}
