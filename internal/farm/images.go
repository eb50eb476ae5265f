package farm

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distribution/reference"
)

// MaxImage is the number of characters of the longest name of an image that is taken.
const MaxImage = 400

// Image is the name of an image, [registry/]repository[:tag][@digest], taken apart. The zero value names
// none.
type Image struct {
	// Registry is host or host:port; docker.io where the name has none.
	Registry string
	// Repository is the path in the registry, as library/debian.
	Repository string
	// Tag is latest where the name has neither tag nor digest, and empty where it has a digest alone.
	Tag string
	// Digest is algorithm:hex; empty = the name has none.
	Digest string

	short string // registry and repository as people write them, docker.io and library left out
}

// ParseImage takes the name of an image apart. The error says why it is none.
func ParseImage(name string) (Image, error) {
	if len(name) > MaxImage {
		return Image{}, fmt.Errorf("the name of an image has at most %d characters", MaxImage)
	}
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return Image{}, fmt.Errorf("%q is no name of an image: %w", name, err)
	}
	named = reference.TagNameOnly(named)
	image := Image{Registry: reference.Domain(named), Repository: reference.Path(named), short: reference.FamiliarName(named)}
	if tagged, ok := named.(reference.Tagged); ok {
		image.Tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		image.Digest = digested.Digest().String()
	}
	return image, nil
}

// String is the name in its shortest form. Two names of one image have the same.
func (i Image) String() string {
	text := i.short
	if i.Tag != "" {
		text += ":" + i.Tag
	}
	if i.Digest != "" {
		text += "@" + i.Digest
	}
	return text
}

// At is the name of that content of the image's repository which has the digest: repository@digest.
func (i Image) At(digest string) string { return i.short + "@" + digest }

// Reference is what the image's registry is asked for: the digest, else the tag.
func (i Image) Reference() string { return cmp.Or(i.Digest, i.Tag) }

// Saved reports whether the name is that of a saved image, user-<name>:latest, which comes from a tar and
// is in no registry.
func (i Image) Saved() bool {
	return i.Registry == "docker.io" && strings.HasPrefix(i.short, "user-") && !strings.Contains(i.short, "/") && i.Tag == "latest"
}

// Pin holds an image to one content.
type Pin struct {
	// Image is the name that user configurations have, as Image.String writes it.
	Image string
	// Digest is the content that workspaces of that image run, algorithm:hex.
	Digest   string
	PinnedAt time.Time
	// RequestID is the id of the request that pinned it.
	RequestID string
}

// Runs is the name with which workspaces run: repository@digest.
func (p Pin) Runs() string {
	image, err := ParseImage(p.Image)
	if err != nil {
		return p.Image // nobody pins what is no name
	}
	return image.At(p.Digest)
}

// ErrDenied is wrapped by errors of registries that do not let the service see an image.
var ErrDenied = errors.New("denied")
