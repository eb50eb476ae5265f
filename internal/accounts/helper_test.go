package accounts

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/ledger"
	"config-server/internal/locks"
	"config-server/internal/saga"
)

// nas stands in for the NAS where a test needs faults at exact places.
type nas struct {
	mu    sync.Mutex
	homes map[farm.UserName]homeDir
	calls []string
	// faults are used up by call: "make", "remove", "owner", "empty".
	faults map[string]fault
	point  func(string)
	hung   func() // called when a call begins to hang
}

type homeDir struct {
	owner farm.ID
	empty bool
}

// fault says how a call goes wrong.
type fault string

const (
	refused  fault = "refused"   // nothing happened
	halfDone fault = "half done" // make: mkdir without chown; remove: nothing is gone
	doneLost fault = "done, answer lost"
	hangs    fault = "hangs"
)

func newNAS() *nas {
	return &nas{homes: map[farm.UserName]homeDir{}, faults: map[string]fault{}, point: func(string) {}, hung: func() {}}
}

func (n *nas) call(ctx context.Context, op string, user farm.UserName, half, whole func()) error {
	n.point("before " + op)
	n.mu.Lock()
	n.calls = append(n.calls, op+" "+string(user))
	fault := n.faults[op]
	n.mu.Unlock()
	if fault == hangs {
		n.hung()
		<-ctx.Done()
		return fmt.Errorf("%s the home of %s: %w", op, user, ctx.Err())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	n.mu.Lock()
	switch fault {
	case halfDone:
		half()
	case refused:
	default:
		half()
		whole()
	}
	n.mu.Unlock()
	n.point("after " + op)
	if fault != "" {
		return fmt.Errorf("%s the home of %s: %w", op, user, faultError(fault))
	}
	return nil
}

// faultError is a fault as an error; one that refused is the NAS's own answer.
type faultError fault

func (e faultError) Error() string { return string(e) }
func (e faultError) Refused() bool { return fault(e) == refused }

func (n *nas) Owner(ctx context.Context, user farm.UserName) (owner farm.ID, found bool, err error) {
	err = n.call(ctx, "owner", user, func() {}, func() {
		var dir homeDir
		dir, found = n.homes[user]
		owner = dir.owner
	})
	return owner, found, err
}

func (n *nas) Empty(ctx context.Context, user farm.UserName) (empty bool, err error) {
	err = n.call(ctx, "empty", user, func() {}, func() { empty = n.homes[user].empty })
	return empty, err
}

func (n *nas) Make(ctx context.Context, user farm.UserName, uid, _ farm.ID) error {
	mkdir := func() {
		if _, there := n.homes[user]; !there {
			n.homes[user] = homeDir{owner: 0, empty: true}
		}
	}
	chown := func() { n.homes[user] = homeDir{owner: uid, empty: n.homes[user].empty} }
	n.point("before mkdir")
	if n.faults["make"] == "" {
		n.mu.Lock()
		mkdir()
		n.mu.Unlock()
		n.point("before chown")
	}
	return n.call(ctx, "make", user, mkdir, chown)
}

func (n *nas) Remove(ctx context.Context, user farm.UserName) error {
	return n.call(ctx, "remove", user, func() {}, func() { delete(n.homes, user) })
}

func (n *nas) asked(op string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, call := range n.calls {
		if strings.HasPrefix(call, op+" ") {
			count++
		}
	}
	return count
}

// kdc stands in for Kerberos.
type kdc struct {
	mu         sync.Mutex
	principals map[farm.UserName]bool
	faults     map[string]fault // "look", "create", "withdraw", "remove"
	point      func(string)
	hung       func()
}

func newKDC() *kdc {
	return &kdc{principals: map[farm.UserName]bool{}, faults: map[string]fault{}, point: func(string) {}, hung: func() {}}
}

func (k *kdc) call(ctx context.Context, op string, user farm.UserName, do func()) error {
	k.point("before kdc " + op)
	k.mu.Lock()
	fault := k.faults[op]
	if fault == "" || fault == doneLost || fault == halfDone {
		do()
	}
	k.mu.Unlock()
	if fault == hangs {
		k.hung()
		<-ctx.Done()
		return fmt.Errorf("%s principal %s: %w", op, user, ctx.Err())
	}
	k.point("after kdc " + op)
	if fault != "" {
		return fmt.Errorf("%s principal %s: %s", op, user, fault)
	}
	return nil
}

func (k *kdc) Existing(ctx context.Context, user farm.UserName) (principal, keytab bool, err error) {
	err = k.call(ctx, "look", user, func() { principal = k.principals[user] })
	return principal, principal, err
}

func (k *kdc) Withdraw(ctx context.Context, user farm.UserName, principal, _ bool) error {
	return k.call(ctx, "withdraw", user, func() {
		if principal {
			delete(k.principals, user)
		}
	})
}

func (k *kdc) CreatePrincipal(ctx context.Context, user farm.UserName) error {
	return k.call(ctx, "create", user, func() { k.principals[user] = true })
}

func (k *kdc) RemoveUser(ctx context.Context, user farm.UserName, _ farm.ID) error {
	return k.call(ctx, "remove", user, func() { delete(k.principals, user) })
}

// world is a share with its NAS, its KDC and its locks; services on it come and go.
type world struct {
	dir, locks string
	nas        *nas
	kdc        *kdc
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), locks: t.TempDir(), nas: newNAS(), kdc: newKDC()}
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\n# a note\nalice:x:20000:20000:Alice:/home/alice:/bin/bash\n" +
			"2023123456:x:20001:20001::/home/2023123456:/bin/bash\nodd+name:x:20002:20002::/home/odd+name:/bin/bash",
		"group": "root:x:0:\nsudo:x:27:alice\nalice:x:20000:\n2023123456:x:20001:\nodd+name:x:20002:\n\nteam:x:20005:alice\nold:x:1500:\n" +
			"both:x:20006:2023123456,alice",
		"shadow":          "root:*:1:0:99999:7:::\nalice:$6$a$b:1:0:99999:7:::\n2023123456:$6$c$d:1:0:99999:7:::\n",
		"sudoers.d/alice": "alice ALL=(ALL) PASSWD: /usr/bin/apt\n",
	} {
		w.write(t, name, text)
	}
	w.nas.homes["alice"] = homeDir{owner: 20000}
	w.nas.homes["2023123456"] = homeDir{owner: 20001}
	w.nas.homes["odd+name"] = homeDir{owner: 20002}
	w.kdc.principals["alice"] = true
	return w
}

