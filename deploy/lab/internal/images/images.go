// Package images makes container images without a registry and without an engine: a tar archive of
// a manifest, a configuration and layers, as "ctr images import" and "docker load" read it.
package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// Image is one image and the command that it runs.
type Image struct {
	Tag        string   // name:tag
	Layers     []string // files, each an uncompressed tar archive, lowest first
	Entrypoint []string
	Env        []string
	WorkingDir string
}

// Entry is a file of a layer.
type Entry struct {
	Name string // without a leading slash
	Mode int64
	Data []byte
}

// epoch stands for every time in an archive, so that equal content is an equal image.
var epoch = time.Unix(0, 0)

// WriteLayer writes a layer of a few files.
func WriteLayer(path string, entries []Entry) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, entry := range entries {
		header := &tar.Header{Name: entry.Name, Mode: entry.Mode, Size: int64(len(entry.Data)), ModTime: epoch, Typeflag: tar.TypeReg}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("write layer %s: %w", path, err)
		}
		if _, err := w.Write(entry.Data); err != nil {
			return fmt.Errorf("write layer %s: %w", path, err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write layer %s: %w", path, err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write layer %s: %w", path, err)
	}
	return nil
}

// Write writes images that may have layers in common into one archive.
func Write(path string, images []Image) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	w := tar.NewWriter(f)
	if err := writeAll(w, images); err != nil {
		_ = f.Close()
		return fmt.Errorf("write images: %w", err)
	}
	if err := w.Close(); err != nil {
		_ = f.Close()
		return fmt.Errorf("write images: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write images: %w", err)
	}
	return nil
}

type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

type config struct {
	Architecture string        `json:"architecture"`
	OS           string        `json:"os"`
	Config       runtimeConfig `json:"config"`
	RootFS       rootFS        `json:"rootfs"`
}

type runtimeConfig struct {
	Env        []string
	Entrypoint []string
	WorkingDir string
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

func writeAll(w *tar.Writer, images []Image) error {
	var manifests []manifest
	sums := map[string]string{} // of layer files
	written := map[string]bool{}
	for _, image := range images {
		c := config{Architecture: runtime.GOARCH, OS: "linux", RootFS: rootFS{Type: "layers"}}
		c.Config = runtimeConfig{Env: image.Env, Entrypoint: image.Entrypoint, WorkingDir: image.WorkingDir}
		m := manifest{RepoTags: []string{image.Tag}}
		for _, layer := range image.Layers {
			sum, known := sums[layer]
			if !known {
				var err error
				if sum, err = sumOf(layer); err != nil {
					return err
				}
				sums[layer] = sum
			}
			name := sum + ".tar"
			if !written[name] {
				if err := copyIn(w, name, layer); err != nil {
					return err
				}
				written[name] = true
			}
			c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, "sha256:"+sum)
			m.Layers = append(m.Layers, name)
		}
		text, err := json.Marshal(c)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		m.Config = hex.EncodeToString(sum[:]) + ".json"
		if err := put(w, m.Config, text); err != nil {
			return err
		}
		manifests = append(manifests, m)
	}
	text, err := json.Marshal(manifests)
	if err != nil {
		return err
	}
	return put(w, "manifest.json", text)
}

func put(w *tar.Writer, name string, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: epoch, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

func copyIn(w *tar.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: info.Size(), ModTime: epoch, Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
