package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
)

// addZed is a whole creation: every kind of file changes and an entry goes.
func addZed(tx *Tx) error {
	tx.AddGroup(farm.Group{Name: "zed", GID: 20010})
	tx.AddMember("zed", "team")
	if err := tx.SetPassword("zed", "$6$salt$hash"); err != nil {
		return err
	}
	tx.SetSudoers("zed")
	tx.AddAccount(farm.Account{Name: "zed", UID: 20010, GID: 20010, Gecos: "Zed", Home: "/home/zed", Shell: "/bin/bash"})
	tx.DropEntry("E1")
	return nil
}

// dropAlice is a whole deletion.
func dropAlice(tx *Tx) error {
	tx.RemoveAccount("alice")
	tx.RemoveGroup("alice")
	tx.RemoveMember("alice")
	tx.Retire(UID, 20000, "alice")
	tx.Retire(GID, 20000, "alice")
	tx.RemoveSudoers("alice")
	tx.PutEntry(Entry{ID: "E2", Kind: Deleting, User: "alice", UID: 20000})
	return tx.RemovePassword("alice")
}

func withSudo(o *Options) { o.SudoCommands = []string{"/usr/bin/apt", " /usr/bin/id "} }

// working is a share in use: policy files, an entry, a retired number.
func working(t testing.TB) string {
	files := small()
	files["sudoers.d/alice"] = "alice ALL=(ALL) PASSWD: /usr/bin/apt\n"
	files[entryFile("E1")] = `{"id":"E1","kind":"create","user":"zed","uid":20010}`
	files[retiredFile] = "uid:20003:carol\n"
	return share(t, files)
}

