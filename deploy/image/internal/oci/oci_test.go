package oci_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"config-server/deploy/image/internal/oci"
	"config-server/deploy/image/internal/tartest"
)

var (
	made  = time.Unix(1_700_000_000, 0)
	amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}
	arm64 = v1.Platform{OS: "linux", Architecture: "arm64"}
)

func TestWriteAddsFoldersAndSorts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.WriteFile(source, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []oci.File{
		{Path: "usr/bin/x", Mode: 0o755, Source: source},
		{Path: "tmp", Mode: 0o1777, Folder: true},
		{Path: "etc/passwd", Mode: 0o644, Content: []byte("root\n")},
		{Path: "var/lib/x", Mode: 0o700, UID: 65532, GID: 65532, Folder: true},
	}
	layer := write(t, filepath.Join(dir, "a"), files)
	got := entries(t, layer.Path)
	want := []string{"etc/", "etc/passwd", "tmp/", "usr/", "usr/bin/", "usr/bin/x", "var/", "var/lib/", "var/lib/x/"}
	if paths := names(got); !slices.Equal(paths, want) {
		t.Fatalf("entries %q, want %q", paths, want)
	}
	for _, entry := range got {
		if !entry.ModTime.Equal(made) {
			t.Errorf("%s is of %v", entry.Name, entry.ModTime)
		}
	}
	if last := got[len(got)-1]; last.Uid != 65532 || last.Gid != 65532 || last.Mode != 0o700 {
		t.Errorf("%s belongs to %d:%d with mode %o", last.Name, last.Uid, last.Gid, last.Mode)
	}
	if got[2].Mode != 0o1777 || string(got[5].Content) != "from a file" {
		t.Errorf("/tmp has mode %o, the program %q", got[2].Mode, got[5].Content)
	}

	slices.Reverse(files)
	if again := write(t, filepath.Join(dir, "b"), files); !bytes.Equal(tartest.File(t, layer.Path), tartest.File(t, again.Path)) {
		t.Error("the same files in another order give other bytes")
	}
	if uncompressed := int64(len(gunzip(t, layer.Path))); layer.Size != uncompressed {
		t.Errorf("size %d, and there are %d bytes", layer.Size, uncompressed)
	}
}

func TestWriteSaysWhichFileIsMissing(t *testing.T) {
	t.Parallel()
	_, err := oci.Write(filepath.Join(t.TempDir(), "a"), "test", made, []oci.File{{Path: "x", Source: "/nowhere"}})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Write: %v", err)
	}
}

func TestCopy(t *testing.T) {
	t.Parallel()
	old, young := made.Add(-time.Hour), made.Add(time.Hour)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, header := range []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: young},
		{Name: "./a/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: old, Uname: "root", Gname: "root"},
		{Name: "./a/b", Typeflag: tar.TypeReg, Mode: 0o644, ModTime: young},
		{Name: "./a/c", Typeflag: tar.TypeLink, Linkname: "./a/b", ModTime: young},
		{Name: "./a/d", Typeflag: tar.TypeSymlink, Linkname: "../x", ModTime: young},
		{Name: "./secret", Typeflag: tar.TypeReg, ModTime: young},
	} {
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := oci.Copy(filepath.Join(t.TempDir(), "a"), "test", made, &b, func(path string) bool { return path == "secret" })
	if err != nil {
		t.Fatal(err)
	}
	got := entries(t, layer.Path)
	if want := []string{"a/", "a/b", "a/c", "a/d"}; !slices.Equal(names(got), want) {
		t.Fatalf("entries %q, want %q", names(got), want)
	}
	if !got[0].ModTime.Equal(old) || !got[1].ModTime.Equal(made) || got[0].Uname != "" {
		t.Errorf("times %v and %v, owner %q", got[0].ModTime, got[1].ModTime, got[0].Uname)
	}
	if got[2].Linkname != "a/b" || got[3].Linkname != "../x" {
		t.Errorf("links to %q and %q", got[2].Linkname, got[3].Linkname)
	}
}

func TestImage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layers := []oci.Layer{
		write(t, filepath.Join(dir, "a"), []oci.File{{Path: "a", Content: []byte("a")}}),
		write(t, filepath.Join(dir, "b"), []oci.File{{Path: "b", Content: []byte("b")}}),
	}
	config := v1.Config{User: "65532:65532", Labels: map[string]string{"a": "1", "b": "2"}, Entrypoint: []string{"/x"}}
	first, second := image(t, amd64, config, layers), image(t, arm64, config, layers)
	if a, b := digest(t, first), digest(t, image(t, amd64, config, layers)); a != b {
		t.Errorf("the same image has digests %s and %s", a, b)
	}
	if digest(t, first) == digest(t, second) {
		t.Error("images of two platforms have one digest")
	}
	if file, err := first.ConfigFile(); err != nil || file.Config.User != config.User || !file.Created.Equal(made) || len(file.History) != 2 {
		t.Errorf("configuration %+v, %v", file, err)
	}

	archive := filepath.Join(dir, "image.tar")
	tag, err := name.NewTag("example/x:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := oci.WriteArchive(archive, tag, first); err != nil {
		t.Fatal(err)
	}
	loaded, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(loaded); err != nil {
		t.Errorf("the archive: %v", err)
	}
	if a, b := configName(t, first), configName(t, loaded); a != b {
		t.Errorf("the archive's image is %s, want %s", b, a)
	}

	for range 2 { // a layout that is there is replaced
		want, err := oci.WriteLayout(filepath.Join(dir, "layout"), "v1", []v1.Image{first, second})
		if err != nil {
			t.Fatal(err)
		}
		index, err := layout.ImageIndexFromPath(filepath.Join(dir, "layout"))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Errorf("the layout: %v", err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest != want || manifest.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1" {
			t.Fatalf("the layout names %+v, %v", manifest, err)
		}
		below, err := index.ImageIndex(want)
		if err != nil {
			t.Fatal(err)
		}
		platforms, err := below.IndexManifest()
		if err != nil || len(platforms.Manifests) != 2 || platforms.Manifests[1].Platform.Architecture != "arm64" {
			t.Errorf("below it: %+v, %v", platforms, err)
		}
	}
}

func write(t *testing.T, file string, files []oci.File) oci.Layer {
	t.Helper()
	layer, err := oci.Write(file, "test", made, files)
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

func image(t *testing.T, platform v1.Platform, config v1.Config, layers []oci.Layer) v1.Image {
	t.Helper()
	made, err := oci.Image(platform, config, made, layers)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func digest(t *testing.T, image v1.Image) v1.Hash {
	t.Helper()
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func configName(t *testing.T, image v1.Image) v1.Hash {
	t.Helper()
	hash, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func entries(t *testing.T, file string) []tartest.Entry {
	t.Helper()
	return tartest.Entries(t, bytes.NewReader(gunzip(t, file)))
}

func names(entries []tartest.Entry) []string {
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name)
	}
	return all
}

func gunzip(t *testing.T, file string) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(tartest.File(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
