package oci

import (
	"fmt"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// refName is what skopeo and others choose an image of a layout by.
const refName = "org.opencontainers.image.ref.name"

// Image puts layers, lowest first, and a configuration together. Equal input gives an equal digest.
func Image(platform v1.Platform, config v1.Config, made time.Time, layers []Layer) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: platform.Architecture, OS: platform.OS, Variant: platform.Variant, Config: config,
		RootFS: v1.RootFS{Type: "layers"}, Created: v1.Time{Time: made.UTC()},
	})
	if err != nil {
		return nil, fmt.Errorf("make the image for %s: %w", platform, err)
	}
	for _, layer := range layers {
		content, err := tarball.LayerFromFile(layer.Path, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, fmt.Errorf("make the image for %s: read layer %s: %w", platform, layer.Note, err)
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: content, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: made.UTC()}, CreatedBy: "config-server-image", Comment: layer.Note},
		})
		if err != nil {
			return nil, fmt.Errorf("make the image for %s: add layer %s: %w", platform, layer.Note, err)
		}
	}
	return image, nil
}

// WriteArchive writes an image as the one file that docker load and ctr images import take.
func WriteArchive(file string, tag name.Tag, image v1.Image) error {
	draft := file + ".draft"
	if err := tarball.WriteToFile(draft, tag, image); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	if err := os.Rename(draft, file); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// WriteLayout writes an OCI layout with one name in it: an index over the images' platforms. A layout that is there is
// replaced.
func WriteLayout(dir, tag string, images []v1.Image) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return v1.Hash{}, fmt.Errorf("write layout %s: %w", dir, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()}})
	}
	digest, err := index.Digest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("write layout %s: %w", dir, err)
	}
	draft := dir + ".draft"
	if err := os.RemoveAll(draft); err != nil {
		return v1.Hash{}, fmt.Errorf("write layout %s: %w", dir, err)
	}
	path, err := layout.Write(draft, empty.Index)
	if err == nil {
		err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: tag}))
	}
	if err != nil {
		return v1.Hash{}, fmt.Errorf("write layout %s: %w", dir, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, fmt.Errorf("write layout %s: %w", dir, err)
	}
	if err := os.Rename(draft, dir); err != nil {
		return v1.Hash{}, fmt.Errorf("write layout %s: %w", dir, err)
	}
	return digest, nil
}
