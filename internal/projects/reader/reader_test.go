package reader_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
	"config-server/internal/projects"
	"config-server/internal/projects/reader"
)

// paths are what an API server answers. A path that is not among them is not there.
type paths struct {
	answers map[string]string
	faults  map[string]error // by path; "nodes" for the nodes
}

func (p paths) Object(_ context.Context, path string) ([]byte, bool, error) {
	text, found := p.answers[path]
	return []byte(text), found, p.faults[path]
}

func (p paths) NodeResources(context.Context) ([]corev1.Node, error) {
	return []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "farm5"}}, {ObjectMeta: metav1.ObjectMeta{Name: "farm6", Labels: map[string]string{"room": "7"}}}}, p.faults["nodes"]
}

const (
	teamsPath  = "/apis/ailab.io/v1alpha1/projects"
	groupsPath = "/apis/ailab.io/v1alpha1/nodegroups"
	twoTeams   = `{"items":[{"metadata":{"name":"vision"},"spec":{"binding":{"nodes":["farm5"],"nodeGroups":["lab"]}}},{"metadata":{"name":"audio","deletionTimestamp":"2026-11-30T08:15:00Z"}}]}`
)

func TestCheckListsWhatCanBeRead(t *testing.T) {
	t.Parallel()
	forbidden := &farm.APIError{Status: http.StatusForbidden, Err: errors.New("no right")}
	for name, tc := range map[string]struct {
		cluster  paths
		want     []string
		warnings []string
		fault    string
	}{
		"everything": {paths{answers: map[string]string{teamsPath: twoTeams, groupsPath: `{"items":[{"metadata":{"name":"lab"},"spec":{"nodeSelector":{"room":"7"}}}]}`}},
			[]string{"audio []", "vision [farm5 farm6]"}, nil, ""},
		"no kind NodeGroup": {paths{answers: map[string]string{teamsPath: twoTeams}}, []string{"audio []", "vision [farm5]"}, nil, ""},
		"no right to node groups": {paths{answers: map[string]string{teamsPath: twoTeams}, faults: map[string]error{groupsPath: forbidden}},
			[]string{"audio []", "vision [farm5]"}, []string{"the nodes of node groups are left out: "}, ""},
		"no right to nodes": {paths{answers: map[string]string{teamsPath: twoTeams}, faults: map[string]error{"nodes": forbidden}},
			[]string{"audio nil", "vision nil"}, []string{"the nodes of projects are not known: "}, ""},
		"no kind Project":           {paths{}, nil, nil, "install its CustomResourceDefinitions"},
		"an answer that is no list": {paths{answers: map[string]string{teamsPath: `[`}}, nil, nil, "read the answer to " + teamsPath},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listed, warnings, err := reader.New(reader.Options{Cluster: tc.cluster, Keys: projects.DefaultKeys()}).List(t.Context())
			if (err != nil) != (tc.fault != "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Fatalf("error %v", err)
			}
			var got []string
			for _, p := range listed {
				nodes := fmt.Sprint(p.Nodes)
				if p.Nodes == nil {
					nodes = "nil"
				}
				got = append(got, p.Name+" "+nodes)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(warnings) != len(tc.warnings) {
				t.Errorf("warnings %q (-want +got)\n%s", warnings, diff)
			}
			for i, want := range tc.warnings {
				if !strings.HasPrefix(warnings[i], want) {
					t.Errorf("warning %q", warnings[i])
				}
			}
		})
	}
}

// What cannot be read is told of a queue as such, and never as if there were none.
func TestCheckQueueThatCannotBeRead(t *testing.T) {
	t.Parallel()
	broken := paths{answers: map[string]string{teamsPath: twoTeams}, faults: map[string]error{"/apis/coaster.ten1010.io": errors.New("timed out")}}
	for name, tc := range map[string]struct {
		cluster paths
		kind    farm.Kind
		says    string
	}{
		"the API server":  {broken, farm.Unavailable, "queue vision cannot be read: timed out"},
		"the projects":    {paths{faults: map[string]error{teamsPath: errors.New("timed out")}}, farm.Unavailable, "read projects: timed out"},
		"no kind Cueue":   {paths{answers: map[string]string{teamsPath: twoTeams}}, farm.NotFound, "project vision has no queue: gated: "},
		"no such project": {paths{answers: map[string]string{teamsPath: `{}`}}, farm.NotFound, "no project vision"},
		"no JSON": {paths{answers: map[string]string{
			teamsPath: twoTeams, "/apis/coaster.ten1010.io": `{"preferredVersion":{"groupVersion":"coaster.ten1010.io/v2"}}`, "/apis/coaster.ten1010.io/v2/cueues/vision": `[`,
		}}, farm.Unavailable, "read Cueue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := reader.New(reader.Options{Cluster: tc.cluster, Keys: projects.DefaultKeys()}).Queue(t.Context(), "vision")
			if kindOf(err) != tc.kind || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}
