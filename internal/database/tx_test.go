package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/testkit"
)

// told collects what Retried is told.
type told struct {
	mu   sync.Mutex
	seen []string
}

func (r *told) option() database.Option {
	return database.Retried(func(_ context.Context, name, reason string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen = append(r.seen, name+" "+reason)
	})
}

func (r *told) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

// insert adds a row to krb5_cleanup_pending, which has a unique key and no other use here.
func insert(ctx context.Context, tx *sql.Tx, user string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO krb5_cleanup_pending (username, node_name) VALUES (?, 'farm5')", user)
	return err
}

func users(t *testing.T, db *database.DB) []string {
	t.Helper()
	var all []string
	err := db.Read(t.Context(), "list", func(ctx context.Context, q database.Queryer) error {
		all = nil
		rows, err := q.QueryContext(ctx, "SELECT username FROM krb5_cleanup_pending ORDER BY username")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var user string
			if err := rows.Scan(&user); err != nil {
				return err
			}
			all = append(all, user)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantUsers(t *testing.T, db *database.DB, want ...string) {
	t.Helper()
	if got := users(t, db); !slices.Equal(got, want) {
		t.Errorf("rows = %q, want %q", got, want)
	}
}

func TestInTxKeepsAllOrNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		db := place.Open(t)
		if err := db.InTx(t.Context(), "ok", func(ctx context.Context, tx *sql.Tx) error { return insert(ctx, tx, "kept") }); err != nil {
			t.Fatal(err)
		}
		own := errors.New("no")
		err := db.InTx(t.Context(), "fails", func(ctx context.Context, tx *sql.Tx) error {
			return errors.Join(insert(ctx, tx, "lost"), own)
		})
		if !errors.Is(err, own) {
			t.Errorf("error = %v, want the function's own", err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = db.InTx(t.Context(), "panics", func(ctx context.Context, tx *sql.Tx) error {
				_ = insert(ctx, tx, "lost too")
				panic("fault")
			})
		}()
		wantUsers(t, db, "kept")
	})
}

func TestInTxRepeatsOnDuplicateKey(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		var retried told
		db := place.Open(t, retried.option())
		if _, err := db.Exec(t.Context(), "other", "INSERT INTO krb5_cleanup_pending (username, node_name) VALUES ('a', 'farm5')"); err != nil {
			t.Fatal(err)
		}
		attempts := 0
		err := db.InTx(t.Context(), "add", func(ctx context.Context, tx *sql.Tx) error {
			attempts++
			return insert(ctx, tx, string(rune('a'+attempts-1)))
		})
		if err != nil {
			t.Fatal(err)
		}
		wantUsers(t, db, "a", "b")
		if got, want := retried.all(), []string{"add duplicate"}; !slices.Equal(got, want) {
			t.Errorf("retried = %q, want %q", got, want)
		}
	})
}

// Each attempt is told, with the context of whoever asked, and so is each repetition.
func TestAttemptsAreTold(t *testing.T) {
	t.Parallel()
	type key struct{}
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		var told []string
		db := place.Open(t,
			database.Retried(func(ctx context.Context, name, reason string) {
				told = append(told, fmt.Sprint(ctx.Value(key{}), ": again ", name, " ", reason))
			}),
			database.Called(func(ctx context.Context, name string, took time.Duration, err error) {
				told = append(told, fmt.Sprint(ctx.Value(key{}), ": ", name, ", took time ", took > 0, ", failed ", err != nil))
			}))
		ctx := context.WithValue(t.Context(), key{}, "r-1")
		attempts := 0
		err := db.InTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error {
			attempts++
			return errors.Join(insert(ctx, tx, "a"), insert(ctx, tx, string(rune('a'+attempts-1))))
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Read(ctx, "look", func(ctx context.Context, q database.Queryer) error {
			_, err := q.QueryContext(ctx, "SELECT nothing FROM nowhere")
			return err
		}); err == nil {
			t.Error("a wrong statement gave no error")
		}
		want := []string{
			"r-1: add, took time true, failed false", "r-1: again add duplicate", "r-1: add, took time true, failed false",
			"r-1: look, took time true, failed true",
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestPoolsAreNamed(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		pools := place.Open(t).Pools()
		want := []string{"locks", "main"}
		if place.Dialect == database.SQLite {
			want = []string{"read", "write"}
		}
		if got := slices.Sorted(maps.Keys(pools)); !slices.Equal(got, want) {
			t.Errorf("pools %q, want %q", got, want)
		}
		for name, pool := range pools {
			if pool.Stats().MaxOpenConnections == 0 {
				t.Errorf("pool %s is unbounded", name)
			}
		}
	})
}

func TestInTxGivesUp(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		db := place.Open(t)
		attempts := 0
		err := db.InTx(t.Context(), "add", func(ctx context.Context, tx *sql.Tx) error {
			attempts++
			return errors.Join(insert(ctx, tx, "a"), insert(ctx, tx, "a"))
		})
		if !database.IsDuplicate(err) {
			t.Errorf("error = %v, want the duplicate key", err)
		}
		if attempts < 2 || attempts > 20 {
			t.Errorf("%d attempts, want some", attempts)
		}
		wantUsers(t, db)
	})
}

func TestExecReturnsDuplicateKeyAtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		var retried told
		db := place.Open(t, retried.option())
		const add = "INSERT INTO krb5_cleanup_pending (username, node_name) VALUES ('a', 'farm5')"
		_, first := db.Exec(t.Context(), "add", add)
		_, second := db.Exec(t.Context(), "add", add)
		if first != nil || !database.IsDuplicate(second) {
			t.Errorf("errors = %v, %v; want none, then a duplicate key", first, second)
		}
		if got := retried.all(); len(got) != 0 {
			t.Errorf("retried = %q, want nothing", got)
		}
	})
}

func TestInTxStopsWithItsContext(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		db := place.Open(t)
		ctx, cancel := context.WithCancel(t.Context())
		err := db.InTx(ctx, "stopped", func(ctx context.Context, tx *sql.Tx) error {
			err := insert(ctx, tx, "a")
			cancel()
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want the context's", err)
		}
		wantUsers(t, db)
	})
}

func TestInTxRepeatsOnDeadlock(t *testing.T) {
	t.Parallel()
	var retried told
	db := databasetest.MariaDB(t).Open(t, retried.option())
	for _, user := range []string{"a", "b"} {
		if err := db.InTx(t.Context(), "add", func(ctx context.Context, tx *sql.Tx) error { return insert(ctx, tx, user) }); err != nil {
			t.Fatal(err)
		}
	}
	// Each takes its first row, waits until the other has its own, then wants the other's.
	var both sync.WaitGroup
	both.Add(2)
	cross := func(first, second string) error {
		arrive := sync.OnceFunc(both.Done)
		return db.InTx(t.Context(), "cross", func(ctx context.Context, tx *sql.Tx) error {
			const touch = "UPDATE krb5_cleanup_pending SET failed_at = '2026-01-01' WHERE username = ?"
			if _, err := tx.ExecContext(ctx, touch, first); err != nil {
				return err
			}
			arrive()
			both.Wait()
			_, err := tx.ExecContext(ctx, touch, second)
			return err
		})
	}
	errs := make(chan error, 2)
	go func() { errs <- cross("a", "b") }()
	go func() { errs <- cross("b", "a") }()
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := retried.all(); !slices.Contains(got, "cross deadlock") {
		t.Errorf("retried = %q, want a deadlock", got)
	}
}

func TestInTxRepeatsOnLockWait(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		holder := place.Open(t)
		if err := holder.InTx(t.Context(), "add", func(ctx context.Context, tx *sql.Tx) error { return insert(ctx, tx, "a") }); err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		holding := make(chan struct{})
		held := make(chan error, 1)
		const touch = "UPDATE krb5_cleanup_pending SET failed_at = '2026-01-01' WHERE username = 'a'"
		go func() {
			held <- holder.InTx(t.Context(), "hold", func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, touch)
				close(holding)
				<-release
				return err
			})
		}()
		<-holding
		var once sync.Once
		var reasons told
		waiter := place.Open(t, database.LockWait(time.Second), database.Retried(func(_ context.Context, name, reason string) {
			reasons.seen = append(reasons.seen, name+" "+reason)
			once.Do(func() { close(release) })
		}))
		err := waiter.InTx(t.Context(), "wait", func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, touch)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-held; err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(reasons.seen, "wait lock_wait") {
			t.Errorf("retried = %q, want a lock wait", reasons.seen)
		}
	})
}

