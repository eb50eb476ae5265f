// Package program builds config-server for a platform and lists the modules in it.
package program

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"config-server/deploy/image/internal/bill"
	"config-server/deploy/image/internal/licences"
)

const mainPackage = "./cmd/config-server"

// Source is the checkout that the program is built from.
type Source struct {
	Dir      string
	Platform v1.Platform
}

// Build writes the static program to file. The bytes depend on the sources, the version and the compiler alone.
func (s Source) Build(ctx context.Context, file, version string) error {
	// The Dockerfile's build has no repository around it and so no stamp of one; this one is to be the same.
	_, err := s.goCommand(ctx, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.version="+version, "-o", file, mainPackage)
	return err
}

func (s Source) goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+s.Platform.OS, "GOARCH="+s.Platform.Architecture, "GOFLAGS=")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s for %s: %w: %s", args[0], s.Platform, err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// Components lists what is linked into the program: each module with its checksum and licences, the standard library,
// and Swagger UI. It fails if a module has no licence that is recognised and allowed, or is not the one of go.sum.
func (s Source) Components(ctx context.Context, file string) (list []bill.Component, goVersion string, err error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, "", fmt.Errorf("read the program's modules: %w", err)
	}
	sums, err := readSums(filepath.Join(s.Dir, "go.sum"))
	if err != nil {
		return nil, "", err
	}
	folders, err := s.folders(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		at := folders[module.Path+"@"+module.Version]
		component, err := describe(module.Path, module.Version, module.Sum, sums, at)
		if err != nil {
			return nil, "", err
		}
		list = append(list, component)
		if module.Path == swaggerModule {
			ui, err := swaggerUI(at.top)
			if err != nil {
				return nil, "", err
			}
			list = append(list, ui)
		}
	}
	std, err := s.standardLibrary(ctx, info.GoVersion)
	if err != nil {
		return nil, "", err
	}
	return append(list, std), info.GoVersion, nil
}

// location is where the module cache has a module, and those of its folders from which packages are linked.
type location struct {
	top  string
	used []string
}

// folders finds the modules' folders by path@version.
func (s Source) folders(ctx context.Context) (map[string]location, error) {
	out, err := s.goCommand(ctx, "list", "-deps", "-json=Dir,Module", mainPackage)
	if err != nil {
		return nil, err
	}
	found := map[string]location{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		type module struct {
			Path, Version, Dir string
			Replace            *module
		}
		var pkg struct {
			Dir    string
			Module *module
		}
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		if pkg.Module == nil {
			continue
		}
		if pkg.Module.Replace != nil {
			pkg.Module = pkg.Module.Replace
		}
		key := pkg.Module.Path + "@" + pkg.Module.Version
		at := found[key]
		at.top, at.used = pkg.Module.Dir, append(at.used, pkg.Dir)
		found[key] = at
	}
}

// describe is the component of a module. Licences in the folders of linked packages, and above them, count too: code
// that a module took over from elsewhere has its own there.
func describe(path, version, sum string, sums map[string]string, at location) (bill.Component, error) {
	name := path + "@" + version
	if want := sums[name]; sum == "" || want != sum {
		return bill.Component{}, fmt.Errorf("module %s: the program has checksum %q, go.sum %q", name, sum, want)
	}
	hash, found := strings.CutPrefix(sum, "h1:")
	digest, err := base64.StdEncoding.DecodeString(hash)
	if !found || err != nil {
		return bill.Component{}, fmt.Errorf("module %s: checksum %q is no SHA-256 of go.sum's first kind", name, sum)
	}
	if at.top == "" {
		return bill.Component{}, fmt.Errorf("module %s is in the program, and go list knows no package of it", name)
	}
	texts, err := textsOf(at)
	if err != nil {
		return bill.Component{}, fmt.Errorf("module %s: %w", name, err)
	}
	ids, err := licences.Of(texts)
	if err != nil {
		return bill.Component{}, fmt.Errorf("module %s: %w", name, err)
	}
	return bill.Component{
		Name: path, Version: version, PURL: "pkg:golang/" + path + "@" + version, SHA256: hex.EncodeToString(digest),
		Licences: ids, Texts: texts, Linked: true,
	}, nil
}

// textsOf reads the licences and notices of a module.
func textsOf(at location) ([]licences.Text, error) {
	folders := map[string]bool{at.top: true}
	for _, folder := range at.used {
		for ; folder != at.top && strings.HasPrefix(folder, at.top); folder = filepath.Dir(folder) {
			folders[folder] = true
		}
	}
	var texts []licences.Text
	for folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("look for licences: %w", err)
		}
		for _, entry := range entries {
			if !entry.Type().IsRegular() || !licences.IsText(entry.Name()) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
			if err != nil {
				return nil, fmt.Errorf("read a licence: %w", err)
			}
			path, err := filepath.Rel(at.top, filepath.Join(folder, entry.Name()))
			if err != nil {
				return nil, fmt.Errorf("read a licence: %w", err)
			}
			texts = append(texts, licences.Text{Path: path, Content: content})
		}
	}
	slices.SortFunc(texts, func(a, b licences.Text) int { return strings.Compare(a.Path, b.Path) })
	return texts, nil
}

// readSums reads the hashes of modules, by path@version.
func readSums(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the checksums: %w", err)
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(text)) {
		// Lines whose version ends in /go.mod are about that file alone.
		if fields := strings.Fields(line); len(fields) == 3 {
			sums[fields[0]+"@"+fields[1]] = fields[2]
		}
	}
	return sums, nil
}

// standardLibrary is the component of Go itself.
func (s Source) standardLibrary(ctx context.Context, version string) (bill.Component, error) {
	root, err := s.goCommand(ctx, "env", "GOROOT")
	if err != nil {
		return bill.Component{}, err
	}
	top := strings.TrimSpace(string(root))
	texts, err := textsOf(location{top: top})
	if err != nil {
		return bill.Component{}, fmt.Errorf("the standard library: %w", err)
	}
	ids, err := licences.Of(texts)
	if err != nil {
		return bill.Component{}, fmt.Errorf("the standard library in %s: %w", top, err)
	}
	number := strings.TrimPrefix(version, "go")
	return bill.Component{
		Name: "stdlib", Version: version, PURL: "pkg:golang/stdlib@" + number, Licences: ids, Texts: texts, Linked: true,
	}, nil
}
