package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
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
// tries again; calls that wait for an attempt share its outcome. InTx, Exec and Read call it. After
// LeaveTables it does nothing.
func (db *DB) Ready(ctx context.Context) error {
	if db.ready.Load() || db.asFound.Load() {
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
// by hand keeps its rows and columns; only keys are added. It is safe to repeat, also after a crash
// in its midst. The error names what stands in the way, such as two rows with the same node port or
// a missing column.
func (db *DB) Migrate(ctx context.Context) error {
	if err := db.migrate(ctx); err != nil {
		return fmt.Errorf("prepare %s: %w", db.object, err)
	}
	return nil
}

func (db *DB) migrate(ctx context.Context) error {
	lock := db.lockServer
	if db.dialect == SQLite {
		lock = db.lockFile
	}
	unlock, err := lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	provider, err := db.provider()
	if err != nil {
		return err
	}
	// The provider is not closed, because that would close the pool.
	_, err = provider.Up(ctx)
	return err
}

func (db *DB) provider() (*goose.Provider, error) {
	files, err := fs.Sub(migrations.Files, string(db.dialect))
	if err != nil {
		return nil, err
	}
	dialect := goosedb.DialectSQLite3
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithTableName(versionTable)}
	if db.dialect == MySQL {
		dialect = goosedb.DialectMySQL
		options = append(options, goose.WithGoMigrations(goose.NewGoMigration(2, &goose.GoFunc{RunTx: adopt}, nil)))
	}
	return goose.NewProvider(dialect, db.write, files, options...)
}

// lockFile keeps two processes from migrating one SQLite file at once.
func (db *DB) lockFile(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, migrateLockWait)
	defer cancel()
	lock := flock.New(db.file+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return nil, fmt.Errorf("lock %s.lock: %w", db.file, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// lockServer keeps two replicas from migrating one MySQL database at once, by a named lock on a
// connection of its own, and makes the table of versions. goose would make that table before it
// takes any lock, and in two statements of which a crash may let only the first happen: from then
// on it would refuse to do anything.
func (db *DB) lockServer(ctx context.Context) (unlock func(), err error) {
	conn, err := db.LockConn(ctx)
	if err != nil {
		return nil, err
	}
	unlock = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), db.opts.queryTimeout)
		defer cancel()
		var released sql.NullInt64
		if err := conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", db.LockName(migrateLock)).Scan(&released); err != nil {
			// A connection that is not used again gives the lock up too.
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		}
		_ = conn.Close()
	}
	if err := lockMigrations(ctx, conn, db.LockName(migrateLock)); err != nil {
		unlock()
		return nil, fmt.Errorf("lock migrations: %w", err)
	}
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS config_server_migrations (
			id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
			version_id BIGINT          NOT NULL,
			is_applied BOOLEAN         NOT NULL,
			tstamp     DATETIME        NULL DEFAULT CURRENT_TIMESTAMP
		) ENGINE = InnoDB`,
		`INSERT INTO config_server_migrations (version_id, is_applied)
			SELECT 0, TRUE FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM config_server_migrations WHERE version_id = 0)`,
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			unlock()
			return nil, fmt.Errorf("make table %s: %w", versionTable, err)
		}
	}
	return unlock, nil
}

func lockMigrations(ctx context.Context, conn *sql.Conn, name string) error {
	deadline := time.Now().Add(migrateLockWait)
	for time.Now().Before(deadline) {
		var got sql.NullInt64
		// Short waits, so that no answer is later than the connection's read limit.
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 1)", name).Scan(&got); err != nil {
			return err
		}
		if got.Int64 == 1 {
			return nil
		}
	}
	return fmt.Errorf("another instance has held it for %s", migrateLockWait)
}
