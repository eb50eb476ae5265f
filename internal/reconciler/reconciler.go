// Package reconciler compares what the cluster and the database say of workspaces and mends what
// was left over: rows whose pod is gone, Services whose pod is gone, pods that nobody can reach,
// rows that live Services and GPUs lack, and operations and journals that a crash cut off.
//
// It would rather leave something behind than remove what somebody uses. It deletes nothing on an
// error, on listings that contradict one another, on a first sight, or while an operation on the
// object is under way; and right before it deletes it looks again, under the user's lock.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"config-server/internal/farm"
)

// Cluster is what is read of and removed from Kubernetes; all readings are live.
type Cluster interface {
	Pods(ctx context.Context) ([]farm.Pod, error)
	Services(ctx context.Context) ([]farm.Service, error)
	Pod(ctx context.Context, name farm.PodName) (farm.Pod, bool, error)
	ServicesOf(ctx context.Context, pod farm.PodName) ([]farm.Service, error)
	DeletePod(ctx context.Context, name farm.PodName, uid string) (bool, error)
	DeleteService(ctx context.Context, name, uid string) (bool, error)
}

// Ports is the table of reserved NodePorts.
type Ports interface {
	Rows(ctx context.Context) ([]farm.Row, error)
	RowsOf(ctx context.Context, pod farm.PodName) ([]farm.Row, error)
	// Adopt writes rows that are missing; one that another pod has is an error that wraps farm.ErrOwner.
	Adopt(ctx context.Context, rows []farm.Row) (int, error)
	// ReleaseRows removes rows that still are as they were read.
	ReleaseRows(ctx context.Context, rows []farm.Row) (int, error)
}

// GPUs is the table of assigned GPUs.
type GPUs interface {
	Rows(ctx context.Context) ([]farm.GPURow, error)
	// Adopt writes rows that are missing.
	Adopt(ctx context.Context, rows []farm.GPURow) (int, error)
	// ReleaseRows removes rows that still are as they were read.
	ReleaseRows(ctx context.Context, rows []farm.GPURow) (int, error)
}

// Operations lists the operations that are under way.
type Operations interface {
	List(ctx context.Context) ([]farm.Operation, error)
}

// Locks hands out named locks.
type Locks interface {
	TryLock(ctx context.Context, name string) (farm.Lock, bool, error)
}

// Task is another part's own mending, run in each pass: what it did, one line each.
type Task struct {
	Name string
	Run  func(ctx context.Context) ([]string, error)
	// Preview tells what Run would do and changes nothing; nil = a dry run passes the task over.
	Preview func(ctx context.Context) ([]string, error)
}

// Options of a Reconciler.
type Options struct {
	Cluster    Cluster
	Ports      Ports
	GPUs       GPUs // nil = no GPUs are assigned
	Operations Operations
	Locks      Locks
	// UserLock names the lock under which a user's workspaces are changed.
	UserLock func(farm.UserName) string
	// Tasks run first, even where the rest of the pass is another instance's.
	Tasks []Task
	// Grace is the age below which nothing counts as left over. It has to be longer than any request.
	Grace time.Duration
	Now   func() time.Time
	Log   *slog.Logger
	// NewPass gives the context of each pass that Run makes, say with an id for the log; nil = that of Run.
	NewPass func(ctx context.Context) context.Context
	// Passed is told of each pass that Run has made; nil = nobody.
	Passed func(report Report, took time.Duration, err error)
}

// LeaseName is the lock under which a pass runs: one instance at a time.
const LeaseName = "reconciler"

// Reconciler runs passes. It is safe for concurrent use; passes run one after the other.
type Reconciler struct {
	Options

	mu sync.Mutex
	// seen has the findings of the last pass: only what is found twice in a row is removed.
	seen map[string]bool
}

// New returns a Reconciler that has seen nothing yet.
func New(opts Options) *Reconciler { return &Reconciler{Options: opts, seen: map[string]bool{}} }

// Run makes a pass at once and then one whenever the channel from next fires, until ctx ends. next
// is asked after each pass and told its error, so that a part that was down is tried again soon.
func (r *Reconciler) Run(ctx context.Context, next func(error) <-chan time.Time) {
	for {
		err := r.passOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-next(err):
		}
	}
}

// passOnce makes a pass and tells of it, unless ctx ended meanwhile.
func (r *Reconciler) passOnce(ctx context.Context) error {
	if r.NewPass != nil {
		ctx = r.NewPass(ctx)
	}
	begin := time.Now()
	report, err := r.guardedPass(ctx)
	if ctx.Err() != nil {
		return err
	}
	r.tell(ctx, report, err)
	if r.Passed != nil {
		r.Passed(report, time.Since(begin), err)
	}
	return err
}

// guardedPass turns a panic into the pass's error: a driver that stumbles over a broken answer must
// not end the process, with its requests, because of what runs beside them.
func (r *Reconciler) guardedPass(ctx context.Context) (report Report, err error) {
	defer func() {
		if v := recover(); v != nil {
			r.Log.ErrorContext(ctx, "reconciler panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in the pass: %v", v)
		}
	}()
	return r.Pass(ctx, false)
}

func (r *Reconciler) tell(ctx context.Context, report Report, err error) {
	if err != nil {
		r.Log.WarnContext(ctx, "reconciler's pass failed, nothing more was changed", "error", err)
	}
	for _, f := range report.Findings {
		if f.Action == ActionWait { // told when it is acted upon
			continue
		}
		r.Log.InfoContext(ctx, "reconciler", "kind", f.Kind, "object", f.Object, "user", f.User, "action", f.Action, "detail", f.Detail)
	}
}

// Pass looks once at everything. With dryRun it changes nothing and tells what a pass would do,
// and treats every finding as seen before. The error joins what could not be read or changed; the
// report tells what was done all the same.
func (r *Reconciler) Pass(ctx context.Context, dryRun bool) (Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var report Report
	errs := r.tasks(ctx, &report, dryRun)
	if !dryRun {
		lease, ours, err := r.Locks.TryLock(ctx, LeaseName)
		if err != nil {
			return report, errors.Join(append(errs, fmt.Errorf("take the reconciler's lease: %w", err))...)
		}
		if !ours {
			report.Busy = true
			return report, errors.Join(errs...)
		}
		defer lease.Unlock()
	}
	errs = append(errs, r.workspaces(ctx, &report, dryRun))
	return report, errors.Join(errs...)
}

// tasks runs the other parts' own mending, or asks what it would be.
func (r *Reconciler) tasks(ctx context.Context, report *Report, dryRun bool) []error {
	var errs []error
	for _, task := range r.Tasks {
		run, action := task.Run, ActionDone
		if dryRun {
			run, action = task.Preview, ActionWould
		}
		if run == nil {
			continue
		}
		lines, err := run(ctx)
		for _, line := range lines {
			report.add(Finding{Kind: KindTask, Object: task.Name, Action: action, Detail: line})
		}
		if err != nil {
			if !dryRun { // which has tried nothing
				report.add(Finding{Kind: KindTask, Object: task.Name, Action: ActionFailed, Detail: err.Error()})
			}
			errs = append(errs, fmt.Errorf("%s: %w", task.Name, err))
		}
	}
	return errs
}
