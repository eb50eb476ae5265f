package workspaces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"config-server/internal/farm"
)

// records is the table of operations. onList, if set, is called after each reading.
type records struct {
	Operations
	list   []farm.Operation
	me     string
	onList func(r *records)
	err    error
}

func (r *records) List(context.Context) ([]farm.Operation, error) {
	seen := slices.Clone(r.list)
	if r.onList != nil {
		r.onList(r)
	}
	return seen, r.err
}

func (r *records) Claim(_ context.Context, id, from string) (bool, error) {
	for i := range r.list {
		if r.list[i].ID == id && r.list[i].Instance == from {
			r.list[i].Instance = r.me
			return true, nil
		}
	}
	return false, nil
}

func (r *records) End(_ context.Context, id string) error {
	r.list = slices.DeleteFunc(r.list, func(o farm.Operation) bool { return o.ID == id })
	return nil
}

// holding is a cluster from which pods can be removed.
type holding struct {
	seen
	removed *[]farm.PodName
}

func (h holding) PodsOf(context.Context, farm.UserName) ([]farm.Pod, error) {
	return slices.DeleteFunc(slices.Clone(h.pods), func(p farm.Pod) bool { return slices.Contains(*h.removed, p.Name) }), h.err
}

func (h holding) Pod(_ context.Context, name farm.PodName) (farm.Pod, bool, error) {
	at := slices.IndexFunc(h.pods, func(p farm.Pod) bool { return p.Name == name })
	if at < 0 || slices.Contains(*h.removed, name) {
		return farm.Pod{}, false, h.err
	}
	return h.pods[at], true, h.err
}

func (h holding) DeleteServicesOf(context.Context, farm.PodName) (int, error) { return 0, nil }

func (h holding) DeletePod(_ context.Context, name farm.PodName, _ string) (bool, error) {
	*h.removed = append(*h.removed, name)
	return true, nil
}

func (h holding) WaitGone(context.Context, farm.PodName, string, time.Duration) error { return nil }

type noPorts struct{ Ports }

func (noPorts) Release(context.Context, farm.PodName) (int, error) { return 0, nil }

type noKerberos struct{ Kerberos }

func (noKerberos) Enabled() bool { return false }

// freeLocks are held by nobody, so every other instance is gone, save for the first contended looks:
// then another recovery is looking too.
type freeLocks struct{ contended *int }

type freeLock struct{}

func (freeLock) Unlock()    {}
func (freeLock) Err() error { return nil }

func (freeLocks) Lock(context.Context, string) (farm.Lock, error) { return freeLock{}, nil }
func (f freeLocks) TryLock(context.Context, string) (farm.Lock, bool, error) {
	*f.contended--
	if *f.contended >= 0 {
		return nil, false, nil
	}
	return freeLock{}, true, nil
}

func recovering(table *records, cluster Cluster, contended int) *Service {
	table.me = "me"
	return New(Options{
		Cluster: cluster, Load: measured{}, Ports: noPorts{}, Kerberos: noKerberos{}, Locks: freeLocks{&contended}, Operations: table,
		Log: slog.New(slog.DiscardHandler), Instance: table.me, Budget: time.Minute,
	})
}

// A create that runs while the records are listed ends before its record is looked at: its
// workspace was answered to somebody and must stay.
func TestRecoverLeavesAnOperationThatEndedMeanwhile(t *testing.T) {
	t.Parallel()
	var removed []farm.PodName
	table := &records{list: []farm.Operation{{ID: "1", Kind: farm.OperationCreate, User: "alice", Pod: "p", Stage: farm.RecordRunning, Instance: "me"}}}
	table.onList = func(r *records) { r.list, r.onList = nil, nil }
	s := recovering(table, holding{seen{pods: []farm.Pod{runningPod("p", "farm5", time.Minute)}}, &removed}, 0)
	recovered, err := s.Recover(t.Context())
	if err != nil || len(recovered) > 0 || len(removed) > 0 {
		t.Errorf("recovered %v, removed %v, error %v; want nothing done", recovered, removed, err)
	}
}

// The new pod of a migration that was cut off is younger than the workspace and runs too. A call
// that comes before recovery must not take it for the workspace.
func TestMigrateAndDeleteSettleWhatIsLeftOfTheUser(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stage   string
		removed string
		listErr error
		call    func(ctx context.Context, s *Service) (any, error)
		want    string // what the call says
	}{
		"migrate after one that had not touched the old pod": {farm.RecordRunning, "[new]", nil, migrateTo("farm5"), "no_candidate_node"},
		"migrate after one that had":                         {farm.RecordOldPodTouched, "[old]", nil, migrateTo("farm6"), "no_candidate_node"},
		"delete of the new pod after its migration":          {farm.RecordOldPodTouched, "[old new]", nil, deletePod("new"), "new"},
		"delete of the old pod after its migration":          {farm.RecordOldPodTouched, "[old]", nil, deletePod("old"), "old"},
		"records that cannot be read: nothing is moved":      {farm.RecordRunning, "[]", errors.New("down"), migrateTo("farm5", "farm6"), textMigrateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			removed := []farm.PodName{}
			table := &records{err: tc.listErr, list: []farm.Operation{{
				ID: "1", Kind: farm.OperationMigrate, User: "alice", Pod: "ailab-alice-new", OldPod: "ailab-alice-old", Stage: tc.stage, Instance: "dead",
			}}}
			cluster := holding{seen{
				nodes: []farm.Node{node("farm5"), node("farm6")},
				pods:  []farm.Pod{runningPod("ailab-alice-old", "farm5", time.Hour), runningPod("ailab-alice-new", "farm6", time.Minute)},
			}, &removed}
			s := recovering(table, cluster, 3)
			s.Load = measured{scores: map[farm.NodeName]float64{"farm5": 1, "farm6": 80}}
			s.Operations = ending{table}
			answer, err := tc.call(t.Context(), s)
			if got := strings.ReplaceAll(fmt.Sprint(removed), "ailab-alice-", ""); got != tc.removed {
				t.Errorf("removed %s, want %s", got, tc.removed)
			}
			if text := fmt.Sprintf("%+v %v", answer, err); !strings.Contains(text, tc.want) {
				t.Errorf("answer %s, want %s", text, tc.want)
			}
			if tc.listErr == nil && len(table.list) > 0 {
				t.Errorf("records left: %v", table.list)
			}
		})
	}
}

// ending takes records of new operations without keeping them.
type ending struct{ *records }

func (ending) Begin(context.Context, farm.Operation) error { return nil }

func migrateTo(nodes ...string) func(context.Context, *Service) (any, error) {
	return func(ctx context.Context, s *Service) (any, error) {
		return s.Migrate(ctx, MigrateRequest{User: "alice", Nodes: nodes, Ratio: 0.2})
	}
}

func deletePod(which string) func(context.Context, *Service) (any, error) {
	return func(ctx context.Context, s *Service) (any, error) { return s.Delete(ctx, "ailab-alice-"+which) }
}
