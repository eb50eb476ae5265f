package workspaces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/saga"
)

// gives is an assigner with a fixed answer, noting what it was asked.
type gives struct {
	place    farm.GPUPlace
	err      error
	wishes   []farm.GPUWish
	released []farm.PodName
	refuses  error // of releases
}

func (g *gives) Assign(_ context.Context, _ farm.PortOwner, wishes []farm.GPUWish) (farm.GPUPlace, error) {
	g.wishes = wishes
	return g.place, g.err
}

func (g *gives) Release(_ context.Context, pod farm.PodName) (int, error) {
	g.released = append(g.released, pod)
	return 1, g.refuses
}

// moving is a table of operations that notes where they go.
type moving struct {
	Operations
	placed []farm.NodeName
	err    error
}

func (m *moving) Place(_ context.Context, _ string, node farm.NodeName) error {
	m.placed = append(m.placed, node)
	return m.err
}

func launchOn(files DeviceFiles, table Operations) *launch {
	return &launch{
		Service: New(Options{DeviceFiles: files, Operations: table, Log: slog.New(slog.DiscardHandler)}), user: "kim", pod: "ailab-kim-00000000",
		config: farm.UserConfig{Nodes: []farm.GPUNode{{Name: "FARM5", NumGPU: 2}, {Name: "farm6", NumGPU: 4}}},
		node:   "farm6", ranked: []farm.NodeName{"farm6", "farm5", "farm7"},
	}
}

func TestAssignmentOfALaunch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gives   gives
		table   moving
		option  bool
		node    farm.NodeName
		given   farm.GPUSet
		placed  int
		warns   int
		kind    farm.Kind // empty = no failure
		release bool      // undo takes something back
	}{
		"on the best node":                {gives: gives{place: farm.GPUPlace{Node: "farm6", GPUs: farm.NewGPUSet(1, 2, 3, 5)}}, node: "farm6", given: farm.NewGPUSet(1, 2, 3, 5), release: true},
		"on the next one":                 {gives: gives{place: farm.GPUPlace{Node: "farm5", GPUs: farm.NewGPUSet(0, 1)}}, node: "farm5", given: farm.NewGPUSet(0, 1), placed: 1, release: true},
		"on one for which none is wanted": {gives: gives{place: farm.GPUPlace{Node: "farm7"}}, node: "farm7", placed: 1, release: true},
		"with a warning":                  {gives: gives{place: farm.GPUPlace{Node: "farm6", Warning: "nobody tells"}}, node: "farm6", warns: 1, release: true},
		"not enough":                      {gives: gives{err: fmt.Errorf("x: %w", farm.ErrGPUsTaken)}, node: "farm6", kind: farm.Invalid, release: true},
		"the database is down":            {gives: gives{err: errors.New("down")}, node: "farm6", kind: farm.Internal, release: true},
		"the record was claimed": {gives: gives{place: farm.GPUPlace{Node: "farm5"}}, table: moving{err: farm.ErrNotFound}, node: "farm5", placed: 1,
			kind: farm.Internal, release: true},
		"beside an option nobody is asked": {option: true, node: "farm6"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := launchOn(&tc.gives, &tc.table)
			if tc.option {
				l.gpu = &farm.GPUChoice{}
			}
			err := l.assignGPUs(t.Context())
			told, failed := farm.AsError(err)
			if failed != (tc.kind != "") || failed && (told.Kind != tc.kind || told.Step != farm.StepBuildPodSpec || told.Code != farm.PodSpecBuildFailed) {
				t.Errorf("error %v, want %q", err, tc.kind)
			}
			if l.node != tc.node || l.given != tc.given || len(tc.table.placed) != tc.placed || len(l.warnings) != tc.warns {
				t.Errorf("node %s, given %s, moved %v, warnings %q", l.node, l.given, tc.table.placed, l.warnings)
			}
			if tc.placed > 0 && l.operation.Node != tc.node {
				t.Errorf("the record's node is %s", l.operation.Node)
			}
			want := []farm.GPUWish{{Node: "farm6", Count: 4}, {Node: "farm5", Count: 2}, {Node: "farm7"}}
			if tc.option {
				want = nil
			}
			if diff := cmp.Diff(want, tc.gives.wishes); diff != "" {
				t.Errorf("wishes (-want +got)\n%s", diff)
			}
			if _, err := l.undoGPUs(t.Context()); err != nil || (len(tc.gives.released) > 0) != tc.release {
				t.Errorf("undo: %v, released %v", err, tc.gives.released)
			}
		})
	}
}

