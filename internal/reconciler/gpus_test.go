package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"config-server/internal/farm"
	"config-server/internal/reconciler"
)

// fakeGPUs is the table of assigned GPUs, noting into its farm.
type fakeGPUs struct {
	*fakeFarm
	assigned []farm.GPURow
}

func (g *fakeGPUs) Rows(context.Context) ([]farm.GPURow, error) {
	err := g.call("GPURows")
	return slices.Clone(g.assigned), err
}

func (g *fakeGPUs) Adopt(_ context.Context, rows []farm.GPURow) (int, error) {
	if err := g.call("AdoptGPUs"); err != nil {
		return 0, err
	}
	for _, row := range rows {
		g.note("assign %s/%d to %s", row.Node, row.Index, row.Pod)
	}
	g.assigned = append(g.assigned, rows...)
	return len(rows), nil
}

func (g *fakeGPUs) ReleaseRows(_ context.Context, rows []farm.GPURow) (int, error) {
	if err := g.call("ReleaseGPUs"); err != nil {
		return 0, err
	}
	for _, row := range rows {
		g.note("take back %s/%d", row.Node, row.Index)
		g.assigned = slices.DeleteFunc(g.assigned, func(r farm.GPURow) bool { return r.ID == row.ID })
	}
	return len(rows), nil
}

// assign writes rows of a pod on farm5.
func (g *fakeGPUs) assign(user farm.UserName, pod farm.PodName, at time.Time, indexes ...int) {
	for _, index := range indexes {
		g.assigned = append(g.assigned, farm.GPURow{ID: int64(len(g.assigned) + 1), User: user, Pod: pod, Node: "farm5", Index: index, CreatedAt: at})
	}
}

func (g *fakeGPUs) mounts(pod farm.PodName, indexes ...int) {
	at := slices.IndexFunc(g.pods, func(p farm.Pod) bool { return p.Name == pod })
	g.pods[at].GPUIndexes = farm.NewGPUSet(indexes...)
}

func (g *fakeGPUs) pod(name farm.PodName) *farm.Pod {
	return &g.pods[slices.IndexFunc(g.pods, func(p farm.Pod) bool { return p.Name == name })]
}

// gpuFarm has kim's workspace with the GPUs 0 and 1, as assigned.
func gpuFarm() (*fakeGPUs, farm.PodName) {
	g := &fakeGPUs{fakeFarm: newFarm()}
	kim := g.workspace("kim", 30000)
	g.mounts(kim, 0, 1)
	g.assign("kim", kim, old, 0, 1)
	return g, kim
}

func (g *fakeGPUs) reconciler() *reconciler.Reconciler {
	r := g.fakeFarm.reconciler()
	r.GPUs = g
	return r
}

