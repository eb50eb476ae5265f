package app_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

var (
	pageFence = regexp.MustCompile("(?ms)^```(yaml|sh)\n(.*?)^```$")
	fileName  = regexp.MustCompile(`\A# ([a-z0-9]+\.yaml)\n`)
	testName  = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
)

func readPage(t *testing.T, path string) []byte {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// followPage does what a page says, in a folder of its own: files are written, commands are run, with these
// programs by name and these variables. It returns how many files and blocks of commands there were.
func followPage(t *testing.T, path string, programs map[string]string, environ ...string) (files, commands int) {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	for name, program := range programs {
		if err := os.Symlink(program, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, fence := range pageFence.FindAllSubmatch(readPage(t, path), -1) {
		text := string(fence[2])
		if name := fileName.FindStringSubmatch(text); name != nil {
			files++
			if err := os.WriteFile(filepath.Join(dir, name[1]), fence[2], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if string(fence[1]) == "yaml" {
			continue
		}
		commands++
		shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
		shell.Dir = dir
		shell.Env = append([]string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + dir}, environ...)
		if out, err := shell.CombinedOutput(); err != nil || bytes.Contains(out, []byte(`"error"`)) {
			t.Fatalf("%s\n%v: %s", text, err, out)
		}
	}
	return files, commands
}

// namesOfTestsExist holds what a page says is tested to the tests that there are; it has to name some.
func namesOfTestsExist(t *testing.T, path string, atLeast int) {
	t.Helper()
	sources, err := exec.CommandContext(t.Context(), "grep", "-rhoE", `^func Test[A-Za-z0-9]+\(`, "--include=*_test.go", "../..").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := testName.FindAllSubmatch(readPage(t, path), -1)
	if len(names) < atLeast {
		t.Errorf("only %d tests are named", len(names))
	}
	for _, name := range names {
		if !bytes.Contains(sources, []byte("func "+string(name[1])+"(")) {
			t.Errorf("the page names %s, which there is not", name[1])
		}
	}
}
