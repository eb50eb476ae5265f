// Package oci writes layers and images, as an OCI layout and as archives that docker load and ctr images import read.
package oci

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// File is one entry of a layer: a file with Content or with the bytes of the file Source, or a folder.
type File struct {
	Path     string // without a leading slash
	Mode     int64  // permissions, with the sticky bit where it is set
	UID, GID int
	Content  []byte
	Source   string
	Folder   bool
}

// Layer is a layer's file: a compressed archive.
type Layer struct {
	Path string
	Note string // what it has, for people
	Size int64  // in bytes, uncompressed
}

// archive is a layer that is being written. Equal entries give equal bytes.
type archive struct {
	made time.Time // no entry is younger
	file *os.File
	gzip *gzip.Writer
	size *counter
	tar  *tar.Writer
}

type counter struct {
	to   io.Writer
	size int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.size += int64(n)
	return n, err
}

func create(file string, made time.Time) (*archive, error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	a := &archive{made: made, file: f, gzip: gzip.NewWriter(f)}
	a.size = &counter{to: a.gzip}
	a.tar = tar.NewWriter(a.size)
	return a, nil
}

func (a *archive) add(header *tar.Header, content io.Reader) error {
	if header.ModTime.IsZero() || header.ModTime.After(a.made) {
		header.ModTime = a.made
	}
	header.AccessTime, header.ChangeTime, header.Uname, header.Gname = time.Time{}, time.Time{}, "", ""
	header.Format = tar.FormatUnknown
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(a.tar, content)
	return err
}

func (a *archive) close() error {
	return errors.Join(a.tar.Close(), a.gzip.Close(), a.file.Close())
}

// Write writes a layer of files, with the folders above them, all of the time made.
func Write(file, note string, made time.Time, files []File) (Layer, error) {
	a, err := create(file, made)
	if err != nil {
		return Layer{}, fmt.Errorf("write layer %s: %w", note, err)
	}
	for _, f := range withFolders(files) {
		if err := a.addFile(f); err != nil {
			return Layer{}, errors.Join(fmt.Errorf("write layer %s: %s: %w", note, f.Path, err), a.close())
		}
	}
	if err := a.close(); err != nil {
		return Layer{}, fmt.Errorf("write layer %s: %w", note, err)
	}
	return Layer{Path: file, Note: note, Size: a.size.size}, nil
}

// withFolders adds the folders above the files that are not there, and sorts everything, folders before what is in them.
func withFolders(files []File) []File {
	all := slices.Clone(files)
	known := map[string]bool{".": true}
	for _, f := range files {
		known[f.Path] = true
	}
	for _, f := range files {
		for dir := path.Dir(f.Path); !known[dir]; dir = path.Dir(dir) {
			known[dir] = true
			all = append(all, File{Path: dir, Mode: 0o755, Folder: true})
		}
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func (a *archive) addFile(f File) error {
	header := &tar.Header{Name: f.Path, Mode: f.Mode, Uid: f.UID, Gid: f.GID, Typeflag: tar.TypeReg, Size: int64(len(f.Content))}
	var content io.Reader = strings.NewReader(string(f.Content))
	switch {
	case f.Folder:
		header.Name, header.Typeflag = f.Path+"/", tar.TypeDir
	case f.Source != "":
		source, err := os.Open(f.Source)
		if err != nil {
			return err
		}
		defer func() { _ = source.Close() }()
		info, err := source.Stat()
		if err != nil {
			return err
		}
		header.Size, content = info.Size(), source
	}
	return a.add(header, content)
}

// Copy writes a layer of what an archive has and drop does not name, in its order. No entry is younger than made; owners
// have numbers only.
func Copy(file, note string, made time.Time, from io.Reader, drop func(path string) bool) (Layer, error) {
	a, err := create(file, made)
	if err != nil {
		return Layer{}, fmt.Errorf("write layer %s: %w", note, err)
	}
	if err := a.copyAll(tar.NewReader(from), drop); err != nil {
		return Layer{}, errors.Join(fmt.Errorf("write layer %s: %w", note, err), a.close())
	}
	if err := a.close(); err != nil {
		return Layer{}, fmt.Errorf("write layer %s: %w", note, err)
	}
	return Layer{Path: file, Note: note, Size: a.size.size}, nil
}

func (a *archive) copyAll(from *tar.Reader, drop func(string) bool) error {
	for {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		folder := header.Typeflag == tar.TypeDir
		if header.Name = path.Clean(header.Name); header.Name == "." || drop(header.Name) {
			continue
		}
		if folder {
			header.Name += "/"
		}
		if header.Typeflag == tar.TypeLink {
			header.Linkname = path.Clean(header.Linkname)
		}
		if err := a.add(header, from); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
	}
}