func TestCommitWritesExactlyTheLines(t *testing.T) {
	t.Parallel()
	dir := working(t)
	l := newLedger(t, dir, withSudo)
	if err := l.Update(t.Context(), addZed); err != nil {
		t.Fatal(err)
	}
	if err := l.Update(t.Context(), dropAlice); err != nil {
		t.Fatal(err)
	}
	day := testNow.Unix() / 86400
	want := map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\n# comment\nshort:line\nbob:x:20001:20001::/home/bob:/bin/bash\n" +
			"zed:x:20010:20010:Zed:/home/zed:/bin/bash\n",
		"group":         "root:x:0:\nbob:x:20001:\n\nteam:x:20005:bob,zed\nzed:x:20010:\n",
		"shadow":        fmt.Sprintf("root:*:1:0:99999:7:::\nbob:$6$c$d:1:0:99999:7:::\nzed:$6$salt$hash:%d:0:99999:7:::\n", day),
		"sudoers.d/zed": "zed ALL=(ALL) PASSWD: /usr/bin/apt, /usr/bin/id\n",
		retiredFile:     "uid:20003:carol\nuid:20000:alice\ngid:20000:alice\n",
	}
	for name, text := range want {
		if diff := cmp.Diff(text, read(t, dir, name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, gone := range []string{"sudoers.d/alice", entryFile("E1")} {
		if _, err := os.Lstat(filepath.Join(dir, gone)); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
	if entries, err := l.Entries(t.Context()); err != nil || len(entries) != 1 || entries[0].User != "alice" {
		t.Errorf("journal: %v %v", entries, err)
	}
	noTemps(t, dir)
}

func TestCommitKeepsModes(t *testing.T) {
	t.Parallel()
	dir := working(t)
	modes := map[string]os.FileMode{"passwd": 0o664, "group": 0o604, "shadow": 0o640}
	for name, mode := range modes {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	writeShare(t, dir, "sudoers.d/zed", "old policy\n")
	if err := newLedger(t, dir, withSudo).Update(t.Context(), addZed); err != nil {
		t.Fatal(err)
	}
	modes["sudoers.d/zed"] = 0o440
	for name, mode := range modes {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v (%v)", name, info.Mode().Perm(), mode, err)
		}
	}
}

func TestFirstCommitSeedsTheWholeShare(t *testing.T) {
	t.Parallel()
	dir := share(t, map[string]string{"bashrc": "my own\n", "group": ""})
	l := newLedger(t, dir)
	update(t, l, func(tx *Tx) { tx.PutEntry(l.NewEntry(Creating, "zed", 20000)) })
	if _, err := os.Stat(filepath.Join(dir, "passwd")); err == nil {
		t.Error("a journal entry alone seeded the share")
	}
	update(t, l, func(tx *Tx) { tx.AddGroup(farm.Group{Name: "team", GID: 20000}) })
	if got := read(t, dir, "group"); got != seedGroup+"team:x:20000:\n" {
		t.Errorf("group: %q", got)
	}
	if got := read(t, dir, "passwd"); got != seedPasswd {
		t.Errorf("passwd: %q", got)
	}
	shadow := read(t, dir, "shadow")
	if strings.Count(shadow, ":*:") != strings.Count(seedPasswd, "\n") {
		t.Errorf("not every shadow entry is locked: %q", shadow)
	}
	if read(t, dir, "bashrc") != "my own\n" || read(t, dir, "bash.bash_logout") != seedLogout {
		t.Error("bashrc or bash.bash_logout")
	}
	for name, mode := range map[string]os.FileMode{"passwd": 0o644, "shadow": 0o600, "bash.bash_logout": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

// A commit that is killed between any two durable instructions is, after the next Update, wholly
// there or wholly not, and no reader ever sees half of it.
func TestCrashAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		edit func(*Tx) error
		// whole tells from a view whether the change is there, and fails on half of it.
		whole func(t *testing.T, v *View) bool
	}{
		{"adding", addZed, func(t *testing.T, v *View) bool {
			_, there := v.User("zed")
			if groups := v.GroupsOf("zed"); there && len(groups) != 2 {
				t.Errorf("half an account: zed is in %v", groups)
			}
			return there
		}},
		{"deleting", dropAlice, func(t *testing.T, v *View) bool {
			_, there := v.User("alice")
			if groups := v.GroupsOf("alice"); there && len(groups) != 2 {
				t.Errorf("half an account: alice is in %v", groups)
			}
			return !there
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			before := tree(t, working(t))
			plain := working(t)
			if err := newLedger(t, plain, withSudo).Update(t.Context(), test.edit); err != nil {
				t.Fatal(err)
			}
			after := tree(t, plain)
			for n := 1; ; n++ {
				dir := working(t)
				point, crashed := crashAt(n, func(point func(string)) {
					l := newLedger(t, dir, withSudo, func(o *Options) { o.Point = point })
					_ = l.Update(context.Background(), test.edit)
				})
				if !crashed {
					if n < 12 {
						t.Errorf("only %d points", n-1)
					}
					break
				}
				next := newLedger(t, dir, withSudo)
				v, err := next.View(t.Context())
				if err != nil {
					t.Fatalf("after %q readers fail: %v", point, err)
				}
				seen := test.whole(t, v)
				if err := next.Settle(t.Context()); err != nil {
					t.Fatalf("after %q: %v", point, err)
				}
				want := before
				if test.whole(t, view(t, next)) {
					want = after
				} else if seen {
					t.Errorf("after %q the change was seen and then went away", point)
				}
				if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
					t.Errorf("after %q: %s", point, diff)
				}
				noTemps(t, dir)
			}
		})
	}
}

// Recovery itself may be killed and repeated.
func TestCrashDuringRecovery(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		dir := working(t)
		crashAt(9, func(point func(string)) {
			_ = newLedger(t, dir, withSudo, func(o *Options) { o.Point = point }).Update(context.Background(), dropAlice)
		})
		_, crashed := crashAt(n, func(point func(string)) {
			_ = newLedger(t, dir, withSudo, func(o *Options) { o.Point = point }).Settle(context.Background())
		})
		l := newLedger(t, dir, withSudo)
		if err := l.Settle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, there := view(t, l).User("alice"); there {
			t.Error("a decided deletion was not completed")
		}
		noTemps(t, dir)
		if !crashed {
			return
		}
	}
}

func TestFilesThatCannotBePreparedChangeNothing(t *testing.T) {
	t.Parallel()
	link := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			target := filepath.Join(dir, name)
			if err := os.Rename(target, target+".real"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target+".real", target); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		file   string
		damage func(t *testing.T, dir string)
	}{
		{"passwd", link("passwd")},
		{"group", link("group")},
		{"shadow", link("shadow")},
		{"sudoers", func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, sudoersDir)); err != nil {
				t.Fatal(err)
			}
			writeShare(t, dir, sudoersDir, "no directory")
		}},
		{"shadow", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "shadow")); err != nil {
				t.Fatal(err)
			}
			writeShare(t, dir, "shadow/file", "a directory")
		}},
	} {
		t.Run(test.file, func(t *testing.T) {
			t.Parallel()
			dir := working(t)
			test.damage(t, dir)
			before := tree(t, dir)
			err := newLedger(t, dir, withSudo).Update(t.Context(), addZed)
			var write *WriteError
			if !errors.As(err, &write) || write.File != test.file {
				t.Errorf("got %v, want a WriteError of %s", err, test.file)
			}
			if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUpdateWritesNothingWhen(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	for _, test := range []struct {
		name string
		lock Locker
		ctx  func(context.Context) context.Context
		edit func(*Tx) error
		want error
	}{
		{"edit fails", newOneLock(), nil, func(tx *Tx) error { _ = addZed(tx); return mine }, mine},
		{"the lock is lost before the commit", lostLock{err: mine}, nil, addZed, mine},
		{"the lock is not to be had in time", &oneLock{held: fullChannel()}, nil, addZed, farm.ErrLockTimeout},
		{"the caller is gone", newOneLock(), func(ctx context.Context) context.Context {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(mine)
			return ctx
		}, addZed, mine},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := working(t)
			before := tree(t, dir)
			l := newLedger(t, dir, withSudo, func(o *Options) { o.Lock = test.lock; o.LockWait = 20 * time.Millisecond })
			ctx := t.Context()
			if test.ctx != nil {
				ctx = test.ctx(ctx)
			}
			if err := l.Update(ctx, test.edit); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnotherProgramsEditSurvives(t *testing.T) {
	t.Parallel()
	dir := working(t)
	l := newLedger(t, dir, withSudo)
	calls := 0
	err := l.Update(t.Context(), func(tx *Tx) error {
		if calls++; calls == 1 {
			writeShare(t, dir, "passwd", read(t, dir, "passwd")+"admin:x:20020:20020::/home/admin:/bin/bash\n")
		}
		return addZed(tx)
	})
	if err != nil || calls != 2 {
		t.Fatalf("%d calls: %v", calls, err)
	}
	v := view(t, l)
	for _, name := range []farm.UserName{"admin", "zed"} {
		if _, ok := v.User(name); !ok {
			t.Errorf("%s is lost", name)
		}
	}
}

func TestAnEditBetweenCrashAndRecoveryIsKeptAsACopy(t *testing.T) {
	t.Parallel()
	dir := working(t)
	point, _ := crashAt(8, func(point func(string)) {
		_ = newLedger(t, dir, withSudo, func(o *Options) { o.Point = point }).Update(context.Background(), addZed)
	})
	if !strings.HasPrefix(point, "renamed") {
		t.Fatalf("crashed at %q", point)
	}
	edited := read(t, dir, "passwd") + "admin:x:20020:20020::/home/admin:/bin/bash\n"
	writeShare(t, dir, "passwd", edited)
	l := newLedger(t, dir, withSudo)
	if err := l.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := view(t, l).User("zed"); !ok {
		t.Error("a decided creation was not completed")
	}
	if got := read(t, dir, privateDir+"/passwd.replaced"); got != edited {
		t.Errorf("the copy is %q", got)
	}
}

func TestManyWritersLoseNothing(t *testing.T) {
	t.Parallel()
	dir := working(t)
	lock := newOneLock()
	ledgers := []*Ledger{
		newLedger(t, dir, func(o *Options) { o.Lock = lock }),
		newLedger(t, dir, func(o *Options) { o.Lock = lock }),
	}
	const each = 20
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range each {
				name := farm.GroupName(fmt.Sprintf("g%d_%d", worker, i))
				err := ledgers[worker%2].Update(t.Context(), func(tx *Tx) error {
					gid, err := tx.NextGID()
					tx.AddGroup(farm.Group{Name: name, GID: gid})
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	v := view(t, ledgers[0])
	seen := map[farm.ID]farm.GroupName{}
	for _, group := range v.Groups() {
		if other, twice := seen[group.GID]; twice {
			t.Errorf("gid %d was given to %s and %s", group.GID, other, group.Name)
		}
		seen[group.GID] = group.Name
	}
	if got, want := len(v.Groups()), 4+8*each; got != want {
		t.Errorf("%d groups, want %d", got, want)
	}
	noTemps(t, dir)
}

func TestPrivateFilesAreNotReadableByOthers(t *testing.T) {
	t.Parallel()
	dir := share(t, small())
	staged := map[string]os.FileMode{}
	l := newLedger(t, dir, func(o *Options) {
		o.Point = func(at string) {
			if at != "staged shadow" {
				return
			}
			names, _ := filepath.Glob(filepath.Join(dir, ".shadow.*"))
			for _, name := range names {
				info, err := os.Stat(name)
				if err != nil {
					t.Error(err)
					continue
				}
				staged[filepath.Base(name)] = info.Mode().Perm()
			}
		}
	})
	if err := os.Chmod(filepath.Join(dir, "shadow"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Update(t.Context(), dropAlice); err != nil {
		t.Fatal(err)
	}
	if len(staged) != 1 {
		t.Fatalf("staged: %v", staged)
	}
	for name, mode := range staged {
		if mode != 0o600 {
			t.Errorf("%s has mode %v", name, mode)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, privateDir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%s: %v %v", privateDir, info.Mode(), err)
	}
}
