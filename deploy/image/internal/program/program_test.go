package program

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"config-server/deploy/image/internal/licences"
)

// hash is a checksum as go.sum has it.
var hash = "h1:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))

func TestDescribe(t *testing.T) {
	t.Parallel()
	mit, isc := read(t, "MIT"), read(t, "ISC")
	advertising := read(t, "BSD-4-Clause")
	for name, test := range map[string]struct {
		files map[string]string
		used  []string // folders of linked packages
		sum   string
		want  []string // licences
		texts []string // paths
		err   error
		says  string
	}{
		"a licence at the top": {
			files: map[string]string{"LICENSE": mit}, used: []string{"a/b"}, want: []string{"MIT"}, texts: []string{"LICENSE"},
		},
		"code taken over, with its own licence": {
			files: map[string]string{"LICENSE": mit, "third/LICENSE": isc, "third/code/x.go": ""}, used: []string{"third/code"},
			want: []string{"ISC", "MIT"}, texts: []string{"LICENSE", "third/LICENSE"},
		},
		"a licence in a folder that is not linked": {
			files: map[string]string{"LICENSE": mit, "examples/LICENSE": advertising}, used: []string{"a"}, want: []string{"MIT"}, texts: []string{"LICENSE"},
		},
		"a notice goes along": {
			files: map[string]string{"LICENSE": mit, "NOTICE": "Made by us."}, want: []string{"MIT"}, texts: []string{"LICENSE", "NOTICE"},
		},
		"no licence": {files: map[string]string{"README": "Hello."}, err: licences.ErrNone, says: "example.org/m@v1.2.3"},
		"a licence that is not allowed": {
			files: map[string]string{"LICENSE": mit, "a/COPYING": advertising}, used: []string{"a"}, err: licences.ErrRefused, says: "example.org/m@v1.2.3",
		},
		"other code than go.sum's": {files: map[string]string{"LICENSE": mit}, sum: "h1:other", says: "example.org/m@v1.2.3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := location{top: t.TempDir()}
			for path, content := range test.files {
				write(t, filepath.Join(at.top, path), content)
			}
			for _, folder := range test.used {
				at.used = append(at.used, filepath.Join(at.top, folder))
				if err := os.MkdirAll(filepath.Join(at.top, folder), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			sum := test.sum
			if sum == "" {
				sum = hash
			}
			got, err := describe("example.org/m", "v1.2.3", sum, map[string]string{"example.org/m@v1.2.3": hash}, at)
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) || test.err != nil && !errors.Is(err, test.err) {
					t.Fatalf("describe: %v; want %v, naming %s", err, test.err, test.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, text := range got.Texts {
				paths = append(paths, text.Path)
			}
			if !slices.Equal(got.Licences, test.want) || !slices.Equal(paths, test.texts) {
				t.Errorf("licences %q with %q, want %q with %q", got.Licences, paths, test.want, test.texts)
			}
			if got.SHA256 != strings.Repeat("6b", 32) || got.PURL != "pkg:golang/example.org/m@v1.2.3" || !got.Linked {
				t.Errorf("checksum %s, package URL %s, linked %v", got.SHA256, got.PURL, got.Linked)
			}
		})
	}
}

func TestReadSumsTakesModulesAndNotTheirGoModFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "go.sum")
	write(t, file, "example.org/m v1.2.3 h1:a=\nexample.org/m v1.2.3/go.mod h1:b=\n")
	sums, err := readSums(file)
	if err != nil {
		t.Fatal(err)
	}
	if sums["example.org/m@v1.2.3"] != "h1:a=" {
		t.Errorf("sums are %q", sums)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "licences", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
