// Package tartest reads archives in tests. Only tests import it.
package tartest

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"testing"
)

// Entry is a file or a folder of an archive.
type Entry struct {
	*tar.Header
	Content []byte
}

// Entries reads an archive, in its order.
func Entries(t testing.TB, archive io.Reader) []Entry {
	t.Helper()
	var all []Entry
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Entry{header, content})
	}
}

// File reads a file.
func File(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
