package locks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/locks"
	"config-server/internal/testkit"
)

// each runs a test on both kinds of locks. open gives another instance that shares them.
func each(t *testing.T, test func(t *testing.T, open func() locks.Locker)) {
	t.Helper()
	t.Run("Local", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "locks")
		test(t, func() locks.Locker { return locks.NewLocal(dir) })
	})
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		place := databasetest.MariaDB(t)
		test(t, func() locks.Locker { return opened(t, place) })
	})
}

func opened(t *testing.T, place databasetest.Place) *locks.MySQL {
	t.Helper()
	m := locks.NewMySQL(place.Open(t))
	t.Cleanup(m.Close)
	return m
}

func lock(t *testing.T, l locks.Locker, name string) farm.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got, err := l.Lock(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// free reports whether nobody has the lock, and gives it back.
func free(t *testing.T, l locks.Locker, name string) bool {
	t.Helper()
	got, ok, err := l.TryLock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if ok {
		got.Unlock()
	}
	return ok
}

func wantFree(t *testing.T, l locks.Locker, name string, want bool) {
	t.Helper()
	if got := free(t, l, name); got != want {
		t.Errorf("%s is free: %t, want %t", name, got, want)
	}
}

func TestALockKeepsOthersOut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func() locks.Locker) {
		one, two := open(), open()
		held := lock(t, one, "ledger")
		wantFree(t, one, "ledger", false)
		wantFree(t, two, "ledger", false)
		wantFree(t, two, "user/kim", true)
		if err := held.Err(); err != nil {
			t.Errorf("Err of a held lock = %v", err)
		}
		held.Unlock()
		held.Unlock()
		if held.Err() == nil {
			t.Error("Err of a lock that was given back = nil")
		}
		wantFree(t, two, "ledger", true)
		wantFree(t, one, "ledger", true)
	})
}

func TestUnlockingTwiceDoesNotFreeTheNextHolder(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func() locks.Locker) {
		one, two := open(), open()
		first := lock(t, one, "ledger")
		first.Unlock()
		second := lock(t, one, "ledger")
		first.Unlock()
		wantFree(t, two, "ledger", false)
		second.Unlock()
	})
}

func TestTheWaitIsBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func() locks.Locker) {
		one, two := open(), open()
		held := lock(t, one, "user/kim")
		defer held.Unlock()
		for name, l := range map[string]locks.Locker{"the same instance": one, "another instance": two} {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err := l.Lock(ctx, "user/kim")
			cancel()
			if !errors.Is(err, farm.ErrLockTimeout) || !strings.Contains(err.Error(), "user/kim") {
				t.Errorf("%s: error = %v, want a timeout that names the lock", name, err)
			}
			gone := errors.New("the caller is gone")
			cancelled, cancelCause := context.WithCancelCause(t.Context())
			cancelCause(gone)
			if _, err := l.Lock(cancelled, "user/kim"); !errors.Is(err, gone) || errors.Is(err, farm.ErrLockTimeout) {
				t.Errorf("%s: error = %v, want the context's cause", name, err)
			}
		}
	})
}

func TestWaitersGetTheLockWhenItIsGivenBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func() locks.Locker) {
		instances := []locks.Locker{open(), open()}
		const callers, rounds = 8, 10
		var inside, total atomic.Int32
		var group sync.WaitGroup
		for i := range callers {
			group.Go(func() {
				for range rounds {
					held := lock(t, instances[i%2], "ledger")
					if inside.Add(1) != 1 {
						t.Error("two holders at once")
					}
					if err := held.Err(); err != nil {
						t.Errorf("Err = %v", err)
					}
					total.Add(1)
					inside.Add(-1)
					held.Unlock()
				}
			})
		}
		group.Wait()
		if got := total.Load(); got != callers*rounds {
			t.Errorf("%d turns, want %d", got, callers*rounds)
		}
	})
}

