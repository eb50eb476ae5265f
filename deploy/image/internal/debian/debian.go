// Package debian makes a small Debian with what two features of config-server call: kadmin and the docker client. It
// takes Debian's packages from the sources that this machine's apt has, and lists them with their licences.
package debian

import (
	"archive/tar"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"pault.ag/go/debian/control"

	"config-server/deploy/image/internal/bill"
	"config-server/deploy/image/internal/licences"
)

// Release is the Debian release that the Dockerfile's stage tools is made of.
const Release = "bookworm"

// packages are krb5-user and what the scripts of its dependencies call; with all essential packages it would be twice as
// large, for a full perl.
var packages = []string{
	"base-files", "base-passwd", "coreutils", "dash", "diffutils", "dpkg", "findutils", "grep", "krb5-user", "libc-bin", "perl-base", "sed", "usr-is-merged",
}

//go:embed customize.sh
var customize string

// Make writes the root folder as an archive to file. Nothing in it is younger than made; the same packages give the same
// bytes. It needs mmdebstrap, and a machine with this release of Debian.
func Make(ctx context.Context, file string, made time.Time) error {
	sources, err := aptSources()
	if err != nil {
		return err
	}
	draft, hook := file+".draft", file+".hook"
	if err := os.WriteFile(hook, []byte(customize), 0o755); err != nil {
		return fmt.Errorf("make the Debian of the tools: %w", err)
	}
	args := []string{
		"--quiet", "--variant=custom", "--format=tar", "--include=" + strings.Join(packages, ","), "--skip=output/dev",
		"--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", "--customize-hook=" + hook,
		`--aptopt=Acquire::Languages "none"`, "--dpkgopt=force-unsafe-io",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright",
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/info/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		Release, draft, sources,
	}
	cmd := exec.CommandContext(ctx, "mmdebstrap", args...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(made.Unix(), 10))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the Debian of the tools: %w: %s", err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(draft, file); err != nil {
		return fmt.Errorf("make the Debian of the tools: %w", err)
	}
	return nil
}

// Unwanted tells of a path in the archive whether it is to stay out of an image: what is known of the machine that built,
// and what only apt would need.
func Unwanted(name string) bool {
	for _, top := range []string{
		"etc/apt", "etc/dpkg/dpkg.cfg.d/99mmdebstrap", "etc/hostname", "etc/resolv.conf", "var/cache/apt", "var/cache/debconf", "var/cache/ldconfig",
		"var/lib/apt", "var/lib/dpkg/status-old", "var/log",
	} {
		if name == top || strings.HasPrefix(name, top+"/") {
			return true
		}
	}
	return false
}

// aptSources is the file that names this machine's Debian archive.
func aptSources() (string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("find this machine's release: %w", err)
	}
	if !strings.Contains("\n"+string(text), "\nVERSION_CODENAME="+Release+"\n") {
		return "", errors.New("the tools come from the package sources of this machine, and it is not a Debian 12 (" + Release + ")")
	}
	for _, file := range []string{"/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"} {
		if _, err := os.Stat(file); err == nil {
			return file, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("find this machine's package sources: %w", err)
		}
	}
	return "", errors.New("find this machine's package sources: apt has none in the usual files")
}

// Components lists the packages in an archive that Make has written, by name.
func Components(archive string) ([]bill.Component, error) {
	files, err := read(archive)
	if err != nil {
		return nil, fmt.Errorf("list the packages of %s: %w", archive, err)
	}
	paragraphs, err := files.paragraphs()
	if err != nil {
		return nil, fmt.Errorf("list the packages of %s: %w", archive, err)
	}
	var list []bill.Component
	for _, paragraph := range paragraphs {
		component, err := files.component(paragraph)
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", paragraph.Values["Package"], err)
		}
		list = append(list, component)
	}
	slices.SortFunc(list, func(a, b bill.Component) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// root is what the lists need of the archive: files by their path, and symbolic links.
type root struct {
	files map[string][]byte
	links map[string]string
}

func read(archive string) (*root, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	r := &root{files: map[string][]byte{}, links: map[string]string{}}
	for entries := tar.NewReader(f); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(header.Name)
		wanted := name == "var/lib/dpkg/status" || strings.HasPrefix(name, "var/lib/dpkg/status.d/") || strings.HasPrefix(name, "usr/share/doc/")
		switch {
		case !wanted:
		case header.Typeflag == tar.TypeSymlink:
			r.links[name] = path.Join(path.Dir(name), header.Linkname)
		case header.Typeflag == tar.TypeReg:
			if r.files[name], err = io.ReadAll(entries); err != nil {
				return nil, err
			}
		}
	}
}

// paragraphs are the descriptions of all packages.
func (r *root) paragraphs() ([]control.Paragraph, error) {
	var all []control.Paragraph
	for name := range r.files {
		if name != "var/lib/dpkg/status" && !strings.HasPrefix(name, "var/lib/dpkg/status.d/") {
			continue
		}
		reader, err := control.NewParagraphReader(strings.NewReader(string(r.files[name])), nil)
		if err != nil {
			return nil, err
		}
		some, err := reader.All()
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func (r *root) component(paragraph control.Paragraph) (bill.Component, error) {
	name, version, architecture := paragraph.Values["Package"], paragraph.Values["Version"], paragraph.Values["Architecture"]
	if name == "" || version == "" || architecture == "" {
		return bill.Component{}, errors.New("its description lacks a name, a version or an architecture")
	}
	file := "usr/share/doc/" + name
	if to, linked := r.links[file]; linked {
		file = to
	}
	file += "/copyright"
	if to, linked := r.links[file]; linked {
		file = to
	}
	text, found := r.files[file]
	if !found {
		return bill.Component{}, fmt.Errorf("%s is missing", file)
	}
	return bill.Component{
		Name: name, Version: version,
		PURL:     "pkg:deb/debian/" + name + "@" + strings.NewReplacer("+", "%2B", ":", "%3A").Replace(version) + "?arch=" + architecture + "&distro=" + Release,
		Licences: licencesOf(text), Texts: []licences.Text{{Path: "/" + file, Content: text}},
	}, nil
}
