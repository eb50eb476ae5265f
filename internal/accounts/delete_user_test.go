package accounts

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/ledger"
)

func TestDeleteUserTakesEveryTraceOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got, err := w.service().DeleteUser(t.Context(), "alice")
	if err != nil || len(got.Warnings) > 0 {
		t.Fatalf("%v %v", got, err)
	}
	want := map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\n# a note\n2023123456:x:20001:20001::/home/2023123456:/bin/bash\n" +
			"odd+name:x:20002:20002::/home/odd+name:/bin/bash",
		// sudo is a base group and stays; team was left empty and goes; old never had alice.
		"group":  "root:x:0:\nsudo:x:27:\n2023123456:x:20001:\nodd+name:x:20002:\n\nold:x:1500:\nboth:x:20006:2023123456",
		"shadow": "root:*:1:0:99999:7:::\n2023123456:$6$c$d:1:0:99999:7:::\n",
	}
	if diff := cmp.Diff(want, w.files(t)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("uid:20000:alice\ngid:20000:alice\ngid:20005:team\n", w.read(t, ".config-server/retired")); diff != "" {
		t.Error(diff)
	}
	if _, left := w.nas.homes["alice"]; left || w.kdc.principals["alice"] {
		t.Error("home or principal is left")
	}
	w.clean(t)
	_, err = w.service().DeleteUser(t.Context(), "alice")
	wantError(t, err, farm.NotFound, "user not found")
}

func TestDeleteUserCanKeepEmptyGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keep := func(_ *ledger.Options, o *Options) { o.KeepEmptyGroups = true }
	if _, err := w.service(keep).DeleteUser(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	group := w.read(t, "group")
	if !strings.Contains(group, "team:x:20005:\n") || strings.Contains(group, "alice") {
		t.Errorf("group: %q", group)
	}
}

func TestDeleteUserKeepsAPrimaryGroupThatOthersUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(t, "passwd", w.read(t, "passwd")+"\nguest:x:20030:20000::/home/guest:/bin/bash\n")
	if _, err := w.service().DeleteUser(t.Context(), "alice"); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.read(t, "group"), "alice:x:20000:\n") {
		t.Error("somebody's primary group is gone")
	}
}

func TestDeleteUserRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, user string
		kind       farm.Kind
		text       string
	}{
		{"absent", "nobody-here", farm.NotFound, "user not found"},
		{"base account", "root", farm.Invalid, "base account"},
		{"base account with an ordinary name", "svc", farm.Invalid, "base account"},
		{"base account with an ordinary number", "daemon", farm.Invalid, "base account"},
		{"absent name that breaks the rule", "Nobody.Here", farm.Invalid, "invalid user name"},
		{"path", "..", farm.Invalid, "invalid user name"},
		{"path in the share", "../passwd", farm.Invalid, "invalid user name"},
		{"empty", "", farm.Invalid, "invalid user name"},
		{"white space", "al ice", farm.Invalid, "invalid user name"},
		{"comma", "al,ice", farm.Invalid, "invalid user name"},
		{"comment", "# a note", farm.Invalid, "invalid user name"},
		{"newline", "alice\n", farm.Invalid, "invalid user name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write(t, "passwd", w.read(t, "passwd")+"\nsvc:x:500:500::/srv:/bin/sh\ndaemon:x:20040:20040::/home/daemon:/bin/sh\n")
			before := w.files(t)
			_, err := w.service().DeleteUser(t.Context(), test.user)
			wantError(t, err, test.kind, test.text)
			w.unchanged(t, before)
			if len(w.nas.calls) > 0 {
				t.Errorf("the NAS was asked: %v", w.nas.calls)
			}
		})
	}
}

func TestDeleteUserAndTheHome(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, user string
		arrange    func(w *world)
		warning    string
		stays      bool
		silent     bool // no command to the NAS at all
	}{
		{"its own", "alice", func(*world) {}, "", false, false},
		{"an old name's own", "2023123456", func(*world) {}, "", false, false},
		{"absent", "alice", func(w *world) { delete(w.nas.homes, "alice") }, "", false, false},
		{"somebody else's", "alice", func(w *world) { w.nas.homes["alice"] = homeDir{owner: 20099} }, "belongs to uid 20099", true, false},
		{"root's", "alice", func(w *world) { w.nas.homes["alice"] = homeDir{} }, "belongs to uid 0", true, false},
		{"a name that may not be in a command", "odd+name", func(*world) {}, "cannot be part of a command", true, true},
		{"look fails", "alice", func(w *world) { w.nas.faults["owner"] = refused }, "was not removed", true, false},
		{"removal fails", "alice", func(w *world) { w.nas.faults["remove"] = refused }, "was not removed", true, false},
		{"removal hangs", "alice", func(w *world) { w.nas.faults["remove"] = hangs }, "was not removed", true, false},
		{"principal is not removed", "alice", func(w *world) { w.kdc.faults["remove"] = refused }, "Kerberos principal", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.arrange(w)
			s := w.service(func(_ *ledger.Options, o *Options) { o.Budget = 4 * time.Second })
			got, err := s.DeleteUser(t.Context(), test.user)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(got.Warnings, "\n")
			if (text == "") != (test.warning == "") || !strings.Contains(text, test.warning) {
				t.Errorf("warnings %q, want %q", text, test.warning)
			}
			if _, there := w.nas.homes[farm.UserName(test.user)]; there != test.stays {
				t.Errorf("the home stays: %v, want %v", there, test.stays)
			}
			if test.silent && len(w.nas.calls) > 0 {
				t.Errorf("the NAS was asked: %v", w.nas.calls)
			}
			if _, _, err := s.User(t.Context(), test.user); err == nil {
				t.Error("the account is still there")
			}
		})
	}
}