func TestAnyNameCanBeLocked(t *testing.T) {
	t.Parallel()
	names := []string{"", ".", "..", "/", "../../etc/passwd", "user/kim", "user_kim", "user%2Fkim", "USER/KIM", "a b", "홍길동", "a\x00b", "a\nb",
		strings.Repeat("x", 300), strings.Repeat("x", 299) + "y", strings.Repeat("긴", 100)}
	each(t, func(t *testing.T, open func() locks.Locker) {
		one, two := open(), open()
		var held []farm.Lock
		for _, name := range names {
			got, ok, err := one.TryLock(t.Context(), name)
			if err != nil || !ok {
				t.Fatalf("lock %.20q = %t, %v: another name stands in its way", name, ok, err)
			}
			held = append(held, got)
		}
		for i, name := range names {
			wantFree(t, two, name, false)
			held[i].Unlock()
			wantFree(t, two, name, true)
		}
	})
}

func TestManyLocksAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, open func() locks.Locker) {
		one, two := open(), open()
		const n = 300
		var held []farm.Lock
		for i := range n {
			held = append(held, lock(t, one, fmt.Sprintf("user/%d", i)))
		}
		// All of them are wanted elsewhere, which needs more connections than there are.
		var group sync.WaitGroup
		for i := range n {
			group.Go(func() { lock(t, two, fmt.Sprintf("user/%d", i)).Unlock() })
		}
		for _, l := range held {
			l.Unlock()
		}
		group.Wait()
	})
}

func TestKeepTakesALostLockAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &loseable{}
		var lost atomic.Int32
		release, err := locks.Keep(t.Context(), l, "instance/one", time.Second, func(error) { lost.Add(1) })
		if err != nil {
			t.Fatal(err)
		}
		l.lose(true)
		<-time.After(3500 * time.Millisecond)
		synctest.Wait()
		if got := lost.Load(); got != 1 {
			t.Errorf("told %d times of one loss", got)
		}
		if l.isHeld() {
			t.Error("the lock is held although nobody can have it")
		}
		l.lose(false)
		<-time.After(time.Second)
		synctest.Wait()
		if !l.isHeld() {
			t.Error("the lock was not taken again")
		}
		release()
		release()
		if l.isHeld() {
			t.Error("the lock was not given back")
		}
	})
}

func TestKeepFailsWhenTheLockIsSomebodyElses(t *testing.T) {
	t.Parallel()
	l := locks.NewLocal(t.TempDir())
	held := lock(t, l, "instance/one")
	defer held.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := locks.Keep(ctx, l, "instance/one", time.Second, func(error) {}); !errors.Is(err, farm.ErrLockTimeout) {
		t.Errorf("error = %v, want a timeout", err)
	}
}

// loseable is one lock that can be lost and kept from being taken.
type loseable struct {
	mu     sync.Mutex
	broken bool
	held   bool
}

func (l *loseable) lose(broken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = broken
	l.held = l.held && !broken
}

func (l *loseable) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *loseable) Lock(ctx context.Context, name string) (farm.Lock, error) {
	got, _, err := l.TryLock(ctx, name)
	return got, err
}

func (l *loseable) TryLock(context.Context, string) (farm.Lock, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return nil, false, errors.New("out of order")
	}
	l.held = true
	return l, true, nil
}

func (l *loseable) Unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
}

func (l *loseable) Err() error {
	if !l.isHeld() {
		return locks.ErrLost
	}
	return nil
}

