package ledger

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"config-server/internal/farm"
)

// oneLock is a Locker for one name, good for several ledgers of one process.
type oneLock struct{ held chan struct{} }

func newOneLock() *oneLock { return &oneLock{held: make(chan struct{}, 1)} }

func (o *oneLock) Lock(ctx context.Context, _ string) (farm.Lock, error) {
	select {
	case o.held <- struct{}{}:
		return &heldLock{of: o}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type heldLock struct {
	of   *oneLock
	lost error
	done bool
}

func (h *heldLock) Unlock() {
	if !h.done {
		h.done = true
		<-h.of.held
	}
}

func (h *heldLock) Err() error { return h.lost }

// lostLock gives out locks that are lost already.
type lostLock struct{ err error }

func (l lostLock) Lock(context.Context, string) (farm.Lock, error) {
	return &heldLock{of: &oneLock{held: fullChannel()}, lost: l.err}, nil
}

func fullChannel() chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	return c
}

var testNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newLedger(t testing.TB, dir string, change ...func(*Options)) *Ledger {
	t.Helper()
	opts := Options{Dir: dir, Lock: newOneLock(), Now: func() time.Time { return testNow }, Instance: "test", Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&opts)
	}
	return New(opts)
}

// share makes a directory with these files.
func share(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		writeShare(t, dir, name, text)
	}
	return dir
}

func writeShare(t testing.TB, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// small is a share with two users and one shared group, and lines that only other programs know.
func small() map[string]string {
	return map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\n# comment\nalice:x:20000:20000:Alice:/home/alice:/bin/bash\nshort:line\n" +
			"bob:x:20001:20001::/home/bob:/bin/bash\n",
		"group":  "root:x:0:\nalice:x:20000:\nbob:x:20001:\n\nteam:x:20005:alice,bob\n",
		"shadow": "root:*:1:0:99999:7:::\nalice:$6$a$b:1:0:99999:7:::\nbob:$6$c$d:1:0:99999:7:::\n",
	}
}

// tree reads all files below dir: path -> mode and content.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		found[name] = info.Mode().String() + " " + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func read(t testing.TB, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func view(t testing.TB, l *Ledger) *View {
	t.Helper()
	v, err := l.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func update(t testing.TB, l *Ledger, edit func(tx *Tx)) {
	t.Helper()
	err := l.Update(t.Context(), func(tx *Tx) error {
		edit(tx)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// crashAt runs f in a goroutine that ends at the nth point, as if the process had been killed
// there. It reports whether f came to that point.
func crashAt(n int, f func(point func(string))) (name string, crashed bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		passed := 0
		f(func(at string) {
			if passed++; passed == n {
				name, crashed = at, true
				runtime.Goexit()
			}
		})
	}()
	<-done
	return name, crashed
}

func noTemps(t testing.TB, dir string) {
	t.Helper()
	for name := range tree(t, dir) {
		if strings.HasSuffix(name, tempSuffix) || name == recordFile {
			t.Errorf("left behind: %s", name)
		}
	}
}
