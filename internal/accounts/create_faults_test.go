package accounts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/ledger"
)

// Every step fails in every way; afterwards there is nothing, or the journal knows what there is.
func TestCreateUserFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		arrange  func(w *world)
		step     farm.Step
		code     farm.Code
		text     string
		leftHome bool // the home could not be undone
	}{
		{"NAS down at the look", func(w *world) { w.nas.faults["owner"] = refused }, farm.StepCreateHomeDirectory, farm.NASSSHFailed, "owner the home of zed", false},
		{"NAS hangs at the look", func(w *world) { w.nas.faults["owner"] = hangs }, farm.StepCreateHomeDirectory, farm.NASSSHFailed, "context canceled", false},
		{"look into root's home fails", func(w *world) {
			w.nas.homes["zed"] = homeDir{empty: true}
			w.nas.faults["empty"] = refused
		}, farm.StepCreateHomeDirectory, farm.NASSSHFailed, "empty the home of zed", false},
		{"home refused", func(w *world) { w.nas.faults["make"] = refused }, farm.StepCreateHomeDirectory, farm.NASSSHFailed, "refused", false},
		{"home half made", func(w *world) { w.nas.faults["make"] = halfDone }, farm.StepCreateHomeDirectory, farm.NASSSHFailed, "half done", false},
		{"home made, answer lost", func(w *world) { w.nas.faults["make"] = doneLost }, farm.StepCreateHomeDirectory, farm.NASSSHFailed, "answer lost", false},
		{"home hangs", func(w *world) { w.nas.faults["make"] = hangs }, farm.StepCreateHomeDirectory, farm.NASSSHFailed, "context canceled", false},
		{"home made, answer lost, undo fails", func(w *world) {
			w.nas.faults["make"], w.nas.faults["remove"] = doneLost, refused
		}, farm.StepCreateHomeDirectory, farm.NASSSHFailed, "answer lost", true},
		{"home made, answer lost, undo hangs", func(w *world) {
			w.nas.faults["make"], w.nas.faults["remove"] = doneLost, hangs
		}, farm.StepCreateHomeDirectory, farm.NASSSHFailed, "answer lost", true},
		{"KDC down", func(w *world) { w.kdc.faults["create"] = refused }, farm.StepCreateKrb5Principal, farm.KDCFailed, "refused", false},
		{"principal half made", func(w *world) { w.kdc.faults["create"] = halfDone }, farm.StepCreateKrb5Principal, farm.KDCFailed, "half done", false},
		{"KDC hangs", func(w *world) { w.kdc.faults["create"] = hangs }, farm.StepCreateKrb5Principal, farm.KDCFailed, "context canceled", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			test.arrange(w)
			before := w.files(t)
			homesBefore := len(w.nas.homes)
			// Whoever calls a part that hangs gives up at once; an undo that hangs costs half its limit.
			ctx, giveUp := context.WithCancel(t.Context())
			w.nas.hung, w.kdc.hung = giveUp, giveUp
			s := w.service(func(_ *ledger.Options, o *Options) { o.UndoLimit = 4 * time.Second })
			_, err := s.CreateUser(ctx, newUser("zed", farm.GroupRef{Name: "fresh", GID: 20050}))
			wantError(t, err, farm.Internal, test.text)
			if told, _ := farm.AsError(err); told != nil && (told.Step != test.step || told.Code != test.code) {
				t.Errorf("%s %s, want %s %s", told.Step, told.Code, test.step, test.code)
			}
			w.unchanged(t, before)
			if w.kdc.principals["zed"] {
				t.Error("the principal is left")
			}
			clear(w.nas.faults)
			clear(w.kdc.faults)
			if !test.leftHome {
				w.clean(t)
				if len(w.nas.homes) != homesBefore {
					t.Errorf("homes: %v", w.nas.homes)
				}
				if got := create(t, s, newUser("zed")); got.Account.UID != 20003 {
					t.Errorf("the next call got uid %d", got.Account.UID)
				}
				return
			}
			if !strings.Contains(w.read(t, ".config-server/retired"), "uid:20003:zed\n") {
				t.Error("the number of a home that is left is not retired")
			}
			if got := create(t, s, newUser("bob")); got.Account.UID != 20004 {
				t.Errorf("bob got %d", got.Account.UID)
			}
			report, err := s.Recover(t.Context())
			if diff := cmp.Diff(RecoverReport{Undone: []farm.UserName{"zed"}}, report); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
			if _, left := w.nas.homes["zed"]; left {
				t.Error("the home is left")
			}
			w.clean(t)
			create(t, s, newUser("zed"))
		})
	}
}