func TestMySQLLockIsLostWithItsConnection(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	name := server.NewDatabase(t)
	place := databasetest.On(server, name)
	one, two := opened(t, place), opened(t, place)
	first, second := lock(t, one, "user/kim"), lock(t, one, "ledger")
	if n := server.KillConnections(t, name); n == 0 {
		t.Fatal("no connection was there to be killed")
	}
	for _, held := range []farm.Lock{first, second} {
		if err := held.Err(); !errors.Is(err, locks.ErrLost) {
			t.Errorf("Err = %v, want that the lock was lost", err)
		}
	}
	// Another instance may have it now, and the loser cannot take it away.
	again := lock(t, two, "ledger")
	second.Unlock()
	first.Unlock()
	if err := again.Err(); err != nil {
		t.Errorf("Err of the next holder = %v", err)
	}
	wantFree(t, one, "ledger", false)
	again.Unlock()
	wantFree(t, one, "ledger", true)
}

func TestMySQLLockThatWasWaitedForIsLostWithItsConnection(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	name := server.NewDatabase(t)
	place := databasetest.On(server, name)
	one, two := opened(t, place), opened(t, place)
	first := lock(t, one, "ledger")
	got := make(chan farm.Lock)
	go func() { got <- lock(t, two, "ledger") }()
	look := server.Open(t, name)
	testkit.WaitFor(t, 10*time.Second, "the other instance to wait", func(ctx context.Context) error {
		var n int
		err := look.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND info LIKE 'SELECT GET_LOCK(%, 2)'", name).Scan(&n)
		if err == nil && n == 0 {
			err = errors.New("nobody waits")
		}
		return err
	})
	first.Unlock()
	second := <-got
	if err := second.Err(); err != nil {
		t.Errorf("Err of a held lock = %v", err)
	}
	server.KillConnections(t, name)
	if err := second.Err(); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err = %v, want that the lock was lost", err)
	}
	second.Unlock()
	wantFree(t, one, "ledger", true)
}

func TestMySQLLocksOfTwoDatabasesDoNotMeet(t *testing.T) {
	t.Parallel()
	one, two := opened(t, databasetest.MariaDB(t)), opened(t, databasetest.MariaDB(t))
	held := lock(t, one, "ledger")
	wantFree(t, two, "ledger", true)
	held.Unlock()
}

func TestMySQLServerIsDown(t *testing.T) {
	t.Parallel()
	server := testkit.OwnMariaDB(t)
	m := opened(t, databasetest.On(server, server.NewDatabase(t)))
	lock(t, m, "ledger").Unlock()
	held := lock(t, m, "user/kim")
	server.Stop(t)
	if err := held.Err(); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err = %v, want that the lock was lost", err)
	}
	if _, err := m.Lock(t.Context(), "ledger"); err == nil || errors.Is(err, farm.ErrLockTimeout) || !strings.Contains(err.Error(), "ledger") {
		t.Errorf("error = %v, want one that names the lock and is no timeout", err)
	}
	held.Unlock()
	server.Start(t)
	lock(t, m, "user/kim").Unlock()
}

func TestMySQLLocksOnSQLiteFail(t *testing.T) {
	t.Parallel()
	m := opened(t, databasetest.SQLite(t))
	if _, err := m.Lock(t.Context(), "ledger"); err == nil {
		t.Error("a lock was given that nobody keeps")
	}
}

func TestLocalLockThatSomebodyRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := locks.NewLocal(dir), locks.NewLocal(dir)
	first := lock(t, one, "ledger")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := first.Err(); !errors.Is(err, locks.ErrLost) {
		t.Errorf("Err = %v, want that the lock was lost", err)
	}
	second := lock(t, two, "ledger")
	first.Unlock()
	if err := second.Err(); err != nil {
		t.Errorf("Err of the next holder = %v: the loser removed its file", err)
	}
	second.Unlock()
}

func TestLocalLeavesNoFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "locks")
	instances := []*locks.Local{locks.NewLocal(dir), locks.NewLocal(dir)}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() { lock(t, instances[i%2], fmt.Sprintf("user/%d", i%3)).Unlock() })
	}
	group.Wait()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestLocalFolderThatCannotBeMade(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := locks.NewLocal(filepath.Join(file, "locks")).Lock(t.Context(), "ledger")
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error = %v, want one that names %s", err, file)
	}
}
