package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/audit"
	"config-server/internal/farm"
	"config-server/internal/httpapi"
	"config-server/internal/obs"
	"config-server/internal/overview"
)

var lookedAt = time.Date(2026, 11, 30, 8, 15, 0, 0, time.UTC)

func TestOverview(t *testing.T) {
	t.Parallel()
	score := 11.3765625
	cases := map[string]struct {
		path string
		make func(*fakeOverview)
		want string
	}{
		"workspaces": {"/workspaces", func(f *fakeOverview) {
			f.workspaces = func(context.Context) ([]overview.Workspace, error) {
				return []overview.Workspace{
					{
						User: "kim", Pod: "ailab-kim-00000001", Node: "farm6", Stage: "ready", Phase: "Running", Ready: true, CreatedAt: lookedAt, GPUs: 2,
						Ports: []farm.Port{{Internal: 22, External: 30000, Purpose: "<img onerror=1>"}},
					},
					{User: "lee", Pod: "ailab-lee-00000001", Stage: "waiting_ready", Phase: "Terminating", CreatedAt: lookedAt, GPUOption: "gpu-l40s"},
				}, nil
			}
		}, `{"workspaces":[
			{"username":"kim","pod_name":"ailab-kim-00000001","node":"farm6","stage":"ready","phase":"Running","ready":true,"created_at":"2026-11-30T08:15:00Z",
			 "ports":[{"internal_port":22,"node_port":30000,"purpose":"<img onerror=1>"}],"gpus":2},
			{"username":"lee","pod_name":"ailab-lee-00000001","node":"","stage":"waiting_ready","phase":"Terminating","ready":false,"created_at":"2026-11-30T08:15:00Z",
			 "ports":[],"gpus":0,"gpu_option":"gpu-l40s"}]}`},
		"no workspaces": {"/workspaces", func(*fakeOverview) {}, `{"workspaces":[]}`},
		"nodes": {"/nodes", func(f *fakeOverview) {
			f.nodes = func(context.Context) (overview.Nodes, error) {
				return overview.Nodes{
					Nodes:     []overview.Node{{Name: "farm6", Ready: true, Schedulable: true, Score: &score, Workspaces: 3}, {Name: "farm8"}},
					NodePorts: &overview.NodePorts{All: overview.Fill{Used: 6, Free: 2762}, Reachable: overview.Fill{Used: 6, Free: 92}},
					GPUs:      []farm.GPUCount{{Resource: "nvidia.com/gpu", Model: "NVIDIA-L40S", GPURoom: farm.GPURoom{Free: 3, Total: 8}}},
				}, nil
			}
		}, `{"nodes":[{"name":"farm6","ready":true,"schedulable":true,"score":11.3765625,"workspaces":3},
			{"name":"farm8","ready":false,"schedulable":false,"score":null,"workspaces":0}],
			"nodeports":{"all":{"used":6,"free":2762},"reachable":{"used":6,"free":92}},
			"gpus":[{"resource":"nvidia.com/gpu","model":"NVIDIA-L40S","used":5,"free":3}]}`},
		"nodes without what can be spared": {"/nodes", func(f *fakeOverview) {
			f.nodes = func(context.Context) (overview.Nodes, error) { return overview.Nodes{Warnings: []string{"w"}}, nil }
		}, `{"nodes":[],"nodeports":null,"gpus":[],"warnings":["w"]}`},
		"findings": {"/findings", func(f *fakeOverview) {
			f.findings = func(context.Context) (audit.Outcome, error) {
				return audit.Outcome{
					CheckedAt: lookedAt, Error: "e", Counts: map[audit.Kind]int{audit.NoHome: 1002, audit.Unreadable: 1},
					Findings: []audit.Finding{{Kind: audit.NoHome, Object: "lee", User: "lee", Detail: "d", Remedy: "r"}, {Kind: audit.Unreadable, Object: "rows"}},
				}, nil
			}
		}, `{"checked_at":"2026-11-30T08:15:00Z","total":1003,"findings":[{"kind":"no-home","object":"lee","user":"lee","detail":"d","remedy":"r"},
			{"kind":"unreadable","object":"rows","detail":"","remedy":""}],"error":"e"}`},
		"no audit yet": {"/findings", func(*fakeOverview) {}, `{"checked_at":null,"total":0,"findings":[]}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService()
			c.make(s.look)
			got := s.described(t, "GET", c.path, "")
			if diff := cmp.Diff(object(t, c.want), got.object(t)); got.Status != 200 || diff != "" {
				t.Errorf("status %d (-want +got):\n%s", got.Status, diff)
			}
		})
	}
}

// What cannot be looked at is no empty list, and the reason is told.
func TestOverviewOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	down := errors.New("read the pods: connection refused")
	s := newService(func(_ *httpapi.Options, s *service) {
		s.look.workspaces = func(context.Context) ([]overview.Workspace, error) { return nil, down }
		s.look.nodes = func(context.Context) (overview.Nodes, error) { return overview.Nodes{}, down }
		s.look.findings = func(context.Context) (audit.Outcome, error) { return audit.Outcome{}, down }
	})
	for _, path := range []string{"/workspaces", "/nodes", "/findings"} {
		got := s.described(t, "GET", path, "")
		if diff := cmp.Diff(object(t, `{"error":"read the pods: connection refused"}`), got.object(t)); got.Status != 503 || diff != "" {
			t.Errorf("%s: status %d (-want +got):\n%s", path, got.Status, diff)
		}
		if got.Header.Get("ETag") != "" {
			t.Errorf("%s: a failure has an ETag", path)
		}
	}
}

func TestOverviewIsToldOncePerState(t *testing.T) {
	t.Parallel()
	nodes := overview.Nodes{Nodes: []overview.Node{{Name: "farm6"}}}
	s := newService(func(_ *httpapi.Options, s *service) {
		s.look.nodes = func(context.Context) (overview.Nodes, error) { return nodes, nil }
	})
	first := s.call("GET", "/nodes", "")
	again := newRequest("GET", "/nodes", "")
	again.Header.Set("If-None-Match", first.Header.Get("ETag"))
	if got := s.send(again); got.Status != http.StatusNotModified || got.Text != "" {
		t.Errorf("the same: %d %q", got.Status, got.Text)
	}
	nodes = overview.Nodes{Nodes: []overview.Node{{Name: "farm6", Ready: true}}}
	if got := s.send(again); got.Status != 200 || got.Header.Get("ETag") == first.Header.Get("ETag") {
		t.Errorf("another: %d %v", got.Status, got.Header)
	}
}

func TestOverviewIsBounded(t *testing.T) {
	t.Parallel()
	bounded := func(ctx context.Context) bool {
		until, limited := ctx.Deadline()
		return limited && time.Until(until) <= 10*time.Second
	}
	s := newService(func(_ *httpapi.Options, s *service) {
		s.look.workspaces = func(ctx context.Context) ([]overview.Workspace, error) {
			if !bounded(ctx) {
				t.Error("a look may wait for long")
			}
			return nil, nil
		}
	})
	if got := s.call("GET", "/workspaces", ""); got.Status != 200 {
		t.Errorf("status %d", got.Status)
	}
}

// An open page must not fill the log: only what goes wrong is told.
func TestOverviewInTheLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := newService(func(opts *httpapi.Options, s *service) {
		opts.Log = obs.NewLogger(&log, slog.LevelInfo)
		s.look.nodes = func(context.Context) (overview.Nodes, error) { return overview.Nodes{}, errors.New("down") }
	})
	for _, path := range []string{"/workspaces", "/operations", "/findings"} {
		s.call("GET", path, "")
	}
	if log.Len() > 0 {
		t.Errorf("the log has %s", log.String())
	}
	s.call("GET", "/nodes", "")
	if !strings.Contains(log.String(), `"path":"/nodes","status":503`) {
		t.Errorf("the log has %q", log.String())
	}
}
