// Package deploy_test holds the image's recipe to the sources.
package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root    = ".."
	program = "./cmd/config-server"
)

// The image is built from what .dockerignore lets through, so each file of the program has to be among it.
func TestEveryFileOfTheProgramEntersTheBuild(t *testing.T) {
	t.Parallel()
	passes := dockerignore(t)
	files := append([]string{"go.mod", "go.sum"}, sources(t)...)
	if len(files) < 10 {
		t.Fatalf("the program has only the files %q", files)
	}
	for _, file := range files {
		if !passes(file) {
			t.Errorf("%s is part of the program, and .dockerignore keeps it out", file)
		}
	}
}

func TestNothingElseEntersTheBuild(t *testing.T) {
	t.Parallel()
	passes := dockerignore(t)
	for _, file := range []string{
		".git/config", "bin/config-server", "state/config-server.db", "docs/operations.md", "README.md", "Dockerfile",
		"deploy/helm/config-server/values.yaml", "testdata/golden/transcript.json", "internal/farm/names_test.go",
		"internal/ledger/testdata/passwd", "old-values.yaml", "db-password",
	} {
		if passes(file) {
			t.Errorf("%s enters the build", file)
		}
	}
}

// No secret is baked in: nothing arrives by ADD from elsewhere, and the arguments are the version and the platform.
func TestTheRecipeTakesNoSecrets(t *testing.T) {
	t.Parallel()
	recipe := read(t, "Dockerfile")
	var args []string
	for _, match := range regexp.MustCompile(`(?m)^ARG (\w+)`).FindAllStringSubmatch(recipe, -1) {
		args = append(args, match[1])
	}
	slices.Sort(args)
	if got, want := slices.Compact(args), []string{"TARGETARCH", "TARGETOS", "VERSION"}; !slices.Equal(got, want) {
		t.Errorf("build arguments are %q, want %q", got, want)
	}
	if strings.Contains(recipe, "\nADD ") {
		t.Error("ADD fetches from elsewhere")
	}
	for _, stage := range strings.Split(recipe, "\nFROM ")[1:] {
		name, _, _ := strings.Cut(stage, "\n")
		final := strings.HasSuffix(name, " plain") || strings.HasSuffix(name, " tools")
		if final != strings.Contains(stage, "\nUSER 65532:65532\n") {
			t.Errorf("stage %q: a final stage runs as an ordinary user, and only that one says so", name)
		}
	}
}

// dockerignore reads the few forms of pattern that the file uses; the last one that matches decides.
func dockerignore(t *testing.T) func(path string) bool {
	t.Helper()
	var patterns []string
	for line := range strings.Lines(read(t, ".dockerignore")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, line)
		}
	}
	return func(path string) bool {
		passes := true
		for _, pattern := range patterns {
			pattern, again := strings.CutPrefix(pattern, "!")
			if matches(t, pattern, path) {
				passes = again
			}
		}
		return passes
	}
}

// matches tells whether the pattern takes the path or a folder above it.
func matches(t *testing.T, pattern, path string) bool {
	t.Helper()
	deep, anywhere := strings.CutPrefix(pattern, "**/")
	for ; path != "."; path = filepath.Dir(path) {
		name := path
		if anywhere {
			name = filepath.Base(path)
		}
		if ok, err := filepath.Match(deep, name); err != nil {
			t.Fatalf(".dockerignore: %s: %v", pattern, err)
		} else if ok {
			return true
		}
	}
	return false
}

// sources lists the files that the compiler reads for the program, as paths from the repository's root.
func sources(t *testing.T) []string {
	t.Helper()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,Module,GoFiles,EmbedFiles", program)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var files []string
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct {
			Dir                 string
			Module              *struct{ Main bool }
			GoFiles, EmbedFiles []string
		}
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		if pkg.Module == nil || !pkg.Module.Main {
			continue
		}
		for _, file := range append(pkg.GoFiles, pkg.EmbedFiles...) {
			path, err := filepath.Rel(top, filepath.Join(pkg.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, path)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
