package locks

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"config-server/internal/database"
	"config-server/internal/farm"
)

// connectPatience is how long a waiter waits for a connection to wait on before it asks again
// whether the lock is free.
const connectPatience = 200 * time.Millisecond

// MySQL keeps locks for all replicas on one MySQL server, by GET_LOCK.
//
// A named lock lives as long as the connection that took it. All locks that were free when they
// were asked for are taken on one shared connection; only a wait for another replica needs a
// connection of its own. When a connection breaks its locks are lost, and Err of each says so. The
// server forgets a connection that is silent for a minute, so that the locks of a machine that
// vanished come free; a sign of life is sent well before that.
type MySQL struct {
	db     *database.DB
	queues *queues
	turn   chan struct{} // holds one token: whoever put it there may replace shared
	shared *session
}

// NewMySQL keeps locks on db's server. db must be a MySQL database: on another one every lock fails.
func NewMySQL(db *database.DB) *MySQL {
	return &MySQL{db: db, queues: newQueues(), turn: make(chan struct{}, 1)}
}

// Close gives up the shared connection, with all locks that are held on it.
func (m *MySQL) Close() {
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if m.shared != nil {
		m.shared.discard(errors.New("closed"))
		m.shared = nil
	}
}

// Lock implements Locker.
func (m *MySQL) Lock(ctx context.Context, name string) (farm.Lock, error) {
	if !m.queues.lock(ctx, name) {
		return nil, waitError(ctx, name)
	}
	lock, err := m.lock(ctx, name)
	if err != nil {
		m.queues.unlock(name)
		return nil, m.explain(ctx, name, err)
	}
	return lock, nil
}

// TryLock implements Locker.
func (m *MySQL) TryLock(ctx context.Context, name string) (farm.Lock, bool, error) {
	if !m.queues.try(name) {
		return nil, false, nil
	}
	s, err := m.tryShared(ctx, name)
	if err != nil || s == nil {
		m.queues.unlock(name)
		return nil, false, m.explain(ctx, name, err)
	}
	return m.held(name, s, false), true, nil
}

func (m *MySQL) lock(ctx context.Context, name string) (farm.Lock, error) {
	for {
		s, err := m.tryShared(ctx, name)
		if err != nil {
			return nil, err
		}
		if s != nil {
			return m.held(name, s, false), nil
		}
		s, err = m.waitAlone(ctx, name)
		if err == nil {
			return m.held(name, s, true), nil
		}
		// Holders that wait for one another's connections would never end: so while there is none
		// to wait on, the shared one is asked again.
		if !errors.Is(err, errNoConnection) {
			return nil, err
		}
	}
}

func (m *MySQL) explain(ctx context.Context, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return waitError(ctx, name)
	}
	return fmt.Errorf("lock %s: %w", name, err)
}

// tryShared takes a free lock on the shared connection. It returns nil if the lock is not free.
func (m *MySQL) tryShared(ctx context.Context, name string) (*session, error) {
	s, fresh, err := m.sharedSession(ctx)
	if err != nil {
		return nil, err
	}
	ok, err := s.getNow(ctx, m.db.LockName(name))
	if err != nil && !fresh && ctx.Err() == nil {
		// The connection broke while nobody looked, say because the server was restarted.
		if s, _, err = m.sharedSession(ctx); err != nil {
			return nil, err
		}
		ok, err = s.getNow(ctx, m.db.LockName(name))
	}
	if err != nil || !ok {
		return nil, err
	}
	return s, nil
}

func (m *MySQL) sharedSession(ctx context.Context) (s *session, fresh bool, err error) {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	defer func() { <-m.turn }()
	if m.shared != nil && m.shared.lost() == nil {
		return m.shared, false, nil
	}
	s, err = openSession(ctx, ctx, m.db)
	if err != nil {
		return nil, false, err
	}
	m.shared = s
	return s, true, nil
}

// waitAlone waits for a lock that another replica holds, on a connection of its own.
func (m *MySQL) waitAlone(ctx context.Context, name string) (*session, error) {
	connect, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	s, err := openSession(ctx, connect, m.db)
	if err != nil && connect.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: %w", errNoConnection, err)
	}
	if err != nil {
		return nil, err
	}
	if err := s.getWaiting(ctx, m.db.LockName(name)); err != nil {
		s.discard(err)
		return nil, err
	}
	return s, nil
}

func (m *MySQL) held(name string, s *session, alone bool) *serverLock {
	lock := &serverLock{name: name, serverName: m.db.LockName(name), session: s}
	lock.release = sync.OnceFunc(func() {
		lock.released.Store(true)
		s.release(lock.serverName)
		if alone {
			s.close()
		}
		m.queues.unlock(name)
	})
	return lock
}

// serverLock is a lock on the server.
type serverLock struct {
	name       string
	serverName string
	session    *session
	released   atomic.Bool
	release    func()
}

// Unlock gives the lock back. If the server cannot be told, the connection is given up, which frees
// the lock too, with all others on that connection.
func (l *serverLock) Unlock() { l.release() }

// Err asks the server whether the lock is still held by its connection.
func (l *serverLock) Err() error {
	if l.released.Load() {
		return fmt.Errorf("lock %s: %w", l.name, errReleased)
	}
	if err := l.session.check(l.serverName); err != nil {
		return fmt.Errorf("lock %s: %w: %w", l.name, ErrLost, err)
	}
	return nil
}

var (
	errNotHeld      = errors.New("the server says that this connection does not hold it")
	errNotTaken     = errors.New("the server could not take it")
	errNoConnection = errors.New("no connection to wait on")
)

// scanInt runs a query that gives one number or NULL.
func scanInt(ctx context.Context, conn *sql.Conn, query string, args ...any) (sql.NullInt64, error) {
	var n sql.NullInt64
	err := conn.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}
