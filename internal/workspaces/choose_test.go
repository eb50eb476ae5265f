package workspaces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"config-server/internal/farm"
)

// seen is a cluster that only shows nodes and pods; any other call is a nil dereference, because
// choosing must not touch anything.
type seen struct {
	Cluster
	nodes []farm.Node
	pods  []farm.Pod
	err   error
}

func (s seen) Nodes(context.Context) ([]farm.Node, error) { return s.nodes, s.err }

func (s seen) PodsOf(context.Context, farm.UserName) ([]farm.Pod, error) { return s.pods, s.err }

// measured answers scores, and chooses as the real one does: lowest first, unscored last.
type measured struct {
	scores map[farm.NodeName]float64
	err    error
	asked  *[]farm.NodeName
}

func (m measured) Scores(_ context.Context, nodes []farm.NodeName) (map[farm.NodeName]float64, error) {
	if m.asked != nil {
		*m.asked = append(*m.asked, nodes...)
	}
	return m.scores, m.err
}

func (measured) Choose(order []farm.NodeName, scores map[farm.NodeName]float64) (farm.NodeName, bool) {
	best, found := farm.NodeName(""), false
	for _, name := range order {
		score, known := scores[name]
		current, currentKnown := scores[best]
		if !found || known && (!currentKnown || score < current) {
			best, found = name, true
		}
	}
	return best, found
}

func runningPod(name, onNode string, age time.Duration, change ...func(*farm.Pod)) farm.Pod {
	pod := farm.Pod{
		Name: farm.PodName(name), UID: name, User: "alice", Node: farm.NodeName(onNode), Guest: true, Phase: "Running",
		CreatedAt: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(-age),
	}
	for _, f := range change {
		f(&pod)
	}
	return pod
}

func TestMigrateChoice(t *testing.T) {
	t.Parallel()
	nodes := []farm.Node{node("farm5"), node("farm6"), node("farm7", "cordoned"), node("farm8", "NotReady"), node("farm9")}
	onFarm5 := []farm.Pod{runningPod("p", "farm5", time.Hour)}
	scores := func(pairs ...any) map[farm.NodeName]float64 {
		m := map[farm.NodeName]float64{}
		for i := 0; i < len(pairs); i += 2 {
			m[farm.NodeName(pairs[i].(string))] = pairs[i+1].(float64)
		}
		return m
	}
	for name, tc := range map[string]struct {
		nodes  []string
		pods   []farm.Pod
		scores map[farm.NodeName]float64
		load   error
		ratio  float64
		want   string
	}{
		"a clearly better node":              {[]string{"farm5", "farm6"}, onFarm5, scores("farm5", 100.0, "farm6", 10.0), nil, 0.2, "p -> farm6"},
		"names in any case":                  {[]string{" FARM5", "Farm6 "}, onFarm5, scores("farm5", 100.0, "farm6", 10.0), nil, 0.2, "p -> farm6"},
		"the best of several":                {[]string{"farm5", "farm6", "farm9"}, onFarm5, scores("farm5", 100.0, "farm6", 30.0, "farm9", 20.0), nil, 0.2, "p -> farm9, farm6"},
		"only those that are better":         {[]string{"farm5", "farm6", "farm9"}, onFarm5, scores("farm5", 100.0, "farm6", 90.0, "farm9", 20.0), nil, 0.2, "p -> farm9"},
		"the first listed on a tie":          {[]string{"farm9", "farm5", "farm6"}, onFarm5, scores("farm5", 100.0, "farm6", 20.0, "farm9", 20.0), nil, 0.2, "p -> farm9, farm6"},
		"better, but not by the ratio":       {[]string{"farm5", "farm6"}, onFarm5, scores("farm5", 100.0, "farm6", 80.0), nil, 0.2, "skipped no_significant_improvement farm5 100 farm6 80"},
		"just better than the ratio":         {[]string{"farm5", "farm6"}, onFarm5, scores("farm5", 100.0, "farm6", 79.9), nil, 0.2, "p -> farm6"},
		"ratio zero wants strictly better":   {[]string{"farm5", "farm6"}, onFarm5, scores("farm5", 50.0, "farm6", 50.0), nil, 0, "skipped no_significant_improvement farm5 50 farm6 50"},
		"an idle node is never left":         {[]string{"farm5", "farm6"}, onFarm5, scores("farm5", 0.0, "farm6", 0.0), nil, 0, "skipped no_significant_improvement farm5 0 farm6 0"},
		"present node without a score":       {[]string{"farm5", "farm6"}, onFarm5, scores("farm6", 10.0), nil, 0.2, "skipped no_significant_improvement farm5 ? farm6 10"},
		"candidate without a score":          {[]string{"farm5", "farm6"}, onFarm5, scores("farm5", 10.0), nil, 0.2, "skipped no_significant_improvement farm5 10 farm6 ?"},
		"Prometheus is down":                 {[]string{"farm5", "farm6"}, onFarm5, nil, errors.New("down"), 0.2, "skipped no_significant_improvement farm5 ? farm6 ?"},
		"only its own node":                  {[]string{"farm5", "FARM5"}, onFarm5, nil, nil, 0.2, "skipped no_candidate_node"},
		"cordoned and NotReady are no goals": {[]string{"farm5", "farm7", "farm8"}, onFarm5, scores("farm5", 100.0, "farm7", 1.0, "farm8", 1.0), nil, 0.2, "skipped no_candidate_node"},
		"unknown node, before the pod":       {[]string{"farm5", "ghost"}, nil, nil, nil, 0.2, "400 unknown kubernetes node: 'ghost'"},
		"no pod":                             {[]string{"farm5"}, nil, nil, nil, 0.2, "404 no running pod"},
		"its node is not listed":             {[]string{"farm6"}, onFarm5, nil, nil, 0.2, "400 current node is not in given nodes list"},
		"the newest running one counts": {[]string{"farm5", "farm6", "farm9"}, []farm.Pod{
			runningPod("old", "farm9", 3*time.Hour), runningPod("new", "farm5", time.Hour), runningPod("older", "farm6", 2*time.Hour),
		}, scores("farm5", 100.0, "farm6", 10.0), nil, 0.2, "new -> farm6"},
		"pending, ended, terminating and foreign ones do not": {[]string{"farm5"}, []farm.Pod{
			runningPod("a", "farm5", 0, func(p *farm.Pod) { p.Phase = "Pending" }),
			runningPod("b", "farm5", 0, func(p *farm.Pod) { p.Phase = "Succeeded" }),
			runningPod("c", "farm5", 0, func(p *farm.Pod) { p.Terminating = true }),
			runningPod("d", "farm5", 0, func(p *farm.Pod) { p.Guest = false }),
			runningPod("e", "farm5", 0, func(p *farm.Pod) { p.User = "bob" }),
		}, nil, nil, 0.2, "404 no running pod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []farm.NodeName
			s := New(Options{
				Cluster: seen{nodes: nodes, pods: tc.pods}, Load: measured{tc.scores, tc.load, &asked}, Log: slog.New(slog.DiscardHandler),
			})
			choice, err := s.choose(t.Context(), "alice", MigrateRequest{User: "alice", Nodes: tc.nodes, Ratio: tc.ratio})
			if got := tellChoice(choice, err); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			counts := map[farm.NodeName]int{}
			for _, name := range asked {
				if counts[name]++; counts[name] > 1 {
					t.Errorf("the score of %s was asked for twice", name)
				}
			}
		})
	}
}

