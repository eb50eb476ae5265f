package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"config-server/deploy/image/internal/bill"
	"config-server/deploy/image/internal/debian"
	"config-server/deploy/image/internal/oci"
	"config-server/deploy/image/internal/program"
	"config-server/deploy/image/internal/recipe"
)

const (
	repository = "dguailab/config-server"
	// docs is where an image has the lists of what it is made of.
	docs = "usr/share/doc/config-server"
	// nonroot is the user of the images, unless whoever starts a container says otherwise.
	nonroot = 65532
)

// variant is one kind of image; its name is that of the Dockerfile's stage.
type variant struct {
	suffix    string // of the tag
	platforms []v1.Platform
	debian    bool
	limit     int64 // of its uncompressed layers together, in bytes; 0 = none
}

var variants = map[string]variant{
	"plain": {platforms: []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}, limit: 100_000_000},
	// Its Debian is that of the machine that builds.
	"tools": {suffix: "-tools", platforms: []v1.Platform{{OS: "linux", Architecture: runtime.GOARCH}}, debian: true},
}

type builder struct {
	checkout string
	out      string
	version  string
	// platforms are those to build for, as far as a variant has them; none = all of them.
	platforms []string
	made      time.Time // every file's, and the image's own
	say       func(format string, args ...any)
}

// finished is one image, as the list of a variant tells it.
type finished struct {
	Image    string `json:"image"` // name:tag
	Platform string `json:"platform"`
	Digest   string `json:"digest"`
	Size     int64  `json:"bytes"`        // uncompressed
	Packed   int64  `json:"packed_bytes"` // as its layers are stored and sent
}

// inputs decide whether what lies in the folder is what a build would make.
type inputs struct {
	Builder, Dockerfile, Version string
	Made                         time.Time
	Programs                     map[string]string // SHA-256 by platform
}

// covers tells whether images made from these inputs are those that a build from the others would make, and maybe more.
func (in inputs) covers(other inputs) bool {
	for platform, sum := range other.Programs {
		if in.Programs[platform] != sum {
			return false
		}
	}
	return in.Builder == other.Builder && in.Dockerfile == other.Dockerfile && in.Version == other.Version && in.Made.Equal(other.Made)
}