func TestInTxRepeatsOnLostConnection(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	name := server.NewDatabase(t)
	var retried told
	db := databasetest.On(server, name).Open(t, retried.option())
	if err := db.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin := server.Open(t, name)
	attempts := 0
	err := db.InTx(t.Context(), "cut", func(ctx context.Context, tx *sql.Tx) error {
		attempts++
		if err := insert(ctx, tx, fmt.Sprintf("attempt%d", attempts)); err != nil {
			return err
		}
		if attempts > 1 {
			return nil
		}
		var id int64
		if err := tx.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
			return err
		}
		if _, err := admin.ExecContext(ctx, "KILL CONNECTION "+strconv.FormatInt(id, 10)); err != nil {
			return err
		}
		return insert(ctx, tx, "after")
	})
	if err != nil {
		t.Fatal(err)
	}
	wantUsers(t, db, "attempt2")
	if got, want := retried.all(), []string{"cut connection"}; !slices.Equal(got, want) {
		t.Errorf("retried = %q, want %q", got, want)
	}
}

func TestConnectionLostInCommit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cut     func(*databasetest.CommitCutter, int)
		opts    []database.TxOption
		unknown bool
		want    []string
	}{
		"kept by the server: told, not repeated":            {(*databasetest.CommitCutter).CutAfter, nil, true, []string{"attempt1"}},
		"never reached the server: told, not repeated":      {(*databasetest.CommitCutter).CutBefore, nil, true, nil},
		"kept by the server and repeatable: repeated":       {(*databasetest.CommitCutter).CutAfter, []database.TxOption{database.Repeatable()}, false, []string{"attempt1", "attempt2"}},
		"never reached the server and repeatable: repeated": {(*databasetest.CommitCutter).CutBefore, []database.TxOption{database.Repeatable()}, false, []string{"attempt2"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.MariaDB(t)
			cutter := databasetest.NewCommitCutter(t, net.JoinHostPort(server.Host, strconv.Itoa(server.Port)))
			db := cutter.Place(server, server.NewDatabase(t)).Open(t)
			if err := db.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			test.cut(cutter, 1)
			attempts := 0
			err := db.InTx(t.Context(), "commit", func(ctx context.Context, tx *sql.Tx) error {
				attempts++
				return insert(ctx, tx, fmt.Sprintf("attempt%d", attempts))
			}, test.opts...)
			if got := errors.Is(err, database.ErrCommitUnknown); got != test.unknown || !test.unknown && err != nil {
				t.Errorf("error = %v, want unknown outcome: %t", err, test.unknown)
			}
			// What the server keeps shows when it has read the cut connection to its end.
			testkit.WaitFor(t, 5*time.Second, "the rows", func(context.Context) error {
				if got := users(t, db); !slices.Equal(got, test.want) {
					return fmt.Errorf("rows = %q, want %q", got, test.want)
				}
				return nil
			})
		})
	}
}

func TestWritersOfSeveralProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		const writers, rounds = 8, 10
		replicas := []*database.DB{place.Open(t), place.Open(t)}
		var group sync.WaitGroup
		for w := range writers {
			db := replicas[w%len(replicas)]
			group.Go(func() {
				for r := range rounds {
					err := db.InTx(t.Context(), "count", func(ctx context.Context, tx *sql.Tx) error {
						// Without the lock two writers would read the same number.
						if err := db.LockRow(ctx, tx, "counter"); err != nil {
							return err
						}
						var n int
						if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM krb5_cleanup_pending").Scan(&n); err != nil {
							return err
						}
						return insert(ctx, tx, fmt.Sprintf("%04d", n))
					})
					if err != nil {
						t.Errorf("writer %d round %d: %v", w, r, err)
					}
				}
			})
		}
		group.Wait()
		if got := len(users(t, replicas[0])); got != writers*rounds {
			t.Errorf("%d rows, want %d", got, writers*rounds)
		}
	})
}
