package database_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/testkit"
)

// idleOut has the server end a pool's one connection because nothing was asked of it for a second.
func idleOut(t *testing.T, pool, admin *sql.DB) {
	t.Helper()
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var id int64
	if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "SET SESSION wait_timeout = 1"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil { // gives it back to the pool
		t.Fatal(err)
	}
	if open := pool.Stats().OpenConnections; open != 1 {
		t.Fatalf("%d connections are open: the next use may be another one's", open)
	}
	testkit.WaitFor(t, time.Minute, "the end of the idle connection", func(ctx context.Context) error {
		var n int
		err := admin.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?", id).Scan(&n)
		if err == nil && n > 0 {
			err = errors.New("it is there")
		}
		return err
	})
}

// A connection that the server ended while it lay idle is nobody's failure, whatever is asked next.
func TestAConnectionThatExpired(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(ctx context.Context, db *database.DB) error{
		"transaction": func(ctx context.Context, db *database.DB) error {
			return db.InTx(ctx, "add", func(ctx context.Context, tx *sql.Tx) error { return insert(ctx, tx, "kim") })
		},
		"statement": func(ctx context.Context, db *database.DB) error {
			_, err := db.Exec(ctx, "add", "INSERT INTO krb5_cleanup_pending (username, node_name) VALUES ('kim', 'farm5')")
			return err
		},
		"read": func(ctx context.Context, db *database.DB) error {
			return db.Read(ctx, "count", func(ctx context.Context, q database.Queryer) error {
				var n int
				return q.QueryRowContext(ctx, "SELECT COUNT(*) FROM krb5_cleanup_pending").Scan(&n)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.MariaDB(t)
			name := server.NewDatabase(t)
			db := databasetest.On(server, name).Open(t)
			if err := db.Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			idleOut(t, db.Pools()["main"], server.Open(t, name))
			if err := use(t.Context(), db); err != nil {
				t.Error(err)
			}
		})
	}
}

// Of the connections of named locks those that nobody uses are kept without a limit of ours.
func TestALockConnectionThatExpired(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	name := server.NewDatabase(t)
	db := databasetest.On(server, name).Open(t)
	idleOut(t, db.Pools()["locks"], server.Open(t, name))
	conn, err := db.LockConn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var got sql.NullInt64
	if err := conn.QueryRowContext(t.Context(), "SELECT GET_LOCK(?, 0)", db.LockName("ledger")).Scan(&got); err != nil || got.Int64 != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}
