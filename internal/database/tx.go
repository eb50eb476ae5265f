package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Bounds of repetition. Waiting for a row has used up seconds already, so it is repeated less often.
const (
	maxAttempts         = 10
	maxLockWaitAttempts = 3
	firstPause          = 5 * time.Millisecond
	maxPause            = 250 * time.Millisecond
)

// Queryer is what a read runs its queries on.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// TxOption says how a transaction may be repeated.
type TxOption func(*txOptions)

type txOptions struct{ repeatable bool }

// Repeatable marks a transaction that comes to the same end when it runs a second time after it was
// already kept. It is repeated when the connection is lost in COMMIT, instead of failing with
// ErrCommitUnknown.
func Repeatable() TxOption { return func(o *txOptions) { o.repeatable = true } }

// InTx runs fn in one transaction: READ COMMITTED on MySQL, BEGIN IMMEDIATE on SQLite. If fn or the
// commit fails with a deadlock, a lock wait that timed out, a duplicate key or a connection that was
// lost before the commit, everything is rolled back and run again, a bounded number of times with
// growing, random pauses. So fn may run several times: what it returns to its caller it sets anew
// each time, and it does nothing but SQL.
//
// name is a short constant text for metrics; errors do not repeat it, the caller wraps them with
// operation and object. Besides fn's own errors it returns ErrCommitUnknown, ErrNoAnswer and the
// context's error, each wrapped.
func (db *DB) InTx(ctx context.Context, name string, fn func(ctx context.Context, tx *sql.Tx) error, opts ...TxOption) error {
	var o txOptions
	for _, option := range opts {
		option(&o)
	}
	return db.repeat(ctx, name, o.repeatable, func(ctx context.Context) error {
		conn, err := db.write.Conn(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		// After a commit this does nothing; before it, its error adds nothing to fn's.
		defer func() { _ = tx.Rollback() }()
		if err := fn(ctx, tx); err != nil {
			return err
		}
		if err := commit(tx); err != nil {
			// The server may think that the transaction is still open: the next one on this connection
			// would keep it.
			_ = conn.Raw(func(any) error { return driver.ErrBadConn })
			return err
		}
		return nil
	})
}

// Count runs fn as InTx runs a repeatable one, and returns how many rows fn says that it changed. A repetition after a commit without
// an answer finds them changed already, so it is the most of all runs. Its errors are InTx's.
func (db *DB) Count(ctx context.Context, name string, fn func(ctx context.Context, tx *sql.Tx) (int, error)) (int, error) {
	most := 0
	err := db.InTx(ctx, name, func(ctx context.Context, tx *sql.Tx) error {
		n, err := fn(ctx, tx)
		if err == nil {
			most = max(most, n)
		}
		return err
	}, Repeatable())
	if err != nil {
		return 0, err
	}
	return most, nil
}

// Affected is how many rows a statement has changed, of what ExecContext returns.
func Affected(result sql.Result, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Exec runs one statement on its own. The statement must be safe to run twice: it is repeated when
// the connection is lost and nobody knows whether it was kept. A duplicate key is returned, not
// repeated. The result is the last run's.
func (db *DB) Exec(ctx context.Context, name, query string, args ...any) (sql.Result, error) {
	var result sql.Result
	err := db.repeat(ctx, name, true, func(ctx context.Context) (err error) {
		result, err = db.write.ExecContext(ctx, query, args...)
		if IsDuplicate(err) {
			return finalError{err}
		}
		return err
	})
	return result, err
}

// Read runs fn outside of a transaction; each query sees what is committed when it begins. fn may
// run several times, as with InTx, and has to collect its results anew each time.
func (db *DB) Read(ctx context.Context, name string, fn func(ctx context.Context, q Queryer) error) error {
	return db.repeat(ctx, name, true, func(ctx context.Context) error { return fn(ctx, db.read) })
}

// LockRow makes a transaction wait until no other one, of any replica, holds the row of that name in
// config_server_mutexes, and holds it until its end. On SQLite every InTx is alone anyway.
func (db *DB) LockRow(ctx context.Context, tx *sql.Tx, name string) error {
	if db.dialect == SQLite {
		return nil
	}
	const query = "SELECT name FROM config_server_mutexes WHERE name = ? FOR UPDATE"
	var got string
	err := tx.QueryRowContext(ctx, query, name).Scan(&got)
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO config_server_mutexes (name) VALUES (?)", name); err != nil {
		return err
	}
	return nil
}

// finalError stops the repetition whatever the reason.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// commitError is a commit whose outcome nobody told us.
type commitError struct{ cause error }

func (e commitError) Error() string   { return ErrCommitUnknown.Error() + ": " + e.cause.Error() }
func (e commitError) Unwrap() []error { return []error{ErrCommitUnknown, e.cause} }

func commit(tx *sql.Tx) error {
	err := tx.Commit()
	// ErrBadConn says that the driver did not send a byte of COMMIT.
	if err == nil || errors.Is(err, driver.ErrBadConn) || reasonOf(err) != ReasonConnection {
		return err
	}
	return commitError{cause: err}
}

func (db *DB) repeat(ctx context.Context, name string, repeatable bool, attempt func(ctx context.Context) error) error {
	pause := firstPause
	for n := 1; ; n++ {
		begin := time.Now()
		err := db.attempt(ctx, attempt)
		db.opts.called.Tell(ctx, name, begin, unanswered(err))
		if err == nil {
			return nil
		}
		reason := db.again(ctx, err, n, repeatable)
		if reason == "" {
			return unwrapFinal(err)
		}
		db.opts.retried(ctx, name, reason)
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return fmt.Errorf("%w (stopped repeating: %w)", err, context.Cause(ctx))
		}
		pause = min(2*pause, maxPause)
	}
}

// attempt runs once, within the query's limit.
func (db *DB) attempt(ctx context.Context, run func(ctx context.Context) error) error {
	if err := db.Ready(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, db.opts.queryTimeout)
	defer cancel()
	err := run(limited)
	if err != nil && ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		// database/sql rolls back behind our back then and says only that the transaction is over.
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return fmt.Errorf("%w (%s, %s): %w", ErrNoAnswer, db.object, db.opts.queryTimeout, err)
	}
	if IsMissingTable(err) {
		// Somebody put an empty or older database in place: the next use makes the tables.
		db.ready.Store(false)
	}
	return err
}

// again tells for which reason the n-th attempt may be followed by another; empty = by none.
func (db *DB) again(ctx context.Context, err error, n int, repeatable bool) string {
	var final finalError
	if ctx.Err() != nil || n >= maxAttempts || errors.As(err, &final) || errors.Is(err, ErrNoAnswer) {
		return ""
	}
	if errors.Is(err, ErrCommitUnknown) {
		if repeatable {
			return ReasonCommit
		}
		return ""
	}
	reason := reasonOf(err)
	if reason == ReasonLockWait && n >= maxLockWaitAttempts {
		return ""
	}
	return reason
}

func unwrapFinal(err error) error {
	var final finalError
	if errors.As(err, &final) {
		return final.error
	}
	return err
}