// A NAS that is away does not keep the home for ever: the journal keeps it in mind.
func TestRecoveryRemovesTheHomeThatADeletionCouldNot(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"owner", "remove"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.service()
			w.nas.faults[op] = halfDone
			if _, err := s.DeleteUser(t.Context(), "alice"); err != nil {
				t.Fatal(err)
			}
			clear(w.nas.faults)
			report, err := s.Recover(t.Context())
			if err != nil || !slices.Equal(report.Finished, []farm.UserName{"alice"}) {
				t.Errorf("%+v %v", report, err)
			}
			if _, left := w.nas.homes["alice"]; left {
				t.Error("the home is left")
			}
			w.clean(t)
		})
	}
}

func TestDeleteUserRunsToItsEndWithoutItsCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.service().DeleteUser(ctx, "alice"); err != nil {
		t.Fatal(err)
	}
	if _, left := w.nas.homes["alice"]; left {
		t.Error("the home is left")
	}
	w.clean(t)
}

func TestDeletedNumbersAreNeverGivenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service()
	zed := create(t, s, newUser("zed", farm.GroupRef{Name: "fresh", GID: 20050}))
	if _, err := s.DeleteUser(t.Context(), "zed"); err != nil {
		t.Fatal(err)
	}
	next := create(t, s, newUser("next"))
	if next.Account.UID != zed.Account.UID+1 {
		t.Errorf("uid %d after %d", next.Account.UID, zed.Account.UID)
	}
	ref, err := s.CreateGroup(t.Context(), NewGroup{Name: "group"})
	if err != nil || ref.GID != 20051 {
		t.Errorf("%v %v", ref, err)
	}
	for _, gid := range []farm.ID{zed.Account.UID, 20050} {
		_, err := s.CreateGroup(t.Context(), NewGroup{Name: "thief", GID: &gid})
		wantError(t, err, farm.Conflict, "group already exists (gid:")
	}
	fresh := farm.ID(20050)
	if ref, err := s.CreateGroup(t.Context(), NewGroup{Name: "fresh", GID: &fresh}); err != nil || ref.GID != fresh {
		t.Errorf("the same name does not get its number again: %v %v", ref, err)
	}
}

func TestEveryNumberOfANameThatStandsTwiceIsRetired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(t, "passwd", w.read(t, "passwd")+"\ntwo:x:20200:20200::/home/two:/bin/bash\ntwo:x:20201:20201::/home/two:/bin/bash\n")
	s := w.service()
	if _, err := s.DeleteUser(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	if made := create(t, s, newUser("zed")); made.Account.UID != 20202 {
		t.Errorf("the next account got uid %d, want 20202", made.Account.UID)
	}
}

// A group name that stands twice has two numbers and two lists of members.
func TestAGroupThatStandsTwiceGoesWholeOrStays(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines string
		stays bool
	}{
		"both lines are left empty":          {"dup:x:20100:alice\ndup:x:20101:alice\n", false},
		"somebody else is in the other line": {"dup:x:20100:alice\ndup:x:20101:2023123456\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write(t, "group", w.read(t, "group")+"\n"+tc.lines)
			s := w.service()
			if _, err := s.DeleteUser(t.Context(), "alice"); err != nil {
				t.Fatal(err)
			}
			group, retired := w.read(t, "group"), w.read(t, ".config-server/retired")
			if strings.Contains(group, "dup:") != tc.stays {
				t.Errorf("group: %q", group)
			}
			for _, number := range []string{"gid:20100:dup", "gid:20101:dup"} {
				if strings.Contains(retired, number) == tc.stays {
					t.Errorf("%s is retired: %v", number, !tc.stays)
				}
			}
			if tc.stays && !strings.Contains(group, "dup:x:20101:2023123456\n") {
				t.Errorf("the other line was changed: %q", group)
			}
		})
	}
}

func TestDeleteGroupLooksAtEveryLineOfTheName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(t, "group", w.read(t, "group")+"\ndup:x:20100:\ndup:x:20001:\n") // 20001 is 2023123456's primary group
	_, err := w.service().DeleteGroup(t.Context(), "dup")
	wantError(t, err, farm.Invalid, "Cannot delete group dup: it is the primary group for users: 2023123456")
}

func TestDeleteUserThatCannotBeWrittenChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.Rename(filepath.Join(w.dir, "shadow"), filepath.Join(w.dir, "real")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(w.dir, "real"), filepath.Join(w.dir, "shadow")); err != nil {
		t.Fatal(err)
	}
	before := w.files(t)
	_, err := w.service().DeleteUser(t.Context(), "alice")
	wantError(t, err, farm.Internal, "failed to write shadow")
	w.unchanged(t, before)
	w.clean(t)
	if len(w.nas.calls) > 0 {
		t.Errorf("the NAS was asked: %v", w.nas.calls)
	}
}
