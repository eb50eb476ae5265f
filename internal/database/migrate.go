package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	goosedb "github.com/pressly/goose/v3/database"

	"config-server/migrations"
)

const (
	versionTable = "config_server_migrations"
	migrateLock  = "migrate"
	// Another replica that migrates needs moments; this bounds the wait for one that hangs.
	migrateLockWait = 30 * time.Second
	lockPoll        = 20 * time.Millisecond
)

// Ready makes or adopts the tables, once. While that fails, as when the server is down, each call
// tries again; calls that wait for an attempt share its outcome. InTx, Exec and Read call it.
func (db *DB) Ready(ctx context.Context) error {
	if db.ready.Load() {
		return nil
	}
	asked := time.Now()
	select {
	case db.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("prepare %s: %w", db.object, context.Cause(ctx))
	}
	defer func() { <-db.turn }()
	if db.ready.Load() {
		return nil
	}
	if db.failedAt.After(asked) {
		return db.failure
	}
	err := db.Migrate(ctx)
	if err == nil {
		db.ready.Store(true)
		return nil
	}
	// Whoever asked before this moment waited for this very attempt. A caller that went away
	// proves nothing about the server, so its error is nobody else's.
	if ctx.Err() == nil {
		db.failedAt, db.failure = time.Now(), err
	}
	return err
}

// Migrate brings the tables up to the newest version, one process at a time. A table that was made
// by hand keeps its rows and columns; only keys are added. It is safe to repeat. The error names
// what stands in the way, such as two rows with the same node port or a missing column.
func (db *DB) Migrate(ctx context.Context) error {
	unlock, err := db.lockFile(ctx)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", db.object, err)
	}
	defer unlock()
	provider, err := db.provider()
	if err != nil {
		return fmt.Errorf("prepare %s: %w", db.object, err)
	}
	// Closing the provider would close the pool.
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("prepare %s: %w", db.object, err)
	}
	return nil
}

func (db *DB) provider() (*goose.Provider, error) {
	files, err := fs.Sub(migrations.Files, string(db.dialect))
	if err != nil {
		return nil, err
	}
	if db.dialect == SQLite {
		return goose.NewProvider(goosedb.DialectSQLite3, db.write, files,
			goose.WithDisableGlobalRegistry(true), goose.WithTableName(versionTable))
	}
	return goose.NewProvider(goosedb.DialectMySQL, db.write, files,
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(versionTable),
		goose.WithSessionLocker(sessionLock{name: db.LockName(migrateLock)}),
		goose.WithGoMigrations(goose.NewGoMigration(2, &goose.GoFunc{RunTx: adopt}, nil)))
}

// lockFile keeps two processes from migrating one SQLite file at once. On MySQL a named lock does.
func (db *DB) lockFile(ctx context.Context) (unlock func(), err error) {
	if db.dialect != SQLite {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, migrateLockWait)
	defer cancel()
	lock := flock.New(db.file+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("lock %s.lock: %w", db.file, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// sessionLock is a named lock on the connection that migrates.
type sessionLock struct{ name string }

// SessionLock waits until no other replica migrates.
func (l sessionLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	deadline := time.Now().Add(migrateLockWait)
	for time.Now().Before(deadline) {
		var got sql.NullInt64
		// Short waits, so that no answer is later than the connection's read limit.
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 1)", l.name).Scan(&got); err != nil {
			return fmt.Errorf("lock migrations: %w", err)
		}
		if got.Int64 == 1 {
			return nil
		}
	}
	return errors.New("lock migrations: another instance holds the lock")
}

// SessionUnlock lets the next replica migrate.
func (l sessionLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var released sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", l.name).Scan(&released); err != nil {
		return fmt.Errorf("unlock migrations: %w", err)
	}
	return nil
}
