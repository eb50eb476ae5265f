package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Need skips the test under -short, with part as the reason, and fails it when one of the programs
// is not there. debian names the package that has them. Every starter of this package calls it.
func Need(t testing.TB, part, debian string, programs ...string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("-short: needs a real %s", part)
	}
	for _, program := range programs {
		if _, err := lookProgram(program); err != nil {
			t.Fatalf("%s: %v (apt-get install %s, or run make test, which installs it)", part, err, debian)
		}
	}
}

// needRoot fails the test when it does not run as root, which namespaces and logins need.
func needRoot(t testing.TB, part string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatalf("%s: tests with real parts need root; make test-unit runs the others", part)
	}
}

// lookProgram finds a program in PATH or in the folders for superusers, which PATH may lack.
func lookProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/local/sbin/", "/usr/sbin/", "/sbin/"} {
		if path, err := exec.LookPath(dir + name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("program %s is not installed", name)
}
