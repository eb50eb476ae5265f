package locks

import (
	"context"
	"time"

	"config-server/internal/farm"
)

// Observed has observe told of every wait for a lock: the lock's name, how long the wait took, and the
// error with which it ended without the lock. TryLock does not wait, so nobody is told of it. observe
// must not block.
func Observed(locker Locker, observe func(name string, took time.Duration, err error)) Locker {
	return observed{locker, observe}
}

type observed struct {
	Locker
	observe func(name string, took time.Duration, err error)
}

// Lock implements Locker.
func (o observed) Lock(ctx context.Context, name string) (farm.Lock, error) {
	begin := time.Now()
	lock, err := o.Locker.Lock(ctx, name)
	o.observe(name, time.Since(begin), err)
	return lock, err
}