// lock keeps other builds out of the folder, after waiting for the one that is in it.
func (b *builder) lock(ctx context.Context) (release func(), err error) {
	if err := os.MkdirAll(b.work(), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the images: %w", err)
	}
	file := flock.New(filepath.Join(b.work(), "lock"))
	free, err := file.TryLock()
	if err == nil && !free {
		b.say("waiting for another build in %s", b.out)
		_, err = file.TryLockContext(ctx, time.Second/4)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the folder of the images: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

// work is the folder of what images are made from.
func (b *builder) work() string { return filepath.Join(b.out, "work") }

// build makes a variant's images, unless they are there from the same inputs.
func (b *builder) build(ctx context.Context, kind string, v variant) error {
	if len(b.platforms) > 0 {
		v.platforms = slices.DeleteFunc(slices.Clone(v.platforms), func(p v1.Platform) bool { return !slices.Contains(b.platforms, p.String()) })
	}
	if len(v.platforms) == 0 {
		return fmt.Errorf("it is not made for %s", strings.Join(b.platforms, ", "))
	}
	in := inputs{Version: b.version, Made: b.made, Programs: map[string]string{}}
	for _, platform := range v.platforms {
		binary := filepath.Join(b.work(), "config-server-"+fileName(platform))
		if err := (program.Source{Dir: b.checkout, Platform: platform}).Build(ctx, binary, b.version); err != nil {
			return err
		}
		sum, err := sumOf(binary)
		if err != nil {
			return err
		}
		in.Programs[platform.String()] = sum
	}
	var err error
	if in.Dockerfile, err = sumOf(filepath.Join(b.checkout, "Dockerfile")); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if in.Builder, err = sumOf(self); err != nil {
		return err
	}
	list := filepath.Join(b.out, "config-server-"+kind+".json")
	stampFile := filepath.Join(b.work(), kind+".stamp")
	var was inputs
	if old, err := os.ReadFile(stampFile); err == nil && json.Unmarshal(old, &was) == nil && was.covers(in) {
		return b.tell(list)
	}
	// From here until the new stamp, what lies in the folder is of neither build.
	if err := os.RemoveAll(stampFile); err != nil {
		return fmt.Errorf("forget the inputs: %w", err)
	}
	if err := b.make(ctx, kind, v, in, list); err != nil {
		return err
	}
	stamp, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("note the inputs: %w", err)
	}
	if err := os.WriteFile(stampFile, stamp, 0o644); err != nil {
		return fmt.Errorf("note the inputs: %w", err)
	}
	return b.tell(list)
}

// make makes all platforms of a variant, and the list of them.
func (b *builder) make(ctx context.Context, kind string, v variant, in inputs, list string) error {
	tag, err := name.NewTag(repository + ":" + b.version + v.suffix)
	if err != nil {
		return fmt.Errorf("name the image: %w", err)
	}
	var images []v1.Image
	var all []finished
	for _, platform := range v.platforms {
		image, size, err := b.image(ctx, kind, v, platform, in.Programs[platform.String()])
		if err != nil {
			return err
		}
		if err := oci.WriteArchive(filepath.Join(b.out, "config-server-"+kind+"-"+fileName(platform)+".tar"), tag, image); err != nil {
			return err
		}
		f := finished{Image: tag.RepositoryStr() + ":" + tag.TagStr(), Platform: platform.String(), Size: size}
		if f.Packed, err = packed(image); err != nil {
			return err
		}
		digest, err := image.Digest()
		if err != nil {
			return fmt.Errorf("name the image: %w", err)
		}
		f.Digest = digest.String()
		images, all = append(images, image), append(all, f)
	}
	if _, err := oci.WriteLayout(filepath.Join(b.out, "config-server-"+kind), tag.TagStr(), images); err != nil {
		return err
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("list the images: %w", err)
	}
	if err := os.WriteFile(list, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("list the images: %w", err)
	}
	return nil
}

// tell prints the list of a variant's images.
func (b *builder) tell(list string) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return fmt.Errorf("read the list of images: %w", err)
	}
	var all []finished
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read the list of images: %w", err)
	}
	for _, f := range all {
		b.say("%s %-11s %s %5.1f MB, packed %5.1f MB", f.Image, f.Platform, f.Digest, megabytes(f.Size), megabytes(f.Packed))
	}
	return nil
}

