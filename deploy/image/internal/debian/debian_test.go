package debian

import (
	"archive/tar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const machineReadable = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: 2020 Somebody
License: GPL-2+

Files: a/*
Copyright: 2021 Somebody
License: Expat or Artistic, and Odd-Licence_1

Files: b/*
License: GPL-3+ with Bison exception
 As a special exception ...

Files: c/*
License: This part may be used by anybody.
`

func TestComponents(t *testing.T) {
	t.Parallel()
	list, err := Components(archive(t, map[string]string{
		"./var/lib/dpkg/status": "Package: one\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1:2.0+b1\n\n" +
			"Package: two\nStatus: install ok installed\nArchitecture: all\nVersion: 3~rc1\n",
		"./var/lib/dpkg/status.d/three":     "Package: three\nVersion: 4\nArchitecture: amd64\n",
		"./usr/share/doc/one/copyright":     machineReadable,
		"./usr/share/doc/two -> one":        "",
		"./usr/share/doc/three/copyright":   "It is under the terms of the GPL; see /usr/share/common-licenses/GPL-2 and /usr/share/common-licenses/Apache-2.0.\n",
		"./usr/share/doc/nobody/copyright":  "No package has this.\n",
		"./usr/share/doc/one/changelog.txt": "Nor is this looked at.\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 3 {
		t.Fatalf("%d packages, want 3", len(list))
	}
	declared := []string{"Artistic-1.0-Perl", "GPL-2.0-or-later", "GPL-3.0-or-later", "LicenseRef-Odd-Licence-1", "MIT"}
	for i, want := range []struct {
		purl, path string
		licences   []string
	}{
		{"pkg:deb/debian/one@1%3A2.0%2Bb1?arch=amd64&distro=bookworm", "/usr/share/doc/one/copyright", declared},
		{"pkg:deb/debian/three@4?arch=amd64&distro=bookworm", "/usr/share/doc/three/copyright", []string{"Apache-2.0", "LicenseRef-GPL-2"}},
		{"pkg:deb/debian/two@3~rc1?arch=all&distro=bookworm", "/usr/share/doc/one/copyright", declared},
	} {
		got := list[i]
		if got.PURL != want.purl || got.Texts[0].Path != want.path || !slices.Equal(got.Licences, want.licences) || got.Linked {
			t.Errorf("package %d is %s, %s, %q", i, got.PURL, got.Texts[0].Path, got.Licences)
		}
	}
}

func TestComponentsWantsACopyrightFileOfEachPackage(t *testing.T) {
	t.Parallel()
	_, err := Components(archive(t, map[string]string{"./var/lib/dpkg/status": "Package: one\nVersion: 1\nArchitecture: all\n"}))
	if err == nil || !strings.Contains(err.Error(), "package one: usr/share/doc/one/copyright is missing") {
		t.Errorf("Components: %v", err)
	}
}

func TestSPDXNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Expat": "MIT", "GPL-2": "GPL-2.0-only", "GPL-2+": "GPL-2.0-or-later", "LGPL-2.1+": "LGPL-2.1-or-later", "GFDL-1.3": "GFDL-1.3-only", "AGPL-3+": "AGPL-3.0-or-later",
		"BSD-3-clause": "BSD-3-Clause", "Apache-2.0": "Apache-2.0", "public-domain": "LicenseRef-public-domain", "BSD-3-clause-Cambridge": "LicenseRef-BSD-3-clause-Cambridge",
		"a+b/c": "LicenseRef-a-b-c",
	} {
		if got := spdx(name); got != want {
			t.Errorf("spdx(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestUnwanted(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"etc/resolv.conf": true, "etc/apt/sources.list.d/x": true, "var/log": true, "etc/passwd": false, "etc/aptitude": false, "var/lib/dpkg/status": false,
	} {
		if got := Unwanted(path); got != want {
			t.Errorf("Unwanted(%q) = %v, want %v", path, got, want)
		}
	}
}

// archive writes files; "a -> b" is a symbolic link.
func archive(t *testing.T, files map[string]string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "root.tar")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for name, content := range files {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}
		if from, to, link := strings.Cut(name, " -> "); link {
			header.Name, header.Linkname, header.Typeflag = from, to, tar.TypeSymlink
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}
