package testkit

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update is the flag -update of every test binary that imports this package.
var update = flag.Bool("update", false, "write the golden files anew instead of comparing with them")

// Golden compares got with the golden file at path (relative to the package's folder, by custom below
// testdata), or writes it anew under -update. A missing file fails the test.
func Golden(t testing.TB, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatalf("update %s: %v", path, err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatalf("update %s: %v", path, err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%s is not there (go test -update writes it)", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got; go test -update writes it anew):\n%s", path, diff)
	}
}

// Updating tells whether the flag -update is set.
func Updating() bool { return *update }