func tellChoice(c choice, err error) string {
	if err != nil {
		e, _ := farm.AsError(err)
		status := map[farm.Kind]int{farm.Invalid: 400, farm.NotFound: 404, farm.Internal: 500}[e.Kind]
		return fmt.Sprintf("%d %s", status, e.Detail)
	}
	if c.skip == nil {
		return fmt.Sprintf("%s -> %s", c.old.Name, strings.Join(strings.Fields(strings.Trim(fmt.Sprint(c.better), "[]")), ", "))
	}
	text := c.skip.Status + " " + c.skip.Reason
	if c.skip.Reason == ReasonNoCandidate {
		return text
	}
	score := func(s *float64) string {
		if s == nil {
			return "?"
		}
		return fmt.Sprint(*s)
	}
	return fmt.Sprintf("%s %s %s %s %s", text, c.skip.CurrentNode, score(c.skip.CurrentScore), c.skip.BestCandidate, score(c.skip.BestScore))
}

func TestMigrateRefusesBeforeItLooks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		request MigrateRequest
		want    string
	}{
		"no user":        {MigrateRequest{Nodes: []string{"a"}}, textMissingInput},
		"no nodes":       {MigrateRequest{User: "alice"}, textMissingInput},
		"ratio one":      {MigrateRequest{User: "alice", Nodes: []string{"a"}, Ratio: 1}, textRatio},
		"ratio negative": {MigrateRequest{User: "alice", Nodes: []string{"a"}, Ratio: -0.1}, textRatio},
		"ratio NaN":      {MigrateRequest{User: "alice", Nodes: []string{"a"}, Ratio: math.NaN()}, textRatio},
		"ratio infinite": {MigrateRequest{User: "alice", Nodes: []string{"a"}, Ratio: math.Inf(1)}, textRatio},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A service without parts: whatever is asked before the refusal panics.
			_, err := New(Options{}).Migrate(t.Context(), tc.request)
			if e, ok := farm.AsError(err); !ok || e.Kind != farm.Invalid || e.Detail != tc.want {
				t.Errorf("error %v", err)
			}
		})
	}
}
