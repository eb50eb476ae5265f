package accounts

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/ledger"
)

// A creation whose commit is decided is not undone, even if its answer is an error.
func TestADecidedCreationIsNotUndone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shadow := filepath.Join(w.dir, "shadow")
	s := w.service(func(l *ledger.Options, _ *Options) {
		l.Point = func(at string) {
			if at != "renamed group" {
				return
			}
			if err := os.Rename(shadow, shadow+".kept"); err != nil {
				t.Error(err)
			}
			w.write(t, "shadow/in-the-way", "")
		}
	})
	_, err := s.CreateUser(t.Context(), newUser("zed"))
	wantError(t, err, farm.Internal, "the change is decided")
	if w.nas.asked("remove") > 0 || !w.kdc.principals["zed"] {
		t.Error("home or principal of a decided account was removed")
	}
	if err := os.RemoveAll(shadow); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(shadow+".kept", shadow); err != nil {
		t.Fatal(err)
	}
	if report, err := w.service().Recover(t.Context()); err != nil || len(report.Undone) > 0 {
		t.Errorf("%+v %v", report, err)
	}
	account, _, err := s.User(t.Context(), "zed")
	if err != nil || w.nas.homes["zed"].owner != account.UID {
		t.Errorf("the account is not whole: %v %v", account, err)
	}
	w.clean(t)
}

// lossyLocks gives out user locks that are lost, now or from some point on.
type lossyLocks struct {
	Locks
	lost *error
}

type lossyLock struct {
	farm.Lock
	lost *error
}

func (l lossyLocks) Lock(ctx context.Context, name string) (farm.Lock, error) {
	lock, err := l.Locks.Lock(ctx, name)
	return lossyLock{Lock: lock, lost: l.lost}, err
}

func (l lossyLock) Err() error { return *l.lost }

func TestALostUserLockFailsBeforeItWrites(t *testing.T) {
	t.Parallel()
	gone := errors.New("connection lost")
	for name, call := range map[string]func(ctx context.Context, s *Service) error{
		"put user":    func(ctx context.Context, s *Service) error { _, err := s.CreateUser(ctx, newUser("zed")); return err },
		"delete user": func(ctx context.Context, s *Service) error { _, err := s.DeleteUser(ctx, "alice"); return err },
		"join groups": func(ctx context.Context, s *Service) error {
			_, err := s.JoinGroups(ctx, "2023123456", []string{"team"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			before := w.files(t)
			err := call(t.Context(), w.service(func(_ *ledger.Options, o *Options) { o.Locks = lossyLocks{Locks: o.Locks, lost: &gone} }))
			wantError(t, err, farm.Internal, "lock on the user was lost")
			w.unchanged(t, before)
			w.clean(t)
			if w.nas.asked("make")+w.nas.asked("remove") > 0 {
				t.Errorf("calls: %v", w.nas.calls)
			}
		})
	}
	t.Run("put user, lost while the home is made", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		before := w.files(t)
		var lost error
		w.nas.point = func(at string) {
			if at == "after make" {
				lost = gone
			}
		}
		_, err := w.service(func(_ *ledger.Options, o *Options) { o.Locks = lossyLocks{Locks: o.Locks, lost: &lost} }).CreateUser(t.Context(), newUser("zed"))
		wantError(t, err, farm.Internal, "lock on the user was lost")
		w.unchanged(t, before)
		w.clean(t)
	})
}

// freeLocks gives every user's lock at once, as a server does that has forgotten the holder.
type freeLocks struct{ lost *error }

type freeLock struct{ lost *error }

func (l freeLocks) Lock(context.Context, string) (farm.Lock, error) { return freeLock(l), nil }

func (l freeLock) Unlock()    {}
func (l freeLock) Err() error { return *l.lost }

func TestUndoAfterALostLockLeavesALaterAccountAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var lost error
	var later Created
	other := w.service()
	w.kdc.point = func(at string) {
		if at != "after kdc create" || lost != nil {
			return
		}
		lost = errors.New("connection lost")
		later = create(t, other, newUser("zed"))
	}
	first := w.service(func(_ *ledger.Options, o *Options) { o.Locks = freeLocks{lost: &lost} })
	_, err := first.CreateUser(t.Context(), newUser("zed"))
	wantError(t, err, farm.Internal, "lock on the user was lost")
	if home, found := w.nas.homes["zed"]; !found || home.owner != later.Account.UID {
		t.Errorf("the later account's home is %+v (found: %v)", home, found)
	}
	if !w.kdc.principals["zed"] {
		t.Error("the later account's principal is gone")
	}
	w.clean(t)
}

func TestNoSecretLeavesTheShadowFile(t *testing.T) {
	t.Parallel()
	const marker = "MARKER-password-7"
	for name, arrange := range map[string]func(t *testing.T, w *world){
		"success":   func(*testing.T, *world) {},
		"NAS fails": func(_ *testing.T, w *world) { w.nas.faults["make"], w.nas.faults["remove"] = doneLost, refused },
		"KDC fails": func(_ *testing.T, w *world) { w.kdc.faults["create"] = refused },
		"shadow fails": func(t *testing.T, w *world) {
			if err := os.Rename(filepath.Join(w.dir, "shadow"), filepath.Join(w.dir, "real")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("real", filepath.Join(w.dir, "shadow")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			arrange(t, w)
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			user := newUser("zed")
			user.Password = []byte(marker)
			seen := ""
			s := w.service(func(l *ledger.Options, o *Options) {
				l.Log, o.Log = logger, logger
				l.Point = func(string) {
					names, _ := filepath.Glob(filepath.Join(w.dir, ".config-server", "journal", "*"))
					for _, name := range names {
						text, _ := os.ReadFile(name)
						seen += string(text)
					}
				}
			})
			_, err := s.CreateUser(t.Context(), user)
			text := log.String() + seen
			if err != nil {
				text += err.Error()
			}
			for file, content := range w.files(t) {
				if file != "shadow" && file != "real" {
					text += content
				}
			}
			if strings.Contains(text, marker) || strings.Contains(text, "$6$") {
				t.Error("a password or hash was found outside shadow")
			}
			if seen == "" {
				t.Error("the journal was never looked at")
			}
		})
	}
}

func TestTheFilesOfAFailedFirstUserStayAbsent(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	w.kdc.faults["create"] = refused
	if _, err := w.service().CreateUser(t.Context(), newUser("zed")); err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(map[string]string{}, w.files(t)); diff != "" {
		t.Error(diff)
	}
	w.clean(t)
}

// One user's calls cross one at a time, over their whole length.
func TestCallsOnOneUserDoNotOverlap(t *testing.T) {
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
	created, deleted := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.CreateUser(context.Background(), newUser("zed"))
		created <- err
	}()
	<-inMake
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.service().JoinGroups(ctx, "zed", []string{"team"}); err == nil {
		t.Error("a call on the user came in between")
	}
	go func() {
		_, err := w.service().DeleteUser(context.Background(), "zed")
		deleted <- err
	}()
	select {
	case err := <-deleted:
		t.Errorf("DELETE did not wait: %v", err)
	default:
	}
	close(goOn)
	if err := <-created; err != nil {
		t.Error(err)
	}
	if err := <-deleted; err != nil {
		t.Errorf("DELETE after PUT: %v", err)
	}
	if _, left := w.nas.homes["zed"]; left {
		t.Error("the home is left")
	}
	w.clean(t)
}