func TestCreateUserUndoesWhenAFileCannotBeWritten(t *testing.T) {
	t.Parallel()
	for file, text := range map[string]string{
		"group": "failed to write group", "shadow": "failed to write shadow", "passwd": "failed to write passwd", "sudoers.d": "failed to create sudoers file",
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			target := filepath.Join(w.dir, file)
			if err := os.Rename(target, target+".real"); err != nil {
				t.Fatal(err)
			}
			if file == "sudoers.d" {
				w.write(t, file, "no directory")
			} else if err := os.Symlink(target+".real", target); err != nil {
				t.Fatal(err)
			}
			before := w.files(t)
			_, err := w.service(withSudo).CreateUser(t.Context(), newUser("zed"))
			wantError(t, err, farm.Internal, text)
			w.unchanged(t, before)
			if _, left := w.nas.homes["zed"]; left || w.kdc.principals["zed"] {
				t.Error("home or principal is left")
			}
			w.clean(t)
		})
	}
}

func TestCreateUserIsUndoneWhenTheCallerGoesAway(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"before mkdir", "before chown", "after make", "before kdc create", "after kdc create"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			before := w.files(t)
			ctx, cancel := context.WithCancel(t.Context())
			gone := func(point string) {
				if point == at {
					cancel()
				}
			}
			w.nas.point, w.kdc.point = gone, gone
			_, err := w.service().CreateUser(ctx, newUser("zed"))
			if err == nil {
				t.Fatal("created for nobody")
			}
			w.unchanged(t, before)
			if _, left := w.nas.homes["zed"]; left || w.kdc.principals["zed"] {
				t.Error("home or principal is left")
			}
			w.clean(t)
		})
	}
}

func TestTheSameNewSharedGroupForManyUsersAtOnce(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	s := w.service()
	const users = 12
	errs := make(chan error, users)
	for i := range users {
		go func() {
			_, err := s.CreateUser(context.Background(), newUser(fmt.Sprintf("u%d", i), farm.GroupRef{Name: "ailab", GID: 20005}))
			errs <- err
		}()
	}
	for range users {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(w.read(t, "group"), "ailab:"); n != 1 {
		t.Errorf("%d lines of ailab", n)
	}
	w.clean(t)
}

func TestNamesAndNumbersInTheMakingAreTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inMake, goOn := make(chan struct{}), make(chan struct{})
	w.nas.point = func(at string) {
		if at == "before mkdir" {
			close(inMake)
			<-goOn
		}
	}
	s := w.service()
	done := make(chan error, 1)
	go func() {
		user := newUser("zed", farm.GroupRef{Name: "fresh", GID: 20050})
		user.PrimaryGroup = "crew"
		_, err := s.CreateUser(context.Background(), user)
		done <- err
	}()
	<-inMake
	number := farm.ID(20003)
	for _, test := range []struct {
		group NewGroup
		text  string
	}{
		{NewGroup{Name: "zed"}, "group already exists (name: zed)"},
		{NewGroup{Name: "crew"}, "group already exists (name: crew)"},
		{NewGroup{Name: "fresh"}, "group already exists (name: fresh)"},
		{NewGroup{Name: "other", GID: &number}, "group already exists (gid: 20003)"},
	} {
		_, err := s.CreateGroup(t.Context(), test.group)
		wantError(t, err, farm.Conflict, test.text)
	}
	for _, user := range []NewUser{
		newUser("crew"), newUser("fresh"),
		newUser("bob", farm.GroupRef{Name: "zed", GID: 20060}), newUser("bob", farm.GroupRef{Name: "crew", GID: 20003}),
		newUser("bob", farm.GroupRef{Name: "fresh", GID: 20051}), newUser("bob", farm.GroupRef{Name: "fresher", GID: 20050}),
	} {
		_, err := s.CreateUser(t.Context(), user)
		wantError(t, err, farm.Invalid, "")
	}
	if ref, err := s.CreateGroup(t.Context(), NewGroup{Name: "next"}); err != nil || ref.GID != 20007 {
		t.Errorf("%v %v", ref, err)
	}
	if _, _, err := s.User(t.Context(), "zed"); err == nil {
		t.Error("half an account is shown")
	}
	if report, err := s.Recover(t.Context()); err != nil || len(report.Busy) != 1 {
		t.Errorf("a running operation was recovered: %+v %v", report, err)
	}
	if report, err := w.service().Recover(t.Context()); err != nil || len(report.Busy) != 1 {
		t.Errorf("another instance's running operation was recovered: %+v %v", report, err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.clean(t)
}
