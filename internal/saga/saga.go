// Package saga runs a use case as named steps, each paired with its undo.
//
// Steps run one after the other. The undo of a step is put on a stack before the step runs,
// because a step that fails may have half succeeded. When a step fails, or the caller is gone, the
// stack is undone from the top on a context of its own: cancelling the request does not reach it,
// its own time limit does. One undo that fails never stops the others. The outcome is a truthful
// map: true only where something existed and is gone.
//
// The package knows nothing of what the steps do.
package saga

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Undo takes back what a step may have done.
type Undo struct {
	// Key is the undo's name in the map that callers read; empty = not told.
	Key string
	// What names in a word what it takes back, for people: a step may have several undos.
	What string
	// Run takes back and reports true if something existed and is gone, or what the step had changed is as it
	// was. It must be safe to repeat
	// and safe to run when the step did nothing: then it reports false without an error.
	Run func(ctx context.Context) (bool, error)
}

// Step is one named piece of a use case.
type Step struct {
	Name string
	// Undos are put on the stack, in this order, before Do runs: the last one is undone first.
	Undos []Undo
	Do    func(ctx context.Context) error
}

// Phase says where in a step an Event was taken.
type Phase string

// The phases of a step and of its undo.
const (
	Before     Phase = "before"
	After      Phase = "after"
	BeforeUndo Phase = "before-undo"
	AfterUndo  Phase = "after-undo"
)

// Event tells an Observer what happens. Err and Elapsed are set in After and AfterUndo.
type Event struct {
	UseCase string
	Step    string
	Phase   Phase
	Key     string // of the undo
	What    string // of the undo
	Undone  bool   // AfterUndo: something existed and is gone
	Err     error
	Elapsed time.Duration
}

// Observer is told of every step and undo: for logs, metrics, progress and the tests' crash points.
// It is called in the request's goroutine and must not block.
type Observer func(ctx context.Context, event Event)

// Observers tells each of the observers, in this order.
func Observers(all ...Observer) Observer {
	return func(ctx context.Context, event Event) {
		for _, observer := range all {
			observer(ctx, event)
		}
	}
}

// Options of a run.
type Options struct {
	UseCase string
	// UndoLimit bounds all undos together; zero = 30 seconds.
	UndoLimit time.Duration
	Observer  Observer // nil = nobody
}

// Failure says which step failed and what was undone. Its error text is the step's.
type Failure struct {
	Step string
	Err  error
	// Undone maps the key of each undo on the stack to whether something existed and is gone.
	Undone map[string]bool
	// UndoErr joins the errors of undos; nil = everything was taken back.
	UndoErr error
}

// Error is the failing step's error, with the undo's behind it if that failed too.
func (f *Failure) Error() string {
	if f.UndoErr != nil {
		return fmt.Sprintf("%v (undo failed too: %v)", f.Err, f.UndoErr)
	}
	return f.Err.Error()
}

// Unwrap returns the failing step's error.
func (f *Failure) Unwrap() error { return f.Err }

// PanicError is a panic of a step or an undo, turned into an error so that undo runs and locks are
// released. Stack is for the log only.
type PanicError struct {
	Value any
	Stack []byte
}

// Error names the panic's value.
func (p *PanicError) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

const defaultUndoLimit = 30 * time.Second

// Run runs the steps. It returns nil or a *Failure; by then everything is undone that could be.
// A context that is done before or between steps fails the next step with the context's cause.
func Run(ctx context.Context, opts Options, steps []Step) error {
	r := &runner{opts: opts}
	for _, step := range steps {
		if err := r.do(ctx, step); err != nil {
			failure := &Failure{Step: step.Name, Err: err}
			failure.Undone, failure.UndoErr = r.undo(ctx)
			return failure
		}
	}
	return nil
}

// AsFailure finds the Failure in a chain.
func AsFailure(err error) (*Failure, bool) {
	var f *Failure
	ok := errors.As(err, &f)
	return f, ok
}

type runner struct {
	opts  Options
	stack []entry
}

type entry struct {
	step string
	undo Undo
}

func (r *runner) do(ctx context.Context, step Step) error {
	if ctx.Err() != nil {
		return fmt.Errorf("stopped before %s: %w", step.Name, context.Cause(ctx))
	}
	for _, undo := range step.Undos {
		r.stack = append(r.stack, entry{step: step.Name, undo: undo})
	}
	begin := time.Now()
	r.tell(ctx, Event{Step: step.Name, Phase: Before})
	err := guard(func() error { return step.Do(ctx) })
	r.tell(ctx, Event{Step: step.Name, Phase: After, Err: err, Elapsed: time.Since(begin)})
	return err
}

func (r *runner) undo(ctx context.Context) (map[string]bool, error) {
	limit := r.opts.UndoLimit
	if limit == 0 {
		limit = defaultUndoLimit
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()

	undone := map[string]bool{}
	var errs []error
	for i := len(r.stack) - 1; i >= 0; i-- {
		e := r.stack[i]
		begin := time.Now()
		r.tell(ctx, Event{Step: e.step, Phase: BeforeUndo, Key: e.undo.Key, What: e.undo.What})
		var done bool
		err := guard(func() (err error) {
			done, err = e.undo.Run(ctx)
			return err
		})
		if err != nil {
			done = false
			errs = append(errs, fmt.Errorf("undo %s: %w", e.step, err))
		}
		if e.undo.Key != "" {
			undone[e.undo.Key] = undone[e.undo.Key] || done
		}
		r.tell(ctx, Event{
			Step: e.step, Phase: AfterUndo, Key: e.undo.Key, What: e.undo.What, Undone: done, Err: err, Elapsed: time.Since(begin),
		})
	}
	return undone, errors.Join(errs...)
}

func (r *runner) tell(ctx context.Context, event Event) {
	if r.opts.Observer == nil {
		return
	}
	event.UseCase = r.opts.UseCase
	r.opts.Observer(ctx, event)
}

// guard turns a panic into an error.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
