// Package locks keeps named locks: within a process, and beyond it by files on one machine (Local)
// or by MySQL's named locks between replicas (MySQL).
//
// Each name first has a fair queue within the process, so that what is outside sees one waiter a
// name at most. The context bounds the wait: when its deadline ends it the error wraps
// farm.ErrLockTimeout and names the lock.
package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"config-server/internal/farm"
)

// ErrLost is what Err wraps once a lock was lost while it was held.
var ErrLost = errors.New("the lock was lost")

// errReleased is what Err returns after Unlock.
var errReleased = errors.New("the lock was given back")

// Locker is what both kinds of locks are.
type Locker interface {
	// Lock waits for the lock. The context's end is farm.ErrLockTimeout (deadline) or its cause
	// (cancelled); other errors say that locks cannot be kept at all.
	Lock(ctx context.Context, name string) (farm.Lock, error)
	// TryLock takes the lock if nobody has it. It reports false, without an error, if somebody does,
	// be it this process.
	TryLock(ctx context.Context, name string) (farm.Lock, bool, error)
}

// waitError turns the end of a wait into the error that callers look for.
func waitError(ctx context.Context, name string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("lock %s: %w", name, farm.ErrLockTimeout)
	}
	return fmt.Errorf("lock %s: %w", name, context.Cause(ctx))
}

// queues has a fair queue for each name that is in use, and for no other.
type queues struct {
	mu    sync.Mutex
	names map[string]*queue
}

type queue struct {
	token chan struct{} // holds one token while the name is locked; senders are served in order
	users int           // holder and waiters
}

func newQueues() *queues { return &queues{names: map[string]*queue{}} }

func (q *queues) join(name string) *queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	one, ok := q.names[name]
	if !ok {
		one = &queue{token: make(chan struct{}, 1)}
		q.names[name] = one
	}
	one.users++
	return one
}

func (q *queues) part(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.names[name]
	one.users--
	if one.users == 0 {
		delete(q.names, name)
	}
}

// lock waits for the name; it reports false if the context ended first.
func (q *queues) lock(ctx context.Context, name string) bool {
	one := q.join(name)
	if ctx.Err() == nil {
		select {
		case one.token <- struct{}{}:
			return true
		case <-ctx.Done():
		}
	}
	q.part(name)
	return false
}

// try takes the name if it is free.
func (q *queues) try(name string) bool {
	one := q.join(name)
	select {
	case one.token <- struct{}{}:
		return true
	default:
		q.part(name)
		return false
	}
}

func (q *queues) unlock(name string) {
	q.mu.Lock()
	one := q.names[name]
	q.mu.Unlock()
	<-one.token
	q.part(name)
}

// Keep takes a lock and keeps it until release is called: it looks every so often whether it was
// lost, tells lost of it, and takes it again as soon as it can. It is for locks that say "this
// instance lives". It fails if the lock cannot be had within ctx; after that ctx has no effect.
func Keep(ctx context.Context, locker Locker, name string, every time.Duration, lost func(error)) (release func(), err error) {
	lock, err := locker.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		keep(ctx, locker, name, every, lost, lock)
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-done
	}), nil
}

func keep(ctx context.Context, locker Locker, name string, every time.Duration, lost func(error), lock farm.Lock) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if lock != nil {
				lock.Unlock()
			}
			return
		}
		if lock != nil {
			err := lock.Err()
			if err == nil {
				continue
			}
			lost(err)
			lock.Unlock()
		}
		// Until the lock is had again there is none; a failure here shows as that.
		lock, _, _ = locker.TryLock(ctx, name)
	}
}