// image makes the image of one platform, and its lists in the folder beside it.
func (b *builder) image(ctx context.Context, kind string, v variant, platform v1.Platform, sum string) (v1.Image, int64, error) {
	binary := filepath.Join(b.work(), "config-server-"+fileName(platform))
	stem := filepath.Join(b.work(), kind+"-"+fileName(platform))
	components, goVersion, err := program.Source{Dir: b.checkout, Platform: platform}.Components(ctx, binary)
	if err != nil {
		return nil, 0, err
	}
	var layers []oci.Layer
	base := b.base()
	if v.debian {
		layer, packages, err := b.debian(ctx, stem)
		if err != nil {
			return nil, 0, err
		}
		layers, components = append(layers, layer), append(components, packages...)
		base = slices.DeleteFunc(base, func(f oci.File) bool { return f.Path == "etc/passwd" || f.Path == "etc/group" || f.Path == "tmp" })
	}
	subject := bill.Image{Name: repository, Version: b.version, Variant: kind, Platform: platform.String(), GoVersion: goVersion, Program: sum}
	lists := map[string][]byte{"THIRD_PARTY_LICENSES": bill.Notices(subject, components)}
	if lists["sbom.spdx.json"], err = bill.SPDX(subject, components, b.made); err != nil {
		return nil, 0, err
	}
	files := []oci.File{{Path: "usr/local/bin/config-server", Mode: 0o755, Source: binary}}
	for file, content := range lists {
		files = append(files, oci.File{Path: docs + "/" + file, Mode: 0o644, Content: content})
		beside := filepath.Join(b.out, "config-server-"+kind+"-"+fileName(platform)+"."+file)
		if err := os.WriteFile(beside, content, 0o644); err != nil {
			return nil, 0, fmt.Errorf("write %s: %w", file, err)
		}
	}
	first, err := oci.Write(stem+"-base.tar.gz", "users, certificates, folders", b.made, base)
	if err != nil {
		return nil, 0, err
	}
	second, err := oci.Write(stem+"-program.tar.gz", "config-server "+b.version, b.made, files)
	if err != nil {
		return nil, 0, err
	}
	layers = append(layers, first, second)
	var size int64
	for _, layer := range layers {
		size += layer.Size
	}
	if v.limit > 0 && size > v.limit {
		return nil, 0, fmt.Errorf("%s has %.1f MB uncompressed, and the limit is %.1f MB", platform, megabytes(size), megabytes(v.limit))
	}
	dockerfile, err := os.Open(filepath.Join(b.checkout, "Dockerfile"))
	if err != nil {
		return nil, 0, fmt.Errorf("read the Dockerfile: %w", err)
	}
	defer func() { _ = dockerfile.Close() }()
	config, err := recipe.Config(dockerfile, kind, map[string]string{"VERSION": b.version})
	if err != nil {
		return nil, 0, err
	}
	image, err := oci.Image(platform, config, b.made, layers)
	return image, size, err
}

// debian makes the layer below the others, and lists its packages.
func (b *builder) debian(ctx context.Context, stem string) (oci.Layer, []bill.Component, error) {
	archive := stem + "-debian.tar"
	b.say("making the Debian of the tools (a minute or two) ...")
	if err := debian.Make(ctx, archive, b.made); err != nil {
		return oci.Layer{}, nil, err
	}
	packages, err := debian.Components(archive)
	if err != nil {
		return oci.Layer{}, nil, err
	}
	f, err := os.Open(archive)
	if err != nil {
		return oci.Layer{}, nil, fmt.Errorf("read the Debian of the tools: %w", err)
	}
	defer func() { _ = f.Close() }()
	layer, err := oci.Copy(stem+"-debian.tar.gz", "Debian "+debian.Release, b.made, f, debian.Unwanted)
	return layer, packages, err
}

// base is what a container without anything below it would miss: two users, the certificate authorities, a folder for
// temporary files and one for the state.
func (b *builder) base() []oci.File {
	return []oci.File{
		{Path: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/root:/usr/sbin/nologin\nnonroot:x:65532:65532:nonroot:/var/lib/config-server:/usr/sbin/nologin\n")},
		{Path: "etc/group", Mode: 0o644, Content: []byte("root:x:0:\nnonroot:x:65532:\n")},
		{Path: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Content: authorities()},
		{Path: "tmp", Mode: 0o1777, Folder: true},
		{Path: "var/lib/config-server", Mode: 0o700, UID: nonroot, GID: nonroot, Folder: true},
	}
}

// authorities are Mozilla's certificate authorities in the edition that go.mod names; this machine's own list may have
// others besides. Those that are trusted in part only cannot be told so in this file, and stay out.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}

// packed is the size of an image's layers as they are stored and sent.
func packed(image v1.Image) (int64, error) {
	layers, err := image.Layers()
	if err != nil {
		return 0, fmt.Errorf("measure the image: %w", err)
	}
	var sum int64
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return 0, fmt.Errorf("measure the image: %w", err)
		}
		sum += size
	}
	return sum, nil
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("sum up a file: %w", err)
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", fmt.Errorf("sum up %s: %w", file, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// fileName is the platform in the name of a file.
func fileName(platform v1.Platform) string { return platform.OS + "-" + platform.Architecture }

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }
