package workspaces

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/selfvolumes"
)

// lying is where the service's own volumes are found.
type lying struct {
	set *selfvolumes.Set
	err error
}

func (l lying) Find(context.Context) (*selfvolumes.Set, error) { return l.set, l.err }

// onFarm6 holds workspaces on the service's node.
var onFarm6 = &selfvolumes.Set{Node: "farm6", Bound: "/home is on claim homes, which is not ReadWriteMany"}

func TestStorageCandidates(t *testing.T) {
	t.Parallel()
	cluster := []farm.Node{node("farm5"), node("farm6"), node("farm7", "cordoned")}
	const why = "/home is on claim homes, which is not ReadWriteMany: workspaces have to run on farm6, as config-server does"
	for name, tc := range map[string]struct {
		homes   Homes
		entries []string
		blind   bool
		want    []farm.NodeName
		says    []string // of the refusal
	}{
		"without HOME_VOLUME=self":                {homes: nil, want: []farm.NodeName{"farm5", "farm6"}},
		"a volume that every node reaches":        {homes: lying{set: &selfvolumes.Set{Node: "farm6"}}, want: []farm.NodeName{"farm5", "farm6"}},
		"bound":                                   {homes: lying{set: onFarm6}, want: []farm.NodeName{"farm6"}},
		"bound, among the user's nodes":           {homes: lying{set: onFarm6}, entries: []string{"farm5", "FARM6"}, want: []farm.NodeName{"farm6"}},
		"bound, not among the user's nodes":       {homes: lying{set: onFarm6}, entries: []string{"farm5", "farm7"}, says: []string{"no suitable node", "farm5: " + why, "farm7: cordoned"}},
		"bound to a node that is cordoned":        {homes: lying{set: &selfvolumes.Set{Node: "farm7", Bound: "why"}}, says: []string{"farm5: why", "farm7: cordoned"}},
		"nodes may not be read":                   {homes: lying{set: onFarm6}, entries: []string{"farm5", "Farm6", "farm6"}, blind: true, want: []farm.NodeName{"farm6"}},
		"nodes may not be read, and none fits":    {homes: lying{set: onFarm6}, entries: []string{"farm5"}, blind: true, says: []string{"no suitable node", "farm5: " + why}},
		"nodes may not be read, nothing is bound": {homes: nil, entries: []string{"farm5", "Farm6"}, blind: true, want: []farm.NodeName{"farm5", "farm6"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &launch{Service: New(Options{Homes: tc.homes, Log: slog.New(slog.DiscardHandler)}), user: "kim", blind: tc.blind}
			for _, name := range tc.entries {
				l.config.Nodes = append(l.config.Nodes, farm.GPUNode{Name: farm.NodeName(name)})
			}
			if err := l.findHomes(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := l.candidates(cluster)
			for _, text := range tc.says {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("error %v does not say %q", err, text)
				}
			}
			if len(tc.says) == 0 && err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("candidates (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStorageThatIsNotKnown(t *testing.T) {
	t.Parallel()
	down := errors.New("the API server is down")
	l := &launch{Service: New(Options{Homes: lying{err: down}, Log: slog.New(slog.DiscardHandler)}), user: "kim"}
	told, ok := farm.AsError(l.findHomes(t.Context()))
	if !ok || told.Kind != farm.Internal || told.Step != farm.StepBuildPodSpec || told.Code != farm.PodSpecBuildFailed || told.Detail != down.Error() {
		t.Errorf("create-pod: %+v", told)
	}
	s := New(Options{
		Cluster: seen{nodes: []farm.Node{node("farm5"), node("farm6")}, pods: []farm.Pod{runningPod("p", "farm5", time.Hour)}},
		Homes:   lying{err: down}, Log: slog.New(slog.DiscardHandler),
	})
	_, err := s.choose(t.Context(), "alice", MigrateRequest{User: "alice", Nodes: []string{"farm5", "farm6"}})
	if told, ok := farm.AsError(err); !ok || told.Kind != farm.Internal || told.Reason != down.Error() {
		t.Errorf("migrate: %v", err)
	}
}

// A migration goes where the volumes are to be had, and nowhere else.
func TestStorageMigrateChoice(t *testing.T) {
	t.Parallel()
	nodes := []farm.Node{node("farm5"), node("farm6"), node("farm7")}
	scores := map[farm.NodeName]float64{"farm5": 100, "farm6": 50, "farm7": 10}
	for name, tc := range map[string]struct {
		homes Homes
		on    string
		want  string
	}{
		"a volume that every node reaches": {lying{set: &selfvolumes.Set{Node: "farm6"}}, "farm5", "p -> farm7, farm6"},
		"bound, and it is there":           {lying{set: onFarm6}, "farm6", "skipped no_candidate_node"},
		"bound, and it is elsewhere":       {lying{set: onFarm6}, "farm5", "p -> farm6"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Options{
				Cluster: seen{nodes: nodes, pods: []farm.Pod{runningPod("p", tc.on, time.Hour)}}, Load: measured{scores: scores},
				Homes: tc.homes, Log: slog.New(slog.DiscardHandler),
			})
			choice, err := s.choose(t.Context(), "alice", MigrateRequest{User: "alice", Nodes: []string{"farm5", "farm6", "farm7"}, Ratio: 0.2})
			if got := tellChoice(choice, err); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if choice.skip == nil && choice.self != tc.homes.(lying).set {
				t.Error("the new workspace would have no homes")
			}
		})
	}
}
