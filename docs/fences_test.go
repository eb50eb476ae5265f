// Package docs_test keeps the documents true: it runs the commands that they show, and compares each
// with its Korean form.
package docs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const root = ".."

// Documents with commands, and those with the same commands in Korean.
var (
	documents = []string{"README.md", "docs/api.md", "docs/operations.md"}
	korean    = map[string]string{"README.md": "README.ko.md", "docs/operations.md": "docs/operations.ko.md", "docs/projects.md": "docs/projects.ko.md"}
)

// plan says where the commands of a section are run; an empty heading stands for the whole document.
// Fences of other sections have to say that they are not run, and why.
var plan = []struct{ document, heading, session string }{
	{"README.md", "Two commands", sessionDemo},
	{"README.md", "A first real request", sessionDemo},
	{"README.md", "Deploy", sessionChart},
	{"docs/api.md", "", sessionDemo},
	{"docs/operations.md", "Install", sessionChart},
	{"docs/operations.md", "Values", sessionChart},
	{"docs/operations.md", "Upgrade from the original", sessionChart},
	{"docs/operations.md", "Audit findings", sessionFarm},
	{"docs/operations.md", "Logs", sessionFarm},
	{"docs/operations.md", "Mending by hand", sessionFarm},
	{"docs/operations.md", "Back-up and restore", sessionFarm},
}

// Sessions of a shell in which fences are run.
const (
	sessionDemo  = "demo"  // a fresh demo --serve
	sessionFarm  = "farm"  // the service on a real API server, database, NAS and share; Deployments are played
	sessionChart = "chart" // the tests of deploy/helm run these on an API server
)

// maxNotRun is how many fences of a document may say that they are not run.
const maxNotRun = 4

// fence is a block of commands or of data.
type fence struct {
	document string
	language string // sh, or that of data
	line     int    // of its first line
	heading  string // of the section of level 2 in which it stands
	text     string // without the indentation that it has in a list
	notRun   string // the reason, from the comment before it
}

func (f fence) String() string { return fmt.Sprintf("%s:%d", f.document, f.line) }

var (
	opening = regexp.MustCompile("^( *)```(.*)$")
	notRun  = regexp.MustCompile(`^ *<!-- not run: (.*) -->$`)
	// languages of fences; no other may hold commands.
	languages = []string{"sh", "json", "yaml", ""}
)

// fences reads the fences of commands of a document.
func fences(t *testing.T, document string) []fence {
	t.Helper()
	return slices.DeleteFunc(blocks(t, document), func(f fence) bool { return f.language != "sh" })
}

// blocks reads all fences of a document.
func blocks(t *testing.T, document string) []fence {
	t.Helper()
	lines := strings.Split(read(t, document), "\n")
	var found []fence
	heading, reason := "", ""
	for i := 0; i < len(lines); i++ {
		if text, ok := strings.CutPrefix(lines[i], "## "); ok {
			heading = text
		}
		if m := notRun.FindStringSubmatch(lines[i]); m != nil {
			reason = m[1]
			continue
		}
		m := opening.FindStringSubmatch(lines[i])
		if m == nil {
			if lines[i] != "" && reason != "" {
				t.Errorf("%s:%d: the comment that says why a fence is not run stands before no fence", document, i+1)
				reason = ""
			}
			continue
		}
		indent, language := m[1], m[2]
		if !slices.Contains(languages, language) {
			t.Errorf("%s:%d: a fence of language %q: commands stand in sh, data in json or yaml", document, i+1, language)
		}
		f := fence{document: document, language: language, line: i + 2, heading: heading, notRun: reason}
		for i++; i < len(lines) && lines[i] != indent+"```"; i++ {
			f.text += strings.TrimPrefix(lines[i], indent) + "\n"
		}
		if i == len(lines) {
			t.Fatalf("%s has no end", f)
		}
		if language != "sh" && reason != "" {
			t.Errorf("%s: only commands are run", f)
		}
		found = append(found, f)
		reason = ""
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// planned lists the fences of a document that a session runs.
func planned(t *testing.T, document, session string) []fence {
	t.Helper()
	var list []fence
	for _, f := range fences(t, document) {
		if f.notRun == "" && startsTests.MatchString(f.text) {
			t.Fatalf("%s starts tests, and this is one of them: say that it is not run", f)
		}
		for _, p := range plan {
			if f.notRun == "" && p.document == document && p.session == session && (p.heading == "" || p.heading == f.heading) {
				list = append(list, f)
			}
		}
	}
	if len(list) == 0 {
		t.Fatalf("%s has nothing to run in session %s", document, session)
	}
	return list
}

// startsTests finds commands that start tests or a lab, which a test must not do: the tests would
// start themselves again, and again.
var startsTests = regexp.MustCompile(`(?m)(^|[;&|]\s*|\s)(go test|make\s+(\S+\s+)*(test|test-\w+|golden|bench|scale|crash|faults|storm|fuzz|lab|e2e|ui-test|chart-test|image)\b|\.ci/run)`)

func TestEveryFenceIsRunOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	for _, document := range documents {
		skipped := 0
		for _, f := range fences(t, document) {
			sessions := 0
			for _, p := range plan {
				if p.document == document && (p.heading == "" || p.heading == f.heading) {
					sessions++
				}
			}
			switch {
			case f.notRun == "" && startsTests.MatchString(f.text):
				t.Errorf("%s starts tests, and this is one of them: say that it is not run", f)
			case f.notRun != "":
				skipped++
			case sessions != 1:
				t.Errorf("%s (%s) is run in %d sessions: plan it in one, or write <!-- not run: why --> before it", f, f.heading, sessions)
			}
			if strings.TrimSpace(f.text) == "" {
				t.Errorf("%s is empty", f)
			}
		}
		if skipped > maxNotRun {
			t.Errorf("%s: %d fences are not run, more than %d", document, skipped, maxNotRun)
		}
	}
}

// shell runs fences one after the other in one bash, and fails the test at the first command that
// fails. replace has pairs of texts: what the document shows, and what stands for it here.
type shell struct {
	dir     string
	env     []string
	replace []string
	// work is done for the commands, by the goroutine of the test; nil = none.
	work <-chan func()
}

// sessionLimit bounds the commands of a session.
const sessionLimit = 5 * time.Minute

func (s shell) run(t *testing.T, list []fence) string {
	t.Helper()
	var script strings.Builder
	script.WriteString("set -Eeuo pipefail\ntrap 'echo \"FAILED in $FENCE\" >&2' ERR\n")
	replacer := strings.NewReplacer(s.replace...)
	for _, f := range list {
		fmt.Fprintf(&script, "FENCE=%s\necho \"== $FENCE\"\n%s\n", f, replacer.Replace(f.text))
	}
	path := filepath.Join(t.TempDir(), "fences.sh")
	if err := os.WriteFile(path, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), sessionLimit)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", path)
	command.Dir, command.Env = s.dir, s.env
	// The commands' own children end with them.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	ended := make(chan error, 1)
	go func() { ended <- command.Run() }()
	for {
		select {
		case work := <-s.work:
			work()
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			return out.String()
		}
	}
}

