package saga_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/saga"
)

// trace records what ran, in order.
type trace struct{ lines []string }

func (t *trace) step(name string, err error, undos ...saga.Undo) saga.Step {
	return saga.Step{Name: name, Undos: undos, Do: func(context.Context) error {
		t.lines = append(t.lines, "do "+name)
		return err
	}}
}

func (t *trace) undo(key string, done bool, err error) saga.Undo {
	return saga.Undo{Key: key, Run: func(context.Context) (bool, error) {
		t.lines = append(t.lines, "undo "+key)
		return done, err
	}}
}

var errStep, errUndo = errors.New("step broke"), errors.New("undo broke")

func TestRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		steps  func(*trace) []saga.Step
		lines  []string
		failed string
		undone map[string]bool
		undo   error
	}{
		"all steps succeed, nothing is undone": {
			steps: func(tr *trace) []saga.Step {
				return []saga.Step{tr.step("a", nil, tr.undo("ka", true, nil)), tr.step("b", nil)}
			},
			lines: []string{"do a", "do b"},
		},
		"undo runs from the top, the failing step's own first": {
			steps: func(tr *trace) []saga.Step {
				return []saga.Step{
					tr.step("a", nil, tr.undo("ka", true, nil)),
					tr.step("b", errStep, tr.undo("kb1", false, nil), tr.undo("kb2", true, nil)),
					tr.step("c", nil, tr.undo("kc", true, nil)),
				}
			},
			lines:  []string{"do a", "do b", "undo kb2", "undo kb1", "undo ka"},
			failed: "b", undone: map[string]bool{"ka": true, "kb1": false, "kb2": true},
		},
		"a failure before any undo gives an empty map": {
			steps:  func(tr *trace) []saga.Step { return []saga.Step{tr.step("a", errStep)} },
			lines:  []string{"do a"},
			failed: "a", undone: map[string]bool{},
		},
		"an undo that fails is false, and does not stop the others": {
			steps: func(tr *trace) []saga.Step {
				return []saga.Step{
					tr.step("a", nil, tr.undo("ka", true, nil)),
					tr.step("b", nil, tr.undo("kb", true, errUndo)),
					tr.step("c", errStep),
				}
			},
			lines:  []string{"do a", "do b", "do c", "undo kb", "undo ka"},
			failed: "c", undone: map[string]bool{"ka": true, "kb": false}, undo: errUndo,
		},
		"an undo without a key is not told": {
			steps: func(tr *trace) []saga.Step {
				return []saga.Step{tr.step("a", errStep, tr.undo("", true, nil))}
			},
			lines:  []string{"do a", "undo "},
			failed: "a", undone: map[string]bool{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := &trace{}
			err := saga.Run(t.Context(), saga.Options{UseCase: "test"}, tc.steps(tr))
			if diff := cmp.Diff(tc.lines, tr.lines); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			failure, failed := saga.AsFailure(err)
			if failed != (tc.failed != "") {
				t.Fatalf("error %v", err)
			}
			if !failed {
				return
			}
			if failure.Step != tc.failed || !errors.Is(err, errStep) {
				t.Errorf("failed at %q with %v", failure.Step, err)
			}
			if diff := cmp.Diff(tc.undone, failure.Undone); diff != "" {
				t.Errorf("undone (-want +got):\n%s", diff)
			}
			if !errors.Is(failure.UndoErr, tc.undo) {
				t.Errorf("undo error %v", failure.UndoErr)
			}
		})
	}
}

func TestPanicsAreUndoneLikeErrors(t *testing.T) {
	t.Parallel()
	tr := &trace{}
	err := saga.Run(t.Context(), saga.Options{}, []saga.Step{
		tr.step("a", nil, tr.undo("ka", true, nil)),
		{
			Name:  "b",
			Undos: []saga.Undo{{Key: "kb", Run: func(context.Context) (bool, error) { panic("in undo") }}},
			Do:    func(context.Context) error { panic("in step") },
		},
	})
	failure, _ := saga.AsFailure(err)
	var p *saga.PanicError
	if failure == nil || !errors.As(err, &p) || p.Value != "in step" || !strings.Contains(string(p.Stack), "saga_test") {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff(map[string]bool{"ka": true, "kb": false}, failure.Undone); diff != "" {
		t.Errorf("undone (-want +got):\n%s", diff)
	}
}

func TestUndoOutlivesTheCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("caller is gone")
	undone := false
	err := saga.Run(ctx, saga.Options{}, []saga.Step{
		{Name: "a", Undos: []saga.Undo{{Key: "k", Run: func(ctx context.Context) (bool, error) {
			undone = ctx.Err() == nil
			return true, ctx.Err()
		}}}, Do: func(context.Context) error { cancel(gone); return nil }},
		{Name: "b", Do: func(context.Context) error { t.Error("a step ran after the caller was gone"); return nil }},
	})
	if !errors.Is(err, gone) || !undone {
		t.Errorf("error %v, undone with a live context: %v", err, undone)
	}
}

func TestUndoIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := saga.Run(t.Context(), saga.Options{UndoLimit: 3 * time.Second}, []saga.Step{{
			Name:  "a",
			Undos: []saga.Undo{{Key: "k", Run: func(ctx context.Context) (bool, error) { <-ctx.Done(); return true, ctx.Err() }}},
			Do:    func(context.Context) error { return errStep },
		}})
		failure, _ := saga.AsFailure(err)
		if took := time.Since(begin); took != 3*time.Second || failure.Undone["k"] || !errors.Is(failure.UndoErr, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", took, failure)
		}
	})
}

func TestObserverSeesEveryStepAndUndo(t *testing.T) {
	t.Parallel()
	tr := &trace{}
	var seen []string
	_ = saga.Run(t.Context(), saga.Options{UseCase: "u", Observer: func(_ context.Context, e saga.Event) {
		seen = append(seen, fmt.Sprintf("%s %s %s %v %v", e.UseCase, e.Step, e.Phase, e.Undone, e.Err))
	}}, []saga.Step{tr.step("a", nil, tr.undo("k", true, nil)), tr.step("b", errStep)})
	want := []string{
		"u a before false <nil>", "u a after false <nil>", "u b before false <nil>", "u b after false step broke",
		"u a before-undo false <nil>", "u a after-undo true <nil>",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
