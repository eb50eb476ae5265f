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
)

// keeps keeps farm5 and farm6 from a user, or fails.
type keeps struct {
	from farm.UserName
	err  error
}

func (k keeps) KeptFrom(_ context.Context, user farm.UserName) (Kept, error) {
	if user != k.from {
		return Kept{}, k.err
	}
	return Kept{Reasons: map[farm.NodeName]string{"farm5": "kept for project vision", "farm6": "kept for project vision"}}, k.err
}

func TestCheckIsolationCandidates(t *testing.T) {
	t.Parallel()
	nodes := []farm.Node{node("farm5"), node("farm6"), node("farm7")}
	for name, tc := range map[string]struct {
		user   farm.UserName
		wanted []farm.GPUNode
		blind  bool
		want   []farm.NodeName
		says   string
	}{
		"a member":                      {"alice", nil, false, []farm.NodeName{"farm5", "farm6", "farm7"}, ""},
		"somebody else":                 {"bob", nil, false, []farm.NodeName{"farm7"}, ""},
		"somebody who may use no other": {"bob", []farm.GPUNode{{Name: "farm5"}}, false, nil, "farm5: kept for project vision"},
		"where nodes may not be read":   {"bob", []farm.GPUNode{{Name: "FARM5"}, {Name: "farm7"}}, true, []farm.NodeName{"farm7"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &launch{Service: New(Options{Teams: keeps{from: "bob"}, Log: slog.New(slog.DiscardHandler)}), user: tc.user, blind: tc.blind, config: farm.UserConfig{Nodes: tc.wanted}}
			var err error
			if l.kept, err = l.keptFrom(t.Context(), tc.user); err != nil {
				t.Fatal(err)
			}
			got, err := l.candidates(nodes)
			if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
	if kept, err := New(Options{}).keptFrom(t.Context(), "bob"); err != nil || len(kept.Reasons)+len(kept.Tolerations) > 0 {
		t.Errorf("switched off: %+v, %v", kept, err)
	}
}

func TestCheckIsolationMigrateChoice(t *testing.T) {
	t.Parallel()
	scores := map[farm.NodeName]float64{"farm5": 10, "farm6": 20, "farm7": 100}
	down := errors.New("read projects: timed out")
	for name, tc := range map[string]struct {
		teams Teams
		want  string
	}{
		"a member":        {keeps{from: "bob"}, "p -> farm5, farm6"},
		"somebody else":   {keeps{from: "alice"}, "skipped no_candidate_node"},
		"switched off":    {nil, "p -> farm5, farm6"},
		"not to be known": {keeps{err: down}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Options{
				Cluster: seen{nodes: []farm.Node{node("farm5"), node("farm6"), node("farm7")}, pods: []farm.Pod{runningPod("p", "farm7", time.Hour)}},
				Load:    measured{scores: scores}, Teams: tc.teams, Log: slog.New(slog.DiscardHandler),
			})
			choice, err := s.choose(t.Context(), "alice", MigrateRequest{User: "alice", Nodes: []string{"farm5", "farm6", "farm7"}, Ratio: 0.2})
			if tc.want == "" {
				if told, ok := farm.AsError(err); !ok || told.Kind != farm.Internal || told.Reason != down.Error() {
					t.Errorf("error %v", err)
				}
				return
			}
			if got := tellChoice(choice, err); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
