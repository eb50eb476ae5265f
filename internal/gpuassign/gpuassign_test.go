package gpuassign_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/gpuassign"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// surroundings are a farm without a cluster and without Prometheus.
type surroundings struct {
	pods    []farm.Pod
	podsErr error
	told    map[farm.NodeName]map[int]float64
	toldErr error
	asked   atomic.Int32 // how often for the GPUs of nodes
}

func (s *surroundings) KnownPods(context.Context) ([]farm.Pod, error) { return s.pods, s.podsErr }

func (s *surroundings) Devices(context.Context, []farm.NodeName) (map[farm.NodeName]map[int]float64, error) {
	s.asked.Add(1)
	return s.told, s.toldErr
}

// farmOf has nodes with four GPUs each.
func farmOf(nodes ...farm.NodeName) *surroundings {
	s := &surroundings{told: map[farm.NodeName]map[int]float64{}}
	for _, name := range nodes {
		s.told[name] = map[int]float64{0: 0, 1: 0, 2: 0, 3: 0}
	}
	return s
}

func newAssigner(db *database.DB, mode gpuassign.Mode, s *surroundings) *gpuassign.Assigner {
	return gpuassign.New(gpuassign.Options{Mode: mode, DB: db, Pods: s, Devices: s})
}

func owner(user string) farm.PortOwner {
	return farm.PortOwner{User: farm.UserName(user), Pod: farm.PodName("ailab-" + user + "-00000000")}
}

func on(count int, nodes ...farm.NodeName) []farm.GPUWish {
	var wishes []farm.GPUWish
	for _, name := range nodes {
		wishes = append(wishes, farm.GPUWish{Node: name, Count: count})
	}
	return wishes
}

// holders lists the rows as "node index user".
func holders(t *testing.T, a *gpuassign.Assigner) []string {
	t.Helper()
	rows, err := a.Rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := []string{}
	for _, row := range rows {
		if age := time.Since(row.CreatedAt); age < -5*time.Second || age > time.Hour {
			t.Errorf("row of %s is %s old", row.Pod, age)
		}
		all = append(all, fmt.Sprintf("%s %d %s", row.Node, row.Index, row.User))
	}
	return all
}

func wantHolders(t *testing.T, a *gpuassign.Assigner, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), holders(t, a)); diff != "" {
		t.Errorf("rows (-want +got)\n%s", diff)
	}
}

func TestAssignmentIsKeptUntilItIsReleased(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		s := farmOf("a", "b")
		a := newAssigner(place.Open(t), gpuassign.Exclusive, s)
		for _, step := range []struct {
			user, want string
			count      int
		}{{"kim", "a 0,1", 2}, {"lee", "a 2,3", 2}, {"park", "b 0,1", 2}, {"choi", "b 2", 1}, {"none", "a ", 0}} {
			got, err := a.Assign(t.Context(), owner(step.user), on(step.count, "a", "b"))
			if err != nil || fmt.Sprint(got.Node, " ", got.GPUs) != step.want || got.Warning != "" {
				t.Errorf("%s: %+v, %v, want %s", step.user, got, err, step.want)
			}
		}
		if s.asked.Load() != 4 {
			t.Errorf("the GPUs were asked for %d times: once each time that some are wanted", s.asked.Load())
		}
		_, err := a.Assign(t.Context(), owner("han"), on(2, "a", "b"))
		if !errors.Is(err, farm.ErrGPUsTaken) || !strings.Contains(err.Error(), "GPU 2 has ailab-lee-00000000 (lee)") {
			t.Errorf("a full farm: %v", err)
		}
		wantHolders(t, a, "a 0 kim", "a 1 kim", "a 2 lee", "a 3 lee", "b 0 park", "b 1 park", "b 2 choi")

		// The same pod again, as after a commit without an answer: it keeps what it has.
		if again, err := a.Assign(t.Context(), owner("lee"), on(2, "b", "a")); err != nil || again.Node != "a" || again.GPUs != farm.NewGPUSet(2, 3) {
			t.Errorf("again: %+v, %v", again, err)
		}
		for _, want := range []int{2, 0} {
			if n, err := a.Release(t.Context(), owner("kim").Pod); err != nil || n != want {
				t.Errorf("released %d, %v, want %d", n, err, want)
			}
		}
		if got, err := a.Assign(t.Context(), owner("han"), on(2, "a", "b")); err != nil || got.GPUs != farm.NewGPUSet(0, 1) || got.Node != "a" {
			t.Errorf("after a release: %+v, %v", got, err)
		}
	})
}

