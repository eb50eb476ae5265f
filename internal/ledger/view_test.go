package ledger

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
)

func TestViewOfAFreshShareIsTheBaseSystem(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"absent files": {},
		"empty files":  {"passwd": "", "group": "", "shadow": ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := share(t, files)
			before := tree(t, dir)
			v := view(t, newLedger(t, dir))
			if len(v.Users()) != 22 || len(v.Groups()) != 44 {
				t.Errorf("%d users and %d groups", len(v.Users()), len(v.Groups()))
			}
			for _, want := range []farm.GroupRef{{Name: "messagebus", GID: 102}, {Name: "ssl-cert", GID: 104}, {Name: "systemd-journal", GID: 999}} {
				if g, _ := v.Group(want.Name); g.GID != want.GID {
					t.Errorf("group %s has gid %d, want %d", want.Name, g.GID, want.GID)
				}
			}
			for _, account := range v.Users() {
				if !account.IsBase() || !farm.IsBaseName(string(account.Name)) {
					t.Errorf("%s is not known as a base account", account.Name)
				}
			}
			for _, group := range v.Groups() {
				if !group.IsBase() || !farm.IsBaseName(string(group.Name)) {
					t.Errorf("%s is not known as a base group", group.Name)
				}
			}
			if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
				t.Errorf("looking wrote: %s", diff)
			}
		})
	}
}

func TestViewOfADamagedShareFails(t *testing.T) {
	t.Parallel()
	all := small()
	for _, gone := range []string{"passwd", "group", "shadow"} {
		for _, how := range []string{"absent", "empty"} {
			t.Run(gone+" "+how, func(t *testing.T) {
				t.Parallel()
				files := maps.Clone(all)
				delete(files, gone)
				if how == "empty" {
					files[gone] = ""
				}
				dir := share(t, files)
				before := tree(t, dir)
				l := newLedger(t, dir)
				_, err := l.View(t.Context())
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), gone) {
					t.Errorf("View: %v", err)
				}
				if err := l.Settle(t.Context()); !errors.Is(err, ErrDamaged) {
					t.Errorf("Update: %v", err)
				}
				if err := l.CheckWritable(t.Context()); !errors.Is(err, ErrDamaged) {
					t.Errorf("CheckWritable: %v", err)
				}
				if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
					t.Errorf("something was written: %s", diff)
				}
			})
		}
	}
	t.Run("no share", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "absent")
		if _, err := newLedger(t, dir).View(t.Context()); !errors.Is(err, ErrDamaged) {
			t.Errorf("View: %v", err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("the share was made")
		}
	})
}

func TestViewFindsInFileOrder(t *testing.T) {
	t.Parallel()
	v := view(t, newLedger(t, share(t, small())))
	var names []farm.UserName
	for _, account := range v.Users() {
		names = append(names, account.Name)
	}
	if diff := cmp.Diff([]farm.UserName{"root", "alice", "bob"}, names); diff != "" {
		t.Error(diff)
	}
	want := []farm.Group{{Name: "bob", GID: 20001}, {Name: "team", GID: 20005, Members: []farm.UserName{"alice", "bob"}}}
	if diff := cmp.Diff(want, v.GroupsOf("bob")); diff != "" {
		t.Error(diff)
	}
	if groups := v.GroupsOf("nobody-here"); groups != nil {
		t.Errorf("an unknown user is in %v", groups)
	}
	if g, ok := v.GroupByGID(20005); !ok || g.Name != "team" {
		t.Errorf("gid 20005 is %v", g)
	}
}

func TestAccountAndGroupNames(t *testing.T) {
	t.Parallel()
	l := newLedger(t, share(t, small()))
	account, group, err := l.Account(t.Context(), "alice")
	if err != nil || account.UID != 20000 || group.Name != "alice" {
		t.Errorf("alice is %v in %v: %v", account, group, err)
	}
	if _, _, err := l.Account(t.Context(), "ghost"); !errors.Is(err, farm.ErrNotFound) {
		t.Errorf("ghost: %v", err)
	}
	refs, err := l.GroupNames(t.Context(), []farm.ID{20005, 7, 20001, 20005})
	if diff := cmp.Diff([]farm.GroupRef{{Name: "team", GID: 20005}, {Name: "bob", GID: 20001}}, refs); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestUnchangedFilesAreNotReadAgain(t *testing.T) {
	t.Parallel()
	l := newLedger(t, share(t, small()))
	l.racyFor = -1 // every file counts as settled
	first := view(t, l)
	memos := 0
	for range 3 {
		v := view(t, l)
		if v != first {
			t.Fatal("an unchanged share gave a new view")
		}
		v.Memo("list", func() any { memos++; return memos })
	}
	if memos != 1 {
		t.Errorf("the memo was made %d times", memos)
	}
	update(t, l, func(tx *Tx) { tx.AddGroup(farm.Group{Name: "new", GID: 20010}) })
	second := view(t, l)
	if second == first || second.Version() == first.Version() {
		t.Error("a change gave the old view or version")
	}
	if second.passwd != first.passwd {
		t.Error("passwd was parsed again although only group changed")
	}
	if _, ok := second.Group("new"); !ok {
		t.Error("the new group is not seen")
	}
}

func TestChangesWithinOneTickAreSeen(t *testing.T) {
	t.Parallel()
	dir := share(t, small())
	l := newLedger(t, dir)
	for i := range 200 {
		name := fmt.Sprintf("u%03d", i)
		text := small()["passwd"] + name + ":x:20002:20002::/home/u:/bin/bash\n"
		writeShare(t, dir, "passwd", text) // in place, same size, same inode
		if _, ok := view(t, l).User(farm.UserName(name)); !ok {
			t.Fatalf("change %d was not seen", i)
		}
	}
}

func TestViewIsOneStateWhileCommitsRun(t *testing.T) {
	t.Parallel()
	dir := share(t, small())
	writer, reader := newLedger(t, dir), newLedger(t, dir)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			err := writer.Update(t.Context(), func(tx *Tx) error {
				if i%2 == 0 {
					tx.AddGroup(farm.Group{Name: "zed", GID: 20009})
					tx.AddMember("zed", "team")
					tx.AddAccount(farm.Account{Name: "zed", UID: 20009, GID: 20009, Home: "/home/zed", Shell: "/bin/bash"})
					return tx.SetPassword("zed", "$6$x$y")
				}
				tx.RemoveAccount("zed")
				tx.RemoveGroup("zed")
				tx.RemoveMember("zed")
				return tx.RemovePassword("zed")
			})
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for range 2000 {
		v := view(t, reader)
		_, there := v.User("zed")
		groups := v.GroupsOf("zed")
		if there && len(groups) != 2 {
			t.Fatalf("half an account: zed is in %v", groups)
		}
		for _, group := range v.Groups() {
			if group.Name == "root" && group.GID != 0 {
				t.Fatal("a torn file")
			}
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
