package locks

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"time"

	"config-server/internal/database"
)

const (
	// silence is how long the server keeps a connection that says nothing, in seconds.
	silence = 60
	// beat is how often a sign of life is sent.
	beat = 15 * time.Second
	// statementLimit bounds a statement that waits for nobody.
	statementLimit = 5 * time.Second
	// waitSlice is how long one GET_LOCK waits, in seconds: below the limit of the connection's reads.
	waitSlice = 2
)

// session is a connection that holds named locks. One statement runs at a time. A statement that
// fails ends the session: what it holds is not known any more.
type session struct {
	conn  *sql.Conn
	turn  chan struct{} // holds one token while a statement runs
	timer *time.Timer

	mu     sync.Mutex
	reason error // non-nil once the session has ended
}

// openSession makes a session. connect bounds the wait for a connection alone.
func openSession(ctx, connect context.Context, db *database.DB) (*session, error) {
	conn, err := db.LockConn(connect)
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, turn: make(chan struct{}, 1)}
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("SET SESSION wait_timeout = %d", silence)); err != nil {
		s.discard(err)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(beat, s.pulse)
	return s, nil
}

// lost returns why the session has ended; nil = it has not.
func (s *session) lost() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// end marks the session as ended, once, and reports whether this call did.
func (s *session) end(reason error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason != nil {
		return false
	}
	s.reason = reason
	if s.timer != nil {
		s.timer.Stop()
	}
	return true
}

// discard ends the session and its connection: the server frees all locks on it.
func (s *session) discard(reason error) {
	if !s.end(reason) {
		return
	}
	// Raw with ErrBadConn keeps the pool from using the connection again.
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = s.conn.Close()
}

// close ends a session that holds nothing; its connection goes back to the pool.
func (s *session) close() {
	if s.end(errors.New("closed")) {
		_ = s.conn.Close()
	}
}

// getNow takes a lock if it is free.
func (s *session) getNow(ctx context.Context, name string) (bool, error) {
	n, err := s.run(ctx, "SELECT GET_LOCK(?, 0)", name)
	if err != nil {
		return false, err
	}
	if !n.Valid {
		return false, errNotTaken
	}
	return n.Int64 == 1, nil
}

// getWaiting waits for a lock until ctx ends. Nothing else may be held by this session, because
// the end of ctx breaks its connection.
func (s *session) getWaiting(ctx context.Context, name string) error {
	for {
		n, err := scanInt(ctx, s.conn, fmt.Sprintf("SELECT GET_LOCK(?, %d)", waitSlice), name)
		if err != nil {
			return err
		}
		if !n.Valid {
			return errNotTaken
		}
		if n.Int64 == 1 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// check asks whether this session's connection holds the lock.
func (s *session) check(name string) error {
	n, err := s.run(context.Background(), "SELECT IS_USED_LOCK(?) = CONNECTION_ID()", name)
	if err != nil {
		return err
	}
	if n.Int64 != 1 {
		return errNotHeld
	}
	return nil
}

// release gives a lock back, or else the whole connection. A session that has ended holds nothing.
func (s *session) release(name string) {
	if _, err := s.run(context.Background(), "SELECT RELEASE_LOCK(?)", name); err != nil {
		s.discard(err)
	}
}

// pulse sends a sign of life and sets the clock for the next.
func (s *session) pulse() {
	if _, err := s.run(context.Background(), "SELECT 1"); err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reason == nil {
		s.timer.Reset(beat)
	}
}

// run runs one short statement. ctx bounds only the wait for other statements: were it to end the
// statement itself, the driver would drop the connection and with it the locks of other requests.
func (s *session) run(ctx context.Context, query string, args ...any) (sql.NullInt64, error) {
	waiting, cancel := context.WithTimeout(ctx, statementLimit)
	defer cancel()
	select {
	case s.turn <- struct{}{}:
	case <-waiting.Done():
		return sql.NullInt64{}, fmt.Errorf("wait for the lock connection: %w", context.Cause(waiting))
	}
	defer func() { <-s.turn }()
	if err := s.lost(); err != nil {
		return sql.NullInt64{}, err
	}
	detached, stop := context.WithTimeout(context.WithoutCancel(ctx), statementLimit)
	defer stop()
	n, err := scanInt(detached, s.conn, query, args...)
	if err != nil {
		s.discard(err)
		return sql.NullInt64{}, err
	}
	return n, nil
}
