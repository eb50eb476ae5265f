package locks_test

import (
	"os"
	"path/filepath"
	"testing"

	"config-server/internal/locks"
)

func TestLocalSweepRemovesOnlyWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	local := locks.NewLocal(dir)
	held := lock(t, local, "user/alice")
	// What a killed process leaves: the kernel has freed the lock, the file is there.
	abandoned := filepath.Join(dir, "instance%2Fgone.lock")
	other := filepath.Join(dir, "notes.txt")
	for _, path := range []string{abandoned, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := locks.NewLocal(dir).Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abandoned); !os.IsNotExist(err) {
		t.Errorf("the abandoned file: %v, want that it is gone", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a file that is no lock: %v", err)
	}
	if err := held.Err(); err != nil {
		t.Errorf("the held lock: %v", err)
	}
	held.Unlock()
	if err := locks.NewLocal(filepath.Join(dir, "missing")).Sweep(); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}
