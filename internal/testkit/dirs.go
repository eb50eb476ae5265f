package testkit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// dirPrefix begins the name of the folder of each process that starts parts; its pid follows.
const dirPrefix = "config-server-testkit-"

// processDir makes the folder of this process once and removes those of processes that are gone.
var processDir = sync.OnceValues(func() (string, error) {
	sweep(os.TempDir())
	dir, err := os.MkdirTemp("", dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return "", fmt.Errorf("make the folder of the parts: %w", err)
	}
	return dir, os.Chmod(dir, 0o755)
})

// sweep removes folders whose process has ended.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	for _, dir := range dirs {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
}

// partDir makes a folder for one part that lives as long as this process.
func partDir(part string) (string, error) {
	parent, err := processDir()
	if err != nil {
		return "", err
	}
	return newPartDir(parent, part)
}

func newPartDir(parent, part string) (string, error) {
	dir, err := os.MkdirTemp(parent, part+"-")
	if err != nil {
		return "", fmt.Errorf("make the folder of %s: %w", part, err)
	}
	// Parts and logins with other users read here.
	return dir, os.Chmod(dir, 0o755)
}

// testPartDir makes a folder for one part of one test and removes it after the test. It is used
// instead of t.TempDir because its name stays short enough for sockets and long test names.
func testPartDir(t testing.TB, part string) string {
	t.Helper()
	dir, err := partDir(part)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// manage starts p for one test: it is stopped after the test, and its log shown if the test failed.
func manage(t testing.TB, p *process) {
	t.Helper()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", p.name, p.logTail())
		}
	})
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
}
