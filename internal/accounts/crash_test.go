package accounts

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
)

// The service is killed at every point of ledger, saga, NAS and KDC, undo included. After the next
// start everything is wholly there or wholly not, and a retry of the same call succeeds.
func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	const fresh = 20050
	putZed := newUser("zed", farm.GroupRef{Name: "team", GID: 20005}, farm.GroupRef{Name: "fresh", GID: fresh})
	for _, test := range []struct {
		name    string
		arrange func(w *world)
		call    func(ctx context.Context, s *Service) error
		points  int // at least
		// undone: the call fails, so afterwards there must be nothing of it.
		undone bool
	}{
		{"put user", nil, func(ctx context.Context, s *Service) error { _, err := s.CreateUser(ctx, putZed); return err }, 30, false},
		{"put user, root's empty home", func(w *world) { w.nas.homes["zed"] = homeDir{empty: true} },
			func(ctx context.Context, s *Service) error { _, err := s.CreateUser(ctx, putZed); return err }, 30, false},
		{"put user, KDC fails", func(w *world) { w.kdc.faults["create"] = doneLost },
			func(ctx context.Context, s *Service) error { _, err := s.CreateUser(ctx, putZed); return err }, 30, true},
		{"put user, home fails", func(w *world) { w.nas.faults["make"] = halfDone },
			func(ctx context.Context, s *Service) error { _, err := s.CreateUser(ctx, putZed); return err }, 20, true},
		{"delete user", nil, func(ctx context.Context, s *Service) error { _, err := s.DeleteUser(ctx, "alice"); return err }, 25, false},
		{"put group", nil, func(ctx context.Context, s *Service) error {
			_, err := s.CreateGroup(ctx, NewGroup{Name: "dev", Members: []string{"alice"}})
			return err
		}, 2, false},
		{"delete group", nil, func(ctx context.Context, s *Service) error { _, err := s.DeleteGroup(ctx, "team"); return err }, 6, false},
		{"join groups", nil, func(ctx context.Context, s *Service) error {
			_, err := s.JoinGroups(ctx, "2023123456", []string{"team", "old"})
			return err
		}, 2, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			arrange := func() *world {
				w := newWorld(t)
				if test.arrange != nil {
					test.arrange(w)
				}
				return w
			}
			before := arrange()
			whole := arrange()
			if err := test.call(t.Context(), whole.service(withSudo)); (err != nil) != test.undone {
				t.Fatalf("without a crash: %v", err)
			}
			for n := 1; ; n++ {
				w := arrange()
				point, crashed := crashAt(w, n, func(s *Service) { _ = test.call(context.Background(), s) }, withSudo)
				if !crashed {
					if n <= test.points {
						t.Errorf("only %d points", n-1)
					}
					return
				}
				clear(w.nas.faults)
				clear(w.kdc.faults)
				s := w.service(withSudo)
				if _, err := s.Users(t.Context()); err != nil {
					t.Errorf("killed %s: readers fail: %v", point, err)
				}
				if report, err := s.Recover(t.Context()); err != nil || len(report.Busy)+len(report.Failed) > 0 {
					t.Errorf("killed %s: %+v %v", point, report, err)
				}
				w.clean(t)
				isBefore, isWhole := w.same(t, before), w.same(t, whole)
				if !isBefore && !isWhole || test.undone && !isBefore {
					t.Errorf("killed %s: neither there nor not: %s homes %v principals %v", point, cmp.Diff(before.files(t), w.files(t)), w.nas.homes, w.kdc.principals)
				}
				err := test.call(t.Context(), s)
				if told, ok := farm.AsError(err); ok && isWhole && !test.undone && (told.Kind == farm.Conflict || told.Kind == farm.NotFound) {
					err = nil // it was done already
				}
				if err != nil {
					t.Errorf("killed %s: the retry fails: %v", point, err)
				}
				w.clean(t)
			}
		})
	}
}