func TestAssignmentIsMended(t *testing.T) {
	t.Parallel()
	const gone = farm.PodName("ailab-gone-0000000e")
	for name, tc := range map[string]struct {
		breaks func(g *fakeGPUs, kim farm.PodName)
		did    []string
		kind   reconciler.Kind
		action reconciler.Action
	}{
		"nothing is wrong": {func(*fakeGPUs, farm.PodName) {}, nil, "", ""},
		"a pod that is gone": {func(g *fakeGPUs, _ farm.PodName) { g.assign("gone", gone, old, 2, 3) },
			[]string{"take back farm5/2", "take back farm5/3"}, reconciler.KindStaleGPURow, reconciler.ActionDone},
		"a pod that is gone, within the grace": {func(g *fakeGPUs, _ farm.PodName) { g.assign("gone", gone, young, 2) }, nil, "", ""},
		"a pod that is gone, under recovery": {func(g *fakeGPUs, _ farm.PodName) {
			g.assign("gone", gone, old, 2)
			g.operations = []farm.Operation{{ID: "1", User: "gone", Pod: gone}}
		}, nil, "", ""},
		"a pod that is gone, whose user is busy": {func(g *fakeGPUs, _ farm.PodName) {
			g.assign("gone", gone, old, 2)
			g.held[farm.UserLock("gone")] = true
		},
			nil, reconciler.KindStaleGPURow, reconciler.ActionWait},
		"a pod that has ended": {func(g *fakeGPUs, kim farm.PodName) { g.pod(kim).Phase = "Failed" },
			[]string{"take back farm5/0", "take back farm5/1"}, reconciler.KindStaleGPURow, reconciler.ActionDone},
		"a GPU that the pod does not mount": {func(g *fakeGPUs, kim farm.PodName) { g.assign("kim", kim, old, 7) },
			[]string{"take back farm5/7"}, reconciler.KindStaleGPURow, reconciler.ActionDone},
		"a pod without rows": {func(g *fakeGPUs, _ farm.PodName) { g.assigned = nil },
			[]string{"assign farm5/0 to ailab-kim-00007530", "assign farm5/1 to ailab-kim-00007530"}, reconciler.KindMissingGPURow, reconciler.ActionDone},
		"a pod without one of its rows": {func(g *fakeGPUs, _ farm.PodName) { g.assigned = g.assigned[1:] },
			[]string{"assign farm5/0 to ailab-kim-00007530"}, reconciler.KindMissingGPURow, reconciler.ActionDone},
		"a pod without rows, whose user is busy": {func(g *fakeGPUs, _ farm.PodName) { g.assigned, g.held[farm.UserLock("kim")] = nil, true },
			nil, reconciler.KindMissingGPURow, reconciler.ActionWait},
		"a pod without rows that is going": {func(g *fakeGPUs, kim farm.PodName) { g.assigned, g.pod(kim).Terminating = nil, true }, nil, "", ""},
		"a pod without rows, in the making": {func(g *fakeGPUs, kim farm.PodName) {
			g.assigned, g.operations = nil, []farm.Operation{{ID: "1", User: "kim", Pod: kim}}
		}, nil, "", ""},
		"a pod that comes back before its rows go": {func(g *fakeGPUs, _ farm.PodName) {
			g.assign("gone", gone, old, 2)
			g.before = func(call string) {
				if call == "Pod" {
					g.before = nil
					g.fakeFarm.pod("gone", gone, "Running", old)
					g.mounts(gone, 2)
				}
			}
		}, nil, reconciler.KindStaleGPURow, reconciler.ActionWait},
		"a pod that goes before its rows are written": {func(g *fakeGPUs, kim farm.PodName) {
			g.assigned = nil
			g.before = func(call string) {
				if call == "Pod" {
					g.pods = nil
				}
			}
		}, nil, reconciler.KindMissingGPURow, reconciler.ActionWait},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, kim := gpuFarm()
			tc.breaks(g, kim)
			r := g.reconciler()
			var found []reconciler.Finding
			for range 2 {
				report, err := r.Pass(t.Context(), false)
				if err != nil {
					t.Fatal(err)
				}
				if at := slices.IndexFunc(report.Findings, func(f reconciler.Finding) bool { return f.Kind == tc.kind }); at >= 0 {
					found = append(found, report.Findings[at])
				}
			}
			wantDid(t, g.fakeFarm, tc.did...)
			if tc.kind == "" && len(found) > 0 || tc.kind != "" && (len(found) == 0 || found[len(found)-1].Action != tc.action) {
				t.Errorf("found %+v, want %s %s", found, tc.kind, tc.action)
			}
			if tc.kind != "" && !slices.Contains(reconciler.Kinds(), tc.kind) {
				t.Errorf("Kinds lacks %s", tc.kind)
			}
		})
	}
}

func TestAssignmentDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	g, kim := gpuFarm()
	g.assigned = g.assigned[:1]
	g.assign("gone", "ailab-gone-0000000e", old, 2)
	report, err := g.reconciler().Pass(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	wantDid(t, g.fakeFarm)
	var got []string
	for _, f := range report.Findings {
		got = append(got, fmt.Sprint(f.Kind, " ", f.Object, " ", f.Action, " ", f.Detail))
	}
	want := []string{fmt.Sprintf("missing-gpu-row %s would-fix GPU 1 of farm5", kim), "stale-gpu-row ailab-gone-0000000e would-fix GPU 2 of farm5"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// Nothing is changed by what could not be read, and what could not be changed is an error.
func TestAssignmentTableThatFails(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"GPURows", "AdoptGPUs", "ReleaseGPUs", "Pod"} {
		g, kim := gpuFarm()
		g.assigned = nil
		if call == "ReleaseGPUs" {
			g.assign("kim", kim, old, 0, 1)
			g.assign("gone", "ailab-gone-0000000e", old, 2)
		}
		g.fail[call] = errDown
		r := g.reconciler()
		_, first := r.Pass(t.Context(), false)
		_, second := r.Pass(t.Context(), false)
		if !errors.Is(errors.Join(first, second), errDown) {
			t.Errorf("%s: errors %v, %v", call, first, second)
		}
		wantDid(t, g.fakeFarm)
	}
}