// TestAssignmentOfTwoReplicasAtOnce has two stores of one database race for the GPUs of a farm: nobody gets
// one that somebody else has, and none is left while somebody is refused.
func TestAssignmentOfTwoReplicasAtOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		const users, each = 14, 2 // 28 wanted, 24 there
		nodes := []farm.NodeName{"a", "b", "c", "d", "e", "f"}
		var replicas []*gpuassign.Assigner
		for range 2 {
			replicas = append(replicas, newAssigner(place.Open(t), gpuassign.Exclusive, farmOf(nodes...)))
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		given, refused := map[string]int{}, 0
		for i := range users {
			all.Go(func() {
				got, err := replicas[i%2].Assign(t.Context(), owner(fmt.Sprintf("u%d", i)), on(each, nodes...))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case errors.Is(err, farm.ErrGPUsTaken):
					refused++
				case err != nil || got.GPUs.Len() != each:
					t.Errorf("%d: %+v, %v", i, got, err)
				}
				for _, index := range got.GPUs.Indexes() {
					given[fmt.Sprint(got.Node, index)]++
				}
			})
		}
		all.Wait()
		if len(given) != 24 || refused != 2 {
			t.Errorf("%d GPUs given, %d refused, want 24 and 2", len(given), refused)
		}
		for gpu, n := range given {
			if n != 1 {
				t.Errorf("GPU %s was given to %d workspaces", gpu, n)
			}
		}
		if rows := holders(t, replicas[0]); len(rows) != 24 {
			t.Errorf("%d rows", len(rows))
		}
	})
}

// TestAssignmentKeys holds what the database itself refuses, whoever writes: two workspaces alone on one GPU,
// and one GPU of a workspace twice. Workspaces that share may.
func TestAssignmentKeys(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		db := place.Open(t)
		write := func(pod string, index int, alone sql.NullInt16) error {
			_, err := db.Exec(t.Context(), "test", "INSERT INTO config_server_gpus (username, pod_name, node_name, gpu_index, alone) VALUES ('u', ?, 'a', ?, ?)", pod, index, alone)
			return err
		}
		alone, shared := sql.NullInt16{Int16: 1, Valid: true}, sql.NullInt16{}
		for _, tc := range []struct {
			pod    string
			index  int
			alone  sql.NullInt16
			refuse bool
		}{
			{"p", 0, alone, false}, {"q", 0, alone, true}, {"q", 1, alone, false}, {"p", 0, shared, true},
			{"p", 2, shared, false}, {"q", 2, shared, false}, {"r", 2, shared, false}, {"Q", 3, alone, false}, {"q", 3, alone, true},
		} {
			if err := write(tc.pod, tc.index, tc.alone); database.IsDuplicate(err) != tc.refuse || !tc.refuse && err != nil {
				t.Errorf("pod %s, GPU %d, alone %v: %v", tc.pod, tc.index, tc.alone.Valid, err)
			}
		}
	})
}

func TestAssignmentSharesTheLeastLoaded(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		a := newAssigner(place.Open(t), gpuassign.LeastLoaded, farmOf("a"))
		for _, user := range []string{"kim", "lee", "park"} {
			if _, err := a.Assign(t.Context(), owner(user), on(2, "a")); err != nil {
				t.Fatal(err)
			}
		}
		wantHolders(t, a, "a 0 kim", "a 0 park", "a 1 kim", "a 1 park", "a 2 lee", "a 3 lee")
	})
}