// emptyWorld is a fresh share.
func emptyWorld(t testing.TB) *world {
	t.Helper()
	return &world{dir: t.TempDir(), locks: t.TempDir(), nas: newNAS(), kdc: newKDC()}
}

func (w *world) write(t testing.TB, name, text string) {
	t.Helper()
	file := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (w *world) read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type setting func(*ledger.Options, *Options)

func withSudo(l *ledger.Options, _ *Options) { l.SudoCommands = []string{"/usr/bin/apt"} }

func (w *world) service(settings ...setting) *Service {
	quiet := slog.New(slog.DiscardHandler)
	locker := locks.NewLocal(w.locks)
	lopts := ledger.Options{
		Dir: w.dir, Lock: locker, Instance: "test", Log: quiet,
		ReservedNames: []string{"jovyan"},
		Now:           func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
	opts := Options{Homes: w.nas, Kerberos: w.kdc, Locks: locker, Log: quiet, RecoverWait: 50 * time.Millisecond}
	for _, set := range settings {
		set(&lopts, &opts)
	}
	opts.Ledger = ledger.New(lopts)
	return New(opts)
}

// files is everything on the share that is not private to the service, with modes.
func (w *world) files(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(w.dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == ".config-server" {
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		found[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// clean fails if an operation left anything that only operations in progress may have.
func (w *world) clean(t testing.TB) {
	t.Helper()
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if strings.Contains(path, "/journal/") || strings.HasSuffix(path, ".cs-tmp") {
			t.Errorf("left behind: %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) unchanged(t testing.TB, before map[string]string) {
	t.Helper()
	if diff := cmp.Diff(before, w.files(t)); diff != "" {
		t.Errorf("the account files changed: %s", diff)
	}
}

func newUser(name string, groups ...farm.GroupRef) NewUser {
	return NewUser{Name: name, Password: []byte("secret-암호"), Gecos: "Some, One", Supplementary: groups}
}

func create(t testing.TB, s *Service, user NewUser) Created {
	t.Helper()
	created, err := s.CreateUser(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// wantError checks kind and text of an error; text may be a part.
func wantError(t testing.TB, err error, kind farm.Kind, text string) {
	t.Helper()
	told, ok := farm.AsError(err)
	if !ok {
		t.Errorf("got %v, want %s %q", err, kind, text)
		return
	}
	if told.Kind != kind || !strings.Contains(told.Detail, text) {
		t.Errorf("got %s %q, want %s %q", told.Kind, told.Detail, kind, text)
	}
}

// crashAt runs f on a service that dies at the nth point of ledger, saga, NAS and KDC together: no
// deferred undo runs, as if the process were killed there.
func crashAt(w *world, n int, f func(s *Service), settings ...setting) (name string, crashed bool) {
	done := make(chan struct{})
	passed := 0
	point := func(at string) {
		if passed++; passed == n {
			name, crashed = at, true
			runtime.Goexit()
		}
	}
	w.nas.point, w.kdc.point = point, point
	defer func() {
		none := func(string) {}
		w.nas.point, w.kdc.point = none, none
	}()
	observe := func(l *ledger.Options, o *Options) {
		l.Point = point
		o.Observer = func(_ context.Context, event saga.Event) {
			point(fmt.Sprintf("%s %s", event.Phase, event.Step))
		}
	}
	go func() {
		defer close(done)
		f(w.service(append(settings, observe)...))
	}()
	<-done
	return name, crashed
}