// What may still have the GPUs keeps them, and the record tells recovery of it.
func TestAssignmentStaysWhileThePodMay(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*launch){
		"the pod may be there":                               func(l *launch) { l.leftover = true },
		"nobody knows what the record of the migration says": func(l *launch) { l.undecided = true },
	} {
		files := &gives{}
		l := launchOn(files, &moving{})
		l.assigning = true
		set(l)
		if _, err := l.undoGPUs(t.Context()); err != nil || len(files.released) > 0 {
			t.Errorf("%s: %v, released %v", name, err, files.released)
		}
	}
	files := &gives{refuses: errors.New("down")}
	l := launchOn(files, &moving{})
	l.assigning = true
	if _, err := l.undoGPUs(t.Context()); err == nil || !l.leftover {
		t.Errorf("a release that fails: %v, the record stays: %v", err, l.leftover)
	}
}

func TestAssignmentSteps(t *testing.T) {
	t.Parallel()
	names := func(steps []saga.Step) string {
		var all []string
		for _, step := range steps {
			_, part, _ := strings.Cut(step.Name, ":")
			all = append(all, part)
		}
		return strings.Join(all, " ")
	}
	with, without := launchOn(&gives{}, &moving{}), launchOn(nil, &moving{})
	if got := names(without.buildSteps()); got != "account image record ports keytab spec" || without.reservations() != 2 {
		t.Errorf("without: %s", got)
	}
	if got := names(with.buildSteps()); got != "account image record gpus ports keytab spec" || with.reservations() != 3 {
		t.Errorf("with: %s", got)
	}
}

func TestAssignmentRanksAsNodesAreChosen(t *testing.T) {
	t.Parallel()
	l := launchOn(&gives{}, &moving{})
	l.rank([]farm.NodeName{"dark", "slow", "fast", "dim", "even"}, map[farm.NodeName]float64{"slow": 9, "fast": 1, "even": 1})
	if want := []farm.NodeName{"fast", "even", "slow", "dark", "dim"}; !slices.Equal(l.ranked, want) {
		t.Errorf("ranked %v, want %v", l.ranked, want)
	}
	l = launchOn(nil, &moving{})
	l.ranked = nil
	if l.rank([]farm.NodeName{"a"}, nil); l.ranked != nil {
		t.Errorf("ranked %v although nobody assigns", l.ranked)
	}
}

// Recovery takes the GPUs back after the pod, and keeps the record while it cannot.
func TestAssignmentIsRecovered(t *testing.T) {
	t.Parallel()
	for _, refuses := range []error{nil, errors.New("down")} {
		var removed []farm.PodName
		files := &gives{refuses: refuses}
		table := &records{list: []farm.Operation{{ID: "1", Kind: farm.OperationCreate, User: "alice", Pod: "p", Stage: farm.RecordRunning, Instance: "me"}}}
		s := recovering(table, holding{seen{pods: []farm.Pod{runningPod("p", "farm5", 0)}}, &removed}, 0)
		s.DeviceFiles = files
		recovered, err := s.Recover(t.Context())
		if err != nil || len(recovered) != 1 || !slices.Equal(files.released, []farm.PodName{"p"}) || !slices.Equal(removed, []farm.PodName{"p"}) {
			t.Fatalf("recovered %+v, %v, released %v", recovered, err, files.released)
		}
		if left := len(table.list); (left > 0) != (refuses != nil) || (recovered[0].Err != nil) != (refuses != nil) {
			t.Errorf("release fails with %v: %d records left, recovered %+v", refuses, left, recovered[0])
		}
	}
}

// A workspace that is gone is a success, whatever its rows; the record stays for them.
func TestAssignmentOfADeletedWorkspace(t *testing.T) {
	t.Parallel()
	for _, refuses := range []error{nil, errors.New("down")} {
		var removed []farm.PodName
		files := &gives{refuses: refuses}
		table := &beginning{records: &records{}}
		s := recovering(table.records, holding{seen{pods: []farm.Pod{runningPod("ailab-alice-00000000", "farm5", 0)}}, &removed}, 0)
		s.Operations, s.DeviceFiles = table, files
		deleted, err := s.Delete(t.Context(), "ailab-alice-00000000")
		if err != nil || !slices.Equal(files.released, []farm.PodName{"ailab-alice-00000000"}) {
			t.Fatalf("deleted %+v, %v, released %v", deleted, err, files.released)
		}
		if fails := refuses != nil; (len(table.list) > 0) != fails || (len(deleted.Warnings) > 0) != fails {
			t.Errorf("release fails with %v: records %v, warnings %q", refuses, table.list, deleted.Warnings)
		}
	}
}

// beginning is a table to which records are added.
type beginning struct{ *records }

func (b *beginning) Begin(_ context.Context, operation farm.Operation) error {
	b.list = append(b.list, operation)
	return nil
}
