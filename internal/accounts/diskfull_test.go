package accounts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"config-server/internal/farm"
)

// childDir names the share on which this binary, started again as a child, makes one account under a
// limit on the size of files: the kernel then cuts writes off in their middle, as a full disk does.
const childDir = "ACCOUNTS_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir, os.Getenv(childDir+"_LIMIT")))
	}
	os.Exit(m.Run())
}

// child prints what CreateUser answered and which calls the NAS got.
func child(dir, limit string) int {
	var size uint64
	if _, err := fmt.Sscan(limit, &size); err != nil {
		fmt.Println(err)
		return 1
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: size}); err != nil {
		fmt.Println(err)
		return 1
	}
	w := &world{dir: filepath.Join(dir, "share"), locks: filepath.Join(dir, "locks"), nas: newNAS(), kdc: newKDC()}
	_, err := w.service().CreateUser(context.Background(), newUser("zed"))
	told, ok := farm.AsError(err)
	if !ok {
		fmt.Println("no error")
		return 1
	}
	fmt.Printf("%s: %s; homes %d principals %d\n", told.Kind, told.Detail, len(w.nas.homes), len(w.kdc.principals))
	return 0
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	padding := func(lines int) string { return strings.Repeat("# "+strings.Repeat("-", 97)+"\n", lines) }
	for _, test := range []struct {
		file, limit, want string
	}{
		{"group", "6000", "internal: failed to write group; homes 0 principals 0\n"},
		{"shadow", "6000", "internal: failed to write shadow; homes 0 principals 0\n"},
		{"passwd", "6000", "internal: failed to write passwd; homes 0 principals 0\n"},
		{"journal", "10", "internal: failed to write journal; homes 0 principals 0\n"},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			w := newWorld(t)
			if test.file != "journal" {
				w.write(t, test.file, padding(59)+w.read(t, test.file)+"\n"+padding(1))
			}
			if err := os.Rename(w.dir, filepath.Join(root, "share")); err != nil {
				t.Fatal(err)
			}
			w.dir = filepath.Join(root, "share")
			before := w.files(t)

			command := exec.CommandContext(t.Context(), os.Args[0])
			command.Env = append(os.Environ(), childDir+"="+root, childDir+"_LIMIT="+test.limit)
			var errors bytes.Buffer
			command.Stderr = &errors
			out, err := command.Output()
			if err != nil || string(out) != test.want {
				t.Errorf("%v: got %q, want %q %s", err, out, test.want, errors.String())
			}
			w.unchanged(t, before)
			w.clean(t)
		})
	}
}
