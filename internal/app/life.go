package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"config-server/internal/locks"
	"config-server/internal/obs"
	"config-server/internal/workspaces"
)

// How often the instance looks whether its lock is still held, how soon it tries again what an outside
// part that is down has refused, and how often it asks the parts of /readyz, for the metrics.
const (
	lockProbe  = 5 * time.Second
	retryPause = 2 * time.Second
	partsEvery = 15 * time.Second
)

// live holds the lock that says that this instance lives, and mends what an earlier one left: at
// once, and then in every interval. A part that is down delays only this.
func (a *App) live(ctx context.Context) {
	release := a.holdInstanceLock(ctx)
	defer release()
	if ctx.Err() != nil {
		return
	}
	a.parts.reconciler.Run(ctx, func(err error) <-chan time.Time {
		interval := a.config.Reconciler.Interval.Duration()
		switch {
		case err != nil && (interval == 0 || interval > retryPause):
			return time.After(retryPause)
		case interval == 0:
			return nil // never again: the nil channel never fires
		}
		return time.After(interval)
	})
}

// askParts keeps in the metrics how the parts of /readyz are, because mostly nobody asks: kubelet's probes
// go to /health.
func (a *App) askParts(ctx context.Context) {
	for ctx.Err() == nil {
		a.parts.handler.AskParts(obs.WithRequestID(ctx, obs.NewRequestID()))
		select {
		case <-ctx.Done():
		case <-time.After(partsEvery):
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

// recoverAccounts mends account operations that nobody runs any more, one line each.
func (p *parts) recoverAccounts(ctx context.Context) ([]string, error) {
	report, err := p.accounts.Recover(ctx)
	var lines []string
	for _, user := range report.Undone {
		lines = append(lines, fmt.Sprintf("creation of user %s undone", user))
	}
	for _, user := range report.Finished {
		lines = append(lines, fmt.Sprintf("operation on user %s finished", user))
	}
	return lines, err
}

// recoverWorkspaces mends workspace operations that nobody runs any more, one line each.
func (p *parts) recoverWorkspaces(ctx context.Context) ([]string, error) {
	recovered, err := p.workspaces.Recover(ctx)
	errs := []error{err}
	var lines []string
	for _, r := range recovered {
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("%s of pod %s: %w", r.Operation.Kind, r.Operation.Pod, r.Err))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s of pod %s %s", r.Operation.Kind, r.Operation.Pod, r.Outcome))
	}
	return lines, errors.Join(errs...)
}
