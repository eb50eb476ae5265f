package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// block puts something in the way of a rename, at this point of a commit, and returns what takes it
// away again.
func block(t *testing.T, dir, at, file string) (point func(string), unblock func()) {
	target := filepath.Join(dir, file)
	point = func(now string) {
		if now != at {
			return
		}
		if err := os.Rename(target, target+".kept"); err != nil {
			t.Error(err)
		}
		writeShare(t, target, "in-the-way", "")
	}
	return point, func() {
		if err := os.RemoveAll(target); err != nil {
			t.Error(err)
		}
		if err := os.Rename(target+".kept", target); err != nil {
			t.Error(err)
		}
	}
}

func TestACommitWhoseFirstRenameFailsIsTakenBack(t *testing.T) {
	t.Parallel()
	dir := working(t)
	before := tree(t, dir)
	point, unblock := block(t, dir, "record", "group")
	err := newLedger(t, dir, withSudo, func(o *Options) { o.Point = point }).Update(t.Context(), addZed)
	var write *WriteError
	if !errors.As(err, &write) || write.File != "group" || errors.Is(err, ErrUnfinished) {
		t.Errorf("got %v", err)
	}
	unblock()
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestACommitThatIsStuckHalfWayIsCompletedLater(t *testing.T) {
	t.Parallel()
	dir := working(t)
	point, unblock := block(t, dir, "renamed group", "shadow")
	l := newLedger(t, dir, withSudo, func(o *Options) { o.Point = point })
	if err := l.Update(t.Context(), addZed); !errors.Is(err, ErrUnfinished) {
		t.Fatalf("got %v", err)
	}
	if !l.Interrupted() {
		t.Error("nothing tells that a commit waits")
	}
	if err := l.Settle(t.Context()); err == nil {
		t.Error("it was completed although something is in the way")
	}
	unblock()
	if err := l.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, there := view(t, l).User("zed"); !there || l.Interrupted() {
		t.Error("it was not completed")
	}
	plain := working(t)
	if err := newLedger(t, plain, withSudo).Update(t.Context(), addZed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, plain), tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedJournalsAreToldAndNotTouched(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"entry that is no JSON":            journalDir + "/X.json",
		"entry under another entry's name": journalDir + "/Y.json",
		"record that is no JSON":           recordFile,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := share(t, small())
			text := "{"
			if file == journalDir+"/Y.json" {
				text = `{"id":"Z"}`
			}
			writeShare(t, dir, file, text)
			before := tree(t, dir)
			if err := newLedger(t, dir).Settle(t.Context()); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
