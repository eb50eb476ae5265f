package licences_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"config-server/deploy/image/internal/licences"
)

func TestOf(t *testing.T) {
	t.Parallel()
	mit, isc, advertising := text(t, "MIT"), text(t, "ISC"), text(t, "BSD-4-Clause")
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
		err   error
		says  string
	}{
		"one licence":                      {files: map[string]string{"LICENSE": mit}, want: []string{"MIT"}},
		"spelt the other way":              {files: map[string]string{"licence.txt": isc}, want: []string{"ISC"}},
		"several files, and one twice":     {files: map[string]string{"LICENSE": mit, "third_party/a/LICENSE": isc, "third_party/b/COPYING": mit}, want: []string{"ISC", "MIT"}},
		"two in one file":                  {files: map[string]string{"LICENSE": mit + "\n" + isc}, want: []string{"ISC", "MIT"}},
		"nothing at all":                   {err: licences.ErrNone},
		"a notice is no licence":           {files: map[string]string{"NOTICE": mit}, err: licences.ErrNone},
		"words of one's own":               {files: map[string]string{"LICENSE": "Do as you like, but not on Sundays."}, err: licences.ErrNone, says: "LICENSE"},
		"a licence in a long other text":   {files: map[string]string{"LICENSE": mit + strings.Repeat("And no use without our consent. ", 100)}, err: licences.ErrNone},
		"only the address of one":          {files: map[string]string{"LICENSE": "https://opensource.org/licenses/MIT"}, err: licences.ErrNone},
		"one that is not allowed":          {files: map[string]string{"LICENSE": advertising}, err: licences.ErrRefused, says: "BSD-4-Clause"},
		"one that is not, beside one":      {files: map[string]string{"LICENSE": mit, "x/LICENSE": advertising}, err: licences.ErrRefused},
		"an unknown text beside a licence": {files: map[string]string{"LICENSE": mit, "LICENSE-2": "Ask us first."}, err: licences.ErrNone, says: "LICENSE-2"},
		"a text that a person has read":    {files: map[string]string{"LICENSE": mit, "LICENSE-LOGO": "https://commons.wikimedia.org/wiki/File:Memory_infra_logo.png\n"}, want: []string{"MIT"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var texts []licences.Text
			for path, content := range test.files {
				texts = append(texts, licences.Text{Path: path, Content: []byte(content)})
			}
			got, err := licences.Of(texts)
			if !errors.Is(err, test.err) || !slices.Equal(got, test.want) {
				t.Fatalf("Of = %q, %v; want %q, %v", got, err, test.want, test.err)
			}
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error does not name %s: %v", test.says, err)
			}
		})
	}
}

func TestIsText(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"LICENSE": true, "LICENSE.md": true, "LICENCE": true, "License-MIT.txt": true, "UNLICENSE": true, "COPYING": true, "COPYING.LESSER": true,
		"NOTICE": true, "NOTICE.txt": true, "PATENTS": true, "license.go": false, "license_test.go": false, "README.md": false, "relicense.md": false,
	} {
		if got := licences.IsText(name); got != want {
			t.Errorf("IsText(%q) = %v, want %v", name, got, want)
		}
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
