package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"config-server/internal/config"
	"config-server/internal/database"
	"config-server/internal/farm"
	"config-server/internal/locks"
	"config-server/internal/obs"
	"config-server/internal/reconciler"
	"config-server/internal/workspaces"
)

// ReconcileOptions say how a reconciliation by hand is made.
type ReconcileOptions struct {
	// DryRun changes nothing and reports what would be done.
	DryRun bool
	// ServiceStopped: no instance of the service runs anywhere, so nobody has to be seen.
	ServiceStopped bool
	Log            *slog.Logger // nil = discard
}

// ErrServiceUnseen is what Reconcile returns, wrapped, when locks are files and no running service
// is seen by them: one that runs elsewhere would have its running work taken for left over.
var ErrServiceUnseen = errors.New("no running service uses this STATE_DIR")

// ErrReconcilerBusy is what Reconcile returns, wrapped, when another instance held the lease all
// the while.
var ErrReconcilerBusy = errors.New("another instance is reconciling")

const (
	// reconcilePause lies between the two passes: only what both see is removed.
	reconcilePause = 2 * time.Second
	// leaseWait bounds the wait for an instance that is at it; a pass takes moments.
	leaseWait  = 10 * time.Second
	leasePoll  = 250 * time.Millisecond
	instanceOf = "instance/"
)

// Reconcile mends what was left over, beside a service that runs or without one. The report is the
// last pass's, with what recovery did in either; it is valid beside an error.
func Reconcile(ctx context.Context, c config.Config, opts ReconcileOptions) (report reconciler.Report, err error) {
	c.ListenAddr = "127.0.0.1:0" // the real one may be in use by the service itself
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	a, err := New(Options{Config: c, Log: opts.Log, Build: obs.Build{Version: "reconcile"}})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, a.cleanups.run(context.WithoutCancel(ctx))) }()
	if opts.DryRun {
		a.parts.database.LeaveTables()
	} else if err := a.mayRecover(ctx, opts.ServiceStopped); err != nil {
		return report, err
	}

	options := a.parts.reconciler.Options
	options.Tasks = a.previewed(options.Tasks)
	by := reconciler.New(options)
	if opts.DryRun {
		report, err := by.Pass(ctx, true)
		if database.IsMissingTable(err) {
			err = errors.New("the service's tables are not in the database yet: start the service once, it makes them")
		}
		return report, err
	}

	// Records that recovery claims are this process's, so it has to be seen to live. Recovery waits
	// until pods are gone, for which it needs the watches.
	watching, stop := context.WithCancel(ctx)
	defer stop()
	a.parts.cluster.Start(watching)
	release, err := locks.Keep(ctx, a.parts.locks, workspaces.InstanceLock(a.instance), lockProbe, func(error) {})
	if err != nil {
		return report, fmt.Errorf("take the lock that says that this process lives: %w", err)
	}
	defer release()
	return twoPasses(ctx, by)
}

// previewed are the tasks, of which those that recover operations tell a dry run what they would do. Others bring that
// along, or tell nothing.
func (a *App) previewed(tasks []reconciler.Task) []reconciler.Task {
	tasks = slices.Clone(tasks)
	previews := map[string]func(context.Context) ([]string, error){"accounts": a.previewAccounts, "workspaces": a.previewWorkspaces}
	for i, task := range tasks {
		if preview, known := previews[task.Name]; known {
			tasks[i].Preview = preview
		}
	}
	return tasks
}

// twoPasses makes a pass that sees and one that acts.
func twoPasses(ctx context.Context, by *reconciler.Reconciler) (reconciler.Report, error) {
	first, err := leasedPass(ctx, by)
	if err != nil || first.Count(reconciler.ActionWait) == 0 {
		return first, err
	}
	select {
	case <-ctx.Done():
		return first, context.Cause(ctx)
	case <-time.After(reconcilePause):
	}
	second, err := leasedPass(ctx, by)
	// What the first pass mended the second no longer finds.
	for _, f := range slices.Backward(first.Findings) {
		if f.Action == reconciler.ActionDone {
			second.Findings = slices.Insert(second.Findings, 0, f)
		}
	}
	return second, err
}

// leasedPass repeats a pass until the lease is had, for a bounded time. What the tasks did in passes
// without the lease is kept.
func leasedPass(ctx context.Context, by *reconciler.Reconciler) (reconciler.Report, error) {
	limit := time.Now().Add(leaseWait)
	var did []reconciler.Finding
	for {
		report, err := by.Pass(ctx, false)
		did = append(did, report.Findings...)
		report.Findings = did
		switch {
		case err != nil || !report.Busy:
			return report, err
		case time.Now().After(limit):
			return report, fmt.Errorf("%w and has not ended within %s; try again", ErrReconcilerBusy, leaseWait)
		}
		select {
		case <-ctx.Done():
			return report, context.Cause(ctx)
		case <-time.After(leasePoll):
		}
	}
}

// mayRecover refuses where the locks of a running service cannot be seen: with lock files that is
// so unless this process shares the service's STATE_DIR.
func (a *App) mayRecover(ctx context.Context, stopped bool) error {
	if a.config.Share.Lock == "mysql" || stopped {
		return nil
	}
	names, err := locks.NewLocal(a.lockDir()).Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, instanceOf) {
			continue
		}
		lives, err := a.isHeld(ctx, name)
		if err != nil || lives {
			return err
		}
	}
	return fmt.Errorf("%w (%s): with LEDGER_LOCK=local run it where the service runs, or stop every instance and say --service-stopped",
		ErrServiceUnseen, a.config.StateDir)
}

func (a *App) isHeld(ctx context.Context, name string) (bool, error) {
	lock, free, err := a.parts.locks.TryLock(ctx, name)
	if err != nil || !free {
		return !free, err
	}
	lock.Unlock()
	return false, nil
}

// previewAccounts tells which account operations recovery would settle.
func (a *App) previewAccounts(ctx context.Context) ([]string, error) {
	entries, err := a.parts.ledger.Entries(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	if a.parts.ledger.Interrupted() {
		lines = append(lines, "a half written change of the account files would be completed")
	}
	for _, entry := range entries {
		busy, err := a.isHeld(ctx, farm.UserLock(entry.User))
		if err != nil {
			return lines, err
		}
		if !busy {
			lines = append(lines, fmt.Sprintf("the %s of user %s, begun %s, would be settled", entry.Kind, entry.User, entry.StartedAt.Format(time.RFC3339)))
		}
	}
	return lines, nil
}

// previewWorkspaces tells which workspace operations recovery would settle.
func (a *App) previewWorkspaces(ctx context.Context) ([]string, error) {
	operations, err := a.parts.reconciler.Operations.List(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, o := range operations {
		lives, err := a.isHeld(ctx, workspaces.InstanceLock(o.Instance))
		if err != nil {
			return lines, err
		}
		if !lives {
			lines = append(lines, fmt.Sprintf("the %s of pod %s, begun %s, would be settled", o.Kind, o.Pod, o.StartedAt.Format(time.RFC3339)))
		}
	}
	return lines, nil
}
