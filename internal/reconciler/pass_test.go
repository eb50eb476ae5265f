package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/reconciler"
)

func TestADryRunChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFarm()
	pod := f.workspace("kim", 30000)
	f.service("kim", pod, 30001, old)
	for _, tc := range leftovers[:2] {
		tc.add(f, old)
	}
	ran := false
	r := f.reconciler(
		reconciler.Task{Name: "a", Run: func(context.Context) ([]string, error) { ran = true; return nil, nil },
			Preview: func(context.Context) ([]string, error) { return []string{"one"}, nil }},
		reconciler.Task{Name: "b", Run: func(context.Context) ([]string, error) { ran = true; return nil, nil }})
	for range 3 {
		report, err := r.Pass(t.Context(), true)
		if err != nil || report.Count(reconciler.ActionWould) != len(report.Findings) || len(report.Findings) != 3 {
			t.Errorf("report %+v, error %v", report, err)
		}
	}
	wantDid(t, f)
	if ran {
		t.Error("a task ran")
	}
}

func TestTheLeaseIsOneInstances(t *testing.T) {
	t.Parallel()
	f := newFarm()
	f.workspace("kim", 30000)
	f.row("lee", gone, 30009, old)
	tasks := 0
	r := f.reconciler(reconciler.Task{Name: "a", Run: func(context.Context) ([]string, error) { tasks++; return []string{"did"}, nil }})
	pass(t, r, 1)
	f.held[reconciler.LeaseName] = true
	if report := pass(t, r, 2); !report.Busy || tasks != 3 || report.Count(reconciler.ActionDone) != 1 {
		t.Errorf("report %+v after %d tasks", report, tasks)
	}
	wantDid(t, f)
	f.held = map[string]bool{}
	f.fail["TryLock"] = errDown
	if _, err := r.Pass(t.Context(), false); !errors.Is(err, errDown) {
		t.Errorf("error %v", err)
	}
	wantDid(t, f)
}

func TestATaskThatFailsStopsNothing(t *testing.T) {
	t.Parallel()
	f := newFarm()
	f.workspace("kim", 30000)
	f.row("lee", gone, 30009, old)
	r := f.reconciler(reconciler.Task{Name: "a", Run: func(context.Context) ([]string, error) { return []string{"half"}, errDown }})
	for range 2 {
		report, err := r.Pass(t.Context(), false)
		want := []reconciler.Finding{
			{Kind: reconciler.KindTask, Object: "a", Action: reconciler.ActionDone, Detail: "half"},
			{Kind: reconciler.KindTask, Object: "a", Action: reconciler.ActionFailed, Detail: errDown.Error()},
		}
		if !errors.Is(err, errDown) || len(report.Findings) < len(want) || !slices.Equal(report.Findings[:len(want)], want) {
			t.Errorf("report %+v, error %v", report, err)
		}
	}
	wantDid(t, f, "release 30009")
}

func TestRunPassesUntilItsContextEnds(t *testing.T) {
	t.Parallel()
	f := newFarm()
	f.workspace("kim", 30000)
	f.row("lee", gone, 30009, old)
	ctx, cancel := context.WithCancel(t.Context())
	var told []error
	f.reconciler().Run(ctx, func(err error) <-chan time.Time {
		told = append(told, err)
		switch len(told) {
		case 1:
			f.fail["Pods"] = errDown
		case 2:
			delete(f.fail, "Pods")
		case 4:
			cancel()
			return nil
		}
		tick := make(chan time.Time, 1)
		tick <- now
		return tick
	})
	if len(told) != 4 || told[0] != nil || !errors.Is(told[1], errDown) || told[2] != nil {
		t.Errorf("passes ended with %v", told)
	}
	wantDid(t, f, "release 30009")
}

func TestPanicInAPassIsItsErrorAndFreesTheLease(t *testing.T) {
	t.Parallel()
	f := newFarm()
	f.before = func(call string) {
		if call == "Pods" {
			panic("driver")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var told []error
	f.reconciler().Run(ctx, func(err error) <-chan time.Time {
		told = append(told, err)
		if len(told) == 1 {
			f.before = nil
		} else {
			cancel()
		}
		tick := make(chan time.Time, 1)
		tick <- now
		return tick
	})
	if len(told) != 2 || told[0] == nil || told[1] != nil {
		t.Errorf("errors of the passes: %v", told)
	}
	if len(f.held) != 0 {
		t.Errorf("locks are still held: %v", f.held)
	}
}

// Each pass of Run has a context of its own, and somebody is told how it ended.
func TestRunTellsOfEachPass(t *testing.T) {
	t.Parallel()
	type key struct{}
	f := newFarm()
	f.workspace("kim", 30000)
	f.row("lee", gone, 30009, old)
	var seen, told []string
	passes := 0
	r := f.reconciler(reconciler.Task{Name: "a", Run: func(ctx context.Context) ([]string, error) {
		seen = append(seen, fmt.Sprint(ctx.Value(key{})))
		return nil, nil
	}})
	r.NewPass = func(ctx context.Context) context.Context {
		passes++
		return context.WithValue(ctx, key{}, passes)
	}
	r.Passed = func(report reconciler.Report, took time.Duration, err error) {
		told = append(told, fmt.Sprint(len(report.Findings), " found, busy ", report.Busy, ", failed ", err != nil, ", took time ", took > 0))
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.Run(ctx, func(error) <-chan time.Time {
		switch passes {
		case 1:
			f.fail["Rows"] = errDown
		case 2:
			f.fail, f.held[reconciler.LeaseName] = map[string]error{}, true
		case 3:
			cancel()
		}
		next := make(chan time.Time, 1)
		next <- now
		return next
	})
	if diff := cmp.Diff([]string{"1", "2", "3"}, seen[:3]); diff != "" {
		t.Errorf("contexts (-want +got):\n%s", diff)
	}
	want := []string{"1 found, busy false, failed false, took time true", "0 found, busy false, failed true, took time true", "0 found, busy true, failed false, took time true"}
	if diff := cmp.Diff(want, told[:3]); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestKindsAreAll(t *testing.T) {
	t.Parallel()
	for _, tc := range leftovers {
		if !slices.Contains(reconciler.Kinds(), tc.kind) {
			t.Errorf("Kinds lacks %s", tc.kind)
		}
	}
}
