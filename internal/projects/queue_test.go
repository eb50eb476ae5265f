package projects_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/projects"
)

func TestCheckReadsQueues(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		object string
		want   projects.Cueue
		fault  bool
	}{
		"new": {`{"metadata":{"name":"vision","generation":1}}`, projects.Cueue{Name: "vision", Generation: 1, Priority: 1}, false},
		"a priority of zero is one": {`{"metadata":{"name":"vision"},"spec":{"priority":0,"policy":"FirstScheduling"}}`,
			projects.Cueue{Name: "vision", Priority: 0, Policy: "FirstScheduling"}, false},
		"the order of the spec, the times of the status": {
			`{"metadata":{"name":"vision","generation":3},
			"spec":{"priority":7,"policy":"FirstAllocating","pods":[{"name":"b","namespace":"vision","uid":"2"},{"name":"a","namespace":"vision","uid":"1"},{"name":"c","namespace":"vision","uid":"3"}]},
			"status":{"observedGeneration":2,"nodes":["farm5","farm6"],
			"pods":[{"name":"a","namespace":"vision","uid":"1","enqueueTime":"2026-11-30T12:00:00Z"},{"name":"b","namespace":"vision","uid":"2","enqueueTime":"2026-11-30T12:01:00Z"},{"name":"gone","uid":"9","enqueueTime":"2026-11-30T12:00:00Z"}]}}`,
			projects.Cueue{Name: "vision", Generation: 3, ObservedGeneration: 2, Priority: 7, Policy: "FirstAllocating", Nodes: []string{"farm5", "farm6"}, Waiting: []projects.Waiting{
				{Name: "b", Namespace: "vision", UID: "2", Since: noon.Add(time.Minute)}, {Name: "a", Namespace: "vision", UID: "1", Since: noon}, {Name: "c", Namespace: "vision", UID: "3"},
			}}, false,
		},
		"a pod of the same name that is another": {
			`{"spec":{"pods":[{"name":"a","namespace":"vision","uid":"2"}]},"status":{"pods":[{"name":"a","namespace":"vision","uid":"1","enqueueTime":"2026-11-30T12:00:00Z"}]}}`,
			projects.Cueue{Priority: 1, Waiting: []projects.Waiting{{Name: "a", Namespace: "vision", UID: "2"}}}, false,
		},
		"what blocks it": {
			`{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"HeadBlocked","status":"True","reason":"Unschedulable","message":"0/2 nodes","lastTransitionTime":"2026-11-30T12:00:00Z"},
			{"type":"BlockedByHigherCueue","status":"False","reason":"None"}]}}`,
			projects.Cueue{Priority: 1, Blocks: []projects.Block{{Type: projects.HeadBlocked, Reason: "Unschedulable", Message: "0/2 nodes", Since: noon}}}, false,
		},
		"nodes as objects":        {`{"status":{"nodes":[{"name":"farm5"},"farm6"]}}`, projects.Cueue{Priority: 1, Nodes: []string{"farm5", "farm6"}}, false},
		"no object":               {`[]`, projects.Cueue{}, true},
		"a node that is a number": {`{"status":{"nodes":[5]}}`, projects.Cueue{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := projects.ReadCueue([]byte(tc.object))
			if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.fault {
				t.Errorf("error %v (-want +got)\n%s", err, diff)
			}
		})
	}
}

func TestCheckTellsBlocksApart(t *testing.T) {
	t.Parallel()
	head, higher := projects.Block{Type: projects.HeadBlocked}.Meaning(), projects.Block{Type: projects.BlockedByHigherCueue}.Meaning()
	if head == "" || higher == "" || head == higher {
		t.Errorf("%q, %q", head, higher)
	}
}
