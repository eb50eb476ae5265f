package app

import (
	"context"
	"time"

	"config-server/internal/locks"
	"config-server/internal/workspaces"
)

// How often the instance looks whether its lock is still held, and how soon it tries again what an
// outside part that is down has refused.
const (
	lockProbe  = 5 * time.Second
	retryPause = 2 * time.Second
)

// live holds the lock that says that this instance lives, and mends what an earlier one left: at
// once, and then in every interval. A part that is down delays only this.
func (a *App) live(ctx context.Context) {
	release := a.holdInstanceLock(ctx)
	defer release()
	if ctx.Err() != nil {
		return
	}
	for {
		wait := a.config.Reconciler.Interval.Duration()
		if !a.recover(ctx) {
			wait = retryPause
		}
		if wait <= 0 {
			<-ctx.Done()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// holdInstanceLock tries until it has the lock: a database that is down must not stop the start.
func (a *App) holdInstanceLock(ctx context.Context) (release func()) {
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, lockProbe)
		release, err := locks.Keep(try, a.parts.locks, workspaces.InstanceLock(a.instance), lockProbe, func(err error) {
			a.log.Warn("the lock that says that this instance lives was lost and is taken again", "error", err)
		})
		cancel()
		if err == nil {
			return release
		}
		a.log.Warn("the lock that says that this instance lives is not to be had yet", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
	return func() {}
}

// recover finishes or undoes operations that nobody runs any more. It reports whether the records
// could be read.
func (a *App) recover(ctx context.Context) bool {
	ok := true
	if _, err := a.parts.accounts.Recover(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("account operations could not be recovered", "error", err)
		ok = false
	}
	if _, err := a.parts.workspaces.Recover(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("workspace operations could not be recovered", "error", err)
		ok = false
	}
	return ok
}