func TestAssignmentAdoptsAndReleasesRows(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		a := newAssigner(place.Open(t), gpuassign.Exclusive, farmOf("a"))
		if _, err := a.Assign(t.Context(), owner("kim"), on(1, "a")); err != nil {
			t.Fatal(err)
		}
		row := func(user string, index int) farm.GPURow {
			return farm.GPURow{User: farm.UserName(user), Pod: owner(user).Pod, Node: "a", Index: index}
		}
		// One that is there, one that two have already, and two that are new.
		for _, want := range []int{3, 0} {
			n, err := a.Adopt(t.Context(), []farm.GPURow{row("kim", 0), row("lee", 0), row("lee", 1), row("park", 3)})
			if err != nil || n != want {
				t.Errorf("adopted %d, %v, want %d", n, err, want)
			}
		}
		wantHolders(t, a, "a 0 kim", "a 0 lee", "a 1 lee", "a 3 park")
		if got, err := a.Assign(t.Context(), owner("choi"), on(1, "a")); err != nil || got.GPUs != farm.NewGPUSet(2) {
			t.Errorf("%+v, %v: only GPU 2 is free", got, err)
		}

		rows, err := a.Rows(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lees := slices.DeleteFunc(slices.Clone(rows), func(r farm.GPURow) bool { return r.User != "lee" })
		changed := lees[0]
		changed.Pod = "ailab-other-00000000"
		if n, err := a.ReleaseRows(t.Context(), []farm.GPURow{changed, lees[1]}); err != nil || n != 1 {
			t.Errorf("released %d, %v, want the one that still is as it was read", n, err)
		}
		wantHolders(t, a, "a 0 kim", "a 0 lee", "a 2 choi", "a 3 park")
	})
}

func TestAssignmentWithoutMetricsOrPods(t *testing.T) {
	t.Parallel()
	place := databasetest.SQLite(t)
	blind := &surroundings{toldErr: errors.New("Prometheus is down")}
	a := newAssigner(place.Open(t), gpuassign.Exclusive, blind)
	got, err := a.Assign(t.Context(), owner("kim"), on(2, "a"))
	if err != nil || got.GPUs != farm.NewGPUSet(0, 1) || !strings.Contains(got.Warning, "nobody tells which GPUs a has") {
		t.Errorf("without metrics: %+v, %v", got, err)
	}
	if _, err := a.Assign(t.Context(), owner("lee"), on(1, "a")); !errors.Is(err, farm.ErrGPUsTaken) {
		t.Errorf("GPUs that nobody tells of are guessed: %v", err)
	}
	// What runs has to be known: a GPU that somebody has must not be given away.
	blind.podsErr = errors.New("the API server is down")
	if _, err := a.Assign(t.Context(), owner("lee"), on(1, "b")); !errors.Is(err, blind.podsErr) {
		t.Errorf("without pods: %v", err)
	}
	wantHolders(t, a, "a 0 kim", "a 1 kim")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Assign(ctx, owner("lee"), on(1, "b")); err == nil {
		t.Error("a call that was given up went on")
	}
}

func TestAssignmentCensus(t *testing.T) {
	t.Parallel()
	s := farmOf("a", "b")
	s.pods = []farm.Pod{
		{Name: "ailab-old-00000000", User: "old", Node: "a", Phase: "Running", GPUIndexes: farm.NewGPUSet(3)},
		{Name: "ailab-dark-00000000", User: "dark", Node: "c", Phase: "Running", GPUIndexes: farm.NewGPUSet(0, 1)},
	}
	a := newAssigner(databasetest.SQLite(t).Open(t), gpuassign.Exclusive, s)
	if _, err := a.Assign(t.Context(), owner("kim"), on(2, "a")); err != nil {
		t.Fatal(err)
	}
	got, err := a.Census(t.Context(), []farm.NodeName{"a", "b", "c", "d"})
	if diff := cmp.Diff([]farm.GPUFill{{Node: "a", Used: 3, Free: 1}, {Node: "b", Used: 0, Free: 4}, {Node: "c", Used: 2, Free: -1}}, got); diff != "" || err != nil {
		t.Errorf("census, error %v (-want +got)\n%s", err, diff)
	}
	s.podsErr = errors.New("down")
	if _, err := a.Census(t.Context(), nil); !errors.Is(err, s.podsErr) {
		t.Errorf("without pods: %v", err)
	}
}