// tools makes a folder of programs for the front of PATH.
func tools(t *testing.T, scripts map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/bash\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// harmlessMake has make run what ends by itself and starts no tests: this may be one of those tests.
func harmlessMake(t *testing.T) string {
	t.Helper()
	real, err := exec.LookPath("make")
	if err != nil {
		t.Fatal(err)
	}
	return `if [ "$*" != demo ]; then echo "make $* is nothing for a session: say in the document that it is not run" >&2; exit 1; fi` + "\nexec " + real + " demo\n"
}

// strictCurl makes curl fail on an answer of 400 and more, which it takes for a success by default.
func strictCurl(t *testing.T) string {
	t.Helper()
	real, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	return "exec " + real + ` --fail-with-body "$@"` + "\n"
}

func TestCommandsThatStartTestsAreSeen(t *testing.T) {
	t.Parallel()
	for text, starts := range map[string]bool{
		"make test": true, "make  test   # as root": true, "make demo && make test": true, "sudo make test": true, "PACKAGES=./x make test": true, "make -s test": true,
		"make lab\nmake e2e": true, "make bench": true, "make ui-test": true, "make test-unit": true, "go test ./...": true, "STORMTIME=10m make storm": true, ".ci/run": true,
		"make demo": false, "make demo-serve": false, "make help": false, "make build": false, "curl localhost/test": false,
	} {
		if got := startsTests.MatchString(text); got != starts {
			t.Errorf("%q: %v, want %v", text, got, starts)
		}
	}
}

// The README's installation is the guide's, which the tests of the chart run.
func TestTheREADMEInstallsAsTheGuideDoes(t *testing.T) {
	t.Parallel()
	var install strings.Builder
	for _, f := range planned(t, "docs/operations.md", sessionChart) {
		if f.heading == "Install" {
			install.WriteString(f.text)
		}
	}
	for _, f := range planned(t, "README.md", sessionChart) {
		for line := range strings.Lines(f.text) {
			if !strings.Contains(install.String(), line) {
				t.Errorf("%s: the guide's section Install has no %q", f, line)
			}
		}
	}
}

var chosen = regexp.MustCompile(`\.with\(t, "([^"]+)"\)`)

// What is planned for the tests of the chart is among the blocks that they choose.
func TestTheChartsTestsRunWhatIsPlannedForThem(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob(filepath.Join(root, "deploy/helm/*_test.go"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("%v %v", sources, err)
	}
	var texts []string
	for _, source := range sources {
		for _, m := range chosen.FindAllStringSubmatch(read(t, strings.TrimPrefix(source, root+"/")), -1) {
			texts = append(texts, m[1])
		}
	}
	for _, f := range planned(t, "docs/operations.md", sessionChart) {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(f.text, text) }) {
			t.Errorf("%s: no test in deploy/helm chooses this block by one of %q", f, texts)
		}
	}
}

// target finds the targets of make at the beginning of code.
var target = regexp.MustCompile("(?m)(?:^|`)(?:[A-Z_]+=\\S+ )?make ([a-z][a-z0-9-]*)")

// targetsOf lists the targets that a document names as code, in its text and in its commands.
func targetsOf(t *testing.T, document string) []string {
	t.Helper()
	text := strings.Join(span.FindAllString(strings.ReplaceAll(withoutBlocks(read(t, document)), "\n", " "), -1), "\n")
	for _, f := range fences(t, document) {
		text += "\n" + f.text
	}
	var names []string
	for _, m := range target.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// Every target that a document names is one of the Makefile.
func TestTargetsOfMakeAreThere(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	for _, document := range []string{"README.md", "README.ko.md", "docs/operations.md", "docs/operations.ko.md", "docs/api.md", "docs/lab.md"} {
		for _, name := range targetsOf(t, document) {
			if !strings.Contains(makefile, "\n"+name+":") {
				t.Errorf("%s names make %s, which is no target", document, name)
			}
		}
	}
	inREADME := targetsOf(t, "README.md")
	for _, name := range []string{"demo", "test", "test-unit", "chart-test", "ui-test", "image", "bench", "scale", "lab", "e2e"} {
		if !slices.Contains(inREADME, name) {
			t.Errorf("README.md does not name make %s", name)
		}
	}
}
