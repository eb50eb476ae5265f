package httpapi_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/httpapi"
	"config-server/internal/workspaces"
)

func TestMigrateRequest(t *testing.T) {
	t.Parallel()
	const missing = `{"error":"username and nodes(list) are required"}`
	const ratio = `{"error":"min_improvement_ratio must be a number in [0,1)"}`
	const skipped = `{"status":"skipped","reason":"no_candidate_node"}`
	runExchanges(t, []exchange{
		{"whole", "POST", "/migrate", `{"username":"u","nodes":["FARM6"],"min_improvement_ratio":0.5}`, 200, skipped},
		{"no nodes", "POST", "/migrate", `{"username":"u"}`, 400, missing},
		{"no username", "POST", "/migrate", `{"nodes":["farm5"]}`, 400, missing},
		{"username empty", "POST", "/migrate", `{"username":"","nodes":["farm5"]}`, 400, missing},
		{"username a number", "POST", "/migrate", `{"username":1,"nodes":["farm5"]}`, 400, missing},
		{"nodes a text", "POST", "/migrate", `{"username":"u","nodes":"farm5"}`, 400, missing},
		{"nodes empty", "POST", "/migrate", `{"username":"u","nodes":[]}`, 400, missing},
		{"nodes with null", "POST", "/migrate", `{"username":"u","nodes":["farm5",null]}`, 400, missing},
		{"nodes with a number", "POST", "/migrate", `{"username":"u","nodes":[5]}`, 400, missing},
		{"ratio one", "POST", "/migrate", `{"username":"u","nodes":["farm5"],"min_improvement_ratio":1}`, 400, ratio},
		{"ratio negative", "POST", "/migrate", `{"username":"u","nodes":["farm5"],"min_improvement_ratio":-0.1}`, 400, ratio},
		{"ratio a text", "POST", "/migrate", `{"username":"u","nodes":["farm5"],"min_improvement_ratio":"0.2"}`, 400, ratio},
		{"ratio a bool", "POST", "/migrate", `{"username":"u","nodes":["farm5"],"min_improvement_ratio":true}`, 400, ratio},
		{"ratio beyond all numbers", "POST", "/migrate", `{"username":"u","nodes":["farm5"],"min_improvement_ratio":1e999}`, 400, ratio},
	})
}

func TestMigrateRatioReachesTheUseCase(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, member string
		want         float64
	}{
		{"left out", "", 0.2},
		{"null", `,"min_improvement_ratio":null`, 0.2},
		{"zero", `,"min_improvement_ratio":0`, 0},
		{"given", `,"min_improvement_ratio":0.75`, 0.75},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got workspaces.MigrateRequest
			s := newService(func(_ *httpapi.Options, s *service) {
				s.pods.migrate = func(_ context.Context, req workspaces.MigrateRequest) (workspaces.Migrated, error) {
					got = req
					return workspaces.Migrated{Status: workspaces.StatusSkipped, Reason: workspaces.ReasonNoCandidate}, nil
				}
			})
			s.described(t, "POST", "/migrate", `{"username":"u","nodes":["a","B"]`+c.member+`}`)
			if diff := cmp.Diff(workspaces.MigrateRequest{User: "u", Nodes: []string{"a", "B"}, Ratio: c.want}, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMigrateOutcomes(t *testing.T) {
	t.Parallel()
	low, high, inf, nan := 11.3765625, 58.4125, math.Inf(1), math.NaN()
	noGain := func(current, best *float64) workspaces.Migrated {
		return workspaces.Migrated{Status: workspaces.StatusSkipped, Reason: workspaces.ReasonNoSignificantImprovement,
			CurrentNode: "farm6", CurrentScore: current, BestCandidate: "farm7", BestScore: best}
	}
	cases := []struct {
		name    string
		outcome workspaces.Migrated
		err     error
		status  int
		want    string
	}{
		{name: "moved", outcome: workspaces.Migrated{Status: workspaces.StatusMigrated, From: "farm5", To: "farm6",
			NewPod: "ailab-u-01020304", Ports: twoPorts(), Warnings: []string{"old pod stays"}}, status: 200,
			want: `{"status":"migrated","from":"farm5","to":"farm6","new_pod":"ailab-u-01020304","warnings":["old pod stays"],"ports":[
				{"internal_port":22,"external_port":30000,"usage_purpose":"ssh"},{"internal_port":8888,"external_port":30001,"usage_purpose":"jupyter"}]}`},
		{name: "not better", outcome: noGain(&low, &high), status: 200, want: `{"status":"skipped","reason":"no_significant_improvement",
			"current_node":"farm6","current_score":11.3765625,"best_candidate":"farm7","best_score":58.4125}`},
		{name: "unknown scores are null", outcome: noGain(nil, nil), status: 200, want: `{"status":"skipped","reason":"no_significant_improvement",
			"current_node":"farm6","current_score":null,"best_candidate":"farm7","best_score":null}`},
		{name: "JSON has no infinity and no NaN", outcome: noGain(&inf, &nan), status: 200, want: `{"status":"skipped","reason":"no_significant_improvement",
			"current_node":"farm6","current_score":null,"best_candidate":"farm7","best_score":null}`},
		{name: "no pod", err: farm.Errorf(farm.NotFound, "no running pod"), status: 404, want: `{"error":"no running pod"}`},
		{name: "not saved", err: farm.Errorf(farm.Internal, "image_commit_failed"), status: 500, want: `{"error":"image_commit_failed"}`},
		{name: "unforeseen", err: errors.New("internals"), status: 500, want: `{"error":"internal error (request id r-1)"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(func(_ *httpapi.Options, s *service) {
				s.pods.migrate = func(context.Context, workspaces.MigrateRequest) (workspaces.Migrated, error) { return c.outcome, c.err }
			})
			req := newRequest("POST", "/migrate", `{"username":"u","nodes":["farm5"]}`)
			req.Header.Set("X-Request-Id", "r-1")
			got := s.send(req)
			got.fits(t, "POST", "/migrate")
			if got.Status != c.status {
				t.Errorf("status is %d, want %d", got.Status, c.status)
			}
			if diff := cmp.Diff(object(t, c.want), got.object(t)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}