// same compares files (hashes left out), homes and principals. A root-owned empty home counts as
// none.
func (w *world) same(t testing.TB, other *world) bool {
	t.Helper()
	homes := func(w *world) map[farm.UserName]homeDir {
		h := maps.Clone(w.nas.homes)
		maps.DeleteFunc(h, func(_ farm.UserName, dir homeDir) bool { return dir == homeDir{empty: true} })
		return h
	}
	return cmp.Equal(withoutHashes(w.files(t)), withoutHashes(other.files(t))) &&
		maps.Equal(homes(w), homes(other)) && maps.Equal(w.kdc.principals, other.kdc.principals)
}

func withoutHashes(files map[string]string) map[string]string {
	files = maps.Clone(files)
	var lines []string
	for line := range strings.Lines(files["shadow"]) {
		fields := strings.Split(line, ":")
		if len(fields) > 2 && strings.HasPrefix(fields[1], "$6$") {
			fields[1] = "$6$"
		}
		lines = append(lines, strings.Join(fields, ":"))
	}
	files["shadow"] = strings.Join(lines, "")
	return files
}

// A call that meets the leftover of its own user settles it without waiting for Recover.
func TestCallsSettleTheLeftoversOfTheirUser(t *testing.T) {
	t.Parallel()
	calls := map[string]struct {
		crash func(ctx context.Context, s *Service) error
		retry func(ctx context.Context, s *Service) error
	}{
		"put after put": {
			func(ctx context.Context, s *Service) error { _, err := s.CreateUser(ctx, newUser("zed")); return err },
			func(ctx context.Context, s *Service) error { _, err := s.CreateUser(ctx, newUser("zed")); return err },
		},
		"delete after delete": {
			func(ctx context.Context, s *Service) error { _, err := s.DeleteUser(ctx, "alice"); return err },
			func(ctx context.Context, s *Service) error { _, err := s.DeleteUser(ctx, "alice"); return err },
		},
		"put after delete": {
			func(ctx context.Context, s *Service) error { _, err := s.DeleteUser(ctx, "alice"); return err },
			func(ctx context.Context, s *Service) error { _, err := s.CreateUser(ctx, newUser("alice")); return err },
		},
	}
	for name, test := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				w := newWorld(t)
				point, crashed := crashAt(w, n, func(s *Service) { _ = test.crash(context.Background(), s) })
				if !crashed {
					return
				}
				s := w.service()
				err := test.retry(t.Context(), s)
				if told, ok := farm.AsError(err); ok && (told.Kind == farm.Conflict || told.Kind == farm.NotFound) {
					// The first call had come to its end, or never to its decision. What it staged
					// goes with the next call that writes.
					_, err = s.CreateGroup(t.Context(), NewGroup{Name: "next"})
				}
				if err != nil {
					t.Errorf("killed %s: %v", point, err)
				}
				w.clean(t)
			}
		})
	}
}

func TestRecoverKeepsWhatItCannotSettle(t *testing.T) {
	t.Parallel()
	var w *world
	for n := 1; ; n++ {
		w = newWorld(t)
		point, crashed := crashAt(w, n, func(s *Service) { _, _ = s.DeleteUser(context.Background(), "alice") })
		if !crashed {
			t.Fatal("no such point")
		}
		if point == "before owner" {
			break
		}
	}
	w.nas.faults["owner"] = refused
	report, err := w.service().Recover(t.Context())
	if err == nil || !cmp.Equal(report.Failed, []farm.UserName{"alice"}) {
		t.Errorf("%+v %v", report, err)
	}
	clear(w.nas.faults)
	report, err = w.service().Recover(t.Context())
	if err != nil || !cmp.Equal(report.Finished, []farm.UserName{"alice"}) {
		t.Errorf("%+v %v", report, err)
	}
	if _, left := w.nas.homes["alice"]; left {
		t.Error("the home is left")
	}
	w.clean(t)
}
