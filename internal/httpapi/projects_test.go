package httpapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"config-server/internal/farm"
	"config-server/internal/httpapi"
	"config-server/internal/projects"
	"config-server/internal/projects/reader"
)

// fakeProjects has what a case says.
type fakeProjects struct {
	listed   []reader.Listed
	warnings []string
	lines    []projects.Line
	queue    projects.Cueue
	err      error
	asked    string
}

func (f *fakeProjects) List(ctx context.Context) ([]reader.Listed, []string, error) {
	if _, limited := ctx.Deadline(); !limited {
		return nil, nil, errors.New("the look has no limit")
	}
	return f.listed, f.warnings, f.err
}

func (f *fakeProjects) Check(_ context.Context, project string) ([]projects.Line, error) {
	f.asked = project
	return f.lines, f.err
}

func (f *fakeProjects) Queue(_ context.Context, project string) (projects.Cueue, error) {
	f.asked = project
	return f.queue, f.err
}

func TestCheckOverHTTP(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	vision := reader.Listed{Nodes: []string{"farm5"}, Project: projects.Project{
		Name: "vision", Quota: map[string]resource.Quantity{"requests.nvidia.com/gpu": resource.MustParse("4")},
		Members: []projects.Member{{User: "alice", Role: projects.Manager}, {Subject: "oidc:bob", Role: projects.PlainMember}},
	}}
	for name, tc := range map[string]struct {
		path   string
		teams  fakeProjects
		status int
		want   string
		asked  string
	}{
		"no projects": {"/projects", fakeProjects{}, 200, `{"projects":[]}`, ""},
		"projects": {"/projects", fakeProjects{listed: []reader.Listed{vision, {Project: projects.Project{Name: "empty"}}}, warnings: []string{"w"}}, 200,
			`{"projects":[{"name":"vision","members":[{"name":"alice","role":"manager"},{"name":"oidc:bob","role":"member"}],"nodes":["farm5"],"quota":{"requests.nvidia.com/gpu":"4"}},
			{"name":"empty","members":[],"nodes":null,"quota":{}}],"warnings":["w"]}`, ""},
		"projects cannot be read": {"/projects", fakeProjects{err: errors.New("read projects: timed out")}, 503, `{"error":"read projects: timed out"}`, ""},
		"a check that is ok": {"/projects/vision/check", fakeProjects{lines: []projects.Line{{Name: "name", Result: projects.OK, Text: "t"}}}, 200,
			`{"project":"vision","ok":true,"lines":[{"name":"name","result":"ok","text":"t","todo":""}]}`, "vision"},
		"a check that is not": {"/projects/vision/check", fakeProjects{lines: []projects.Line{
			{Name: "name", Result: projects.OK, Text: "t"}, {Name: "bound", Result: projects.Partly, Text: "u", Todo: "d"},
		}}, 200, `{"project":"vision","ok":false,"lines":[{"name":"name","result":"ok","text":"t","todo":""},{"name":"bound","result":"partly","text":"u","todo":"d"}]}`, "vision"},
		"a check of nothing": {"/projects/none/check", fakeProjects{err: farm.Errorf(farm.NotFound, "no project none")}, 404, `{"error":"no project none"}`, "none"},
		"an escaped name":    {"/projects/a%20b/check", fakeProjects{}, 400, `{"error":"bad name: \"a b\" has a separator, white space or a control character"}`, ""},
		"a queue": {"/projects/vision/queue", fakeProjects{queue: projects.Cueue{
			Generation: 2, ObservedGeneration: 2, Priority: 3, Policy: "FirstAllocating", Nodes: []string{"farm5"},
			Waiting: []projects.Waiting{{Name: "a", Namespace: "vision", UID: "1", Since: noon}, {Name: "b", Namespace: "vision", UID: "2"}},
			Blocks:  []projects.Block{{Type: projects.HeadBlocked, Reason: "R", Message: "m", Since: noon}},
		}}, 200, `{"project":"vision","priority":3,"policy":"FirstAllocating","nodes":["farm5"],"observed":true,
			"waiting":[{"position":1,"name":"a","namespace":"vision","uid":"1","since":"2026-11-30T12:00:00.000Z"},{"position":2,"name":"b","namespace":"vision","uid":"2","since":null}],
			"blocked":[{"type":"HeadBlocked","meaning":"the pod at the head cannot be placed, and those behind it wait for it","reason":"R","message":"m","since":"2026-11-30T12:00:00.000Z"}]}`, "vision"},
		"an empty queue": {"/projects/vision/queue", fakeProjects{queue: projects.Cueue{Generation: 1}}, 200,
			`{"project":"vision","priority":0,"policy":"","nodes":[],"observed":false,"waiting":[],"blocked":[]}`, "vision"},
		"no queue": {"/projects/vision/queue", fakeProjects{err: farm.Errorf(farm.NotFound, "project vision has no queue: bound: b; d")}, 404,
			`{"error":"project vision has no queue: bound: b; d"}`, "vision"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(func(opts *httpapi.Options, _ *service) { opts.Projects = &tc.teams })
			got := s.described(t, "GET", tc.path, "")
			if diff := cmp.Diff(object(t, tc.want), got.object(t)); got.Status != tc.status || diff != "" || tc.teams.asked != tc.asked {
				t.Errorf("status %d, asked for %q (-want +got):\n%s", got.Status, tc.teams.asked, diff)
			}
		})
	}
}

func TestCheckSwitchedOff(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/projects", "/projects/vision/check", "/projects/vision/queue"} {
		got := newService().described(t, "GET", path, "")
		want := object(t, `{"error":"projects are switched off; PROJECTS=on switches them on (docs/projects.md)"}`)
		if diff := cmp.Diff(want, got.object(t)); got.Status != 404 || diff != "" {
			t.Errorf("%s: status %d (-want +got):\n%s", path, got.Status, diff)
		}
	}
}

// The page learns from a file of its own whether there are projects to show.
func TestCheckOnThePage(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]*service{
		"export const features = { projects: false };\n": newService(),
		"export const features = { projects: true };\n":  newService(func(opts *httpapi.Options, _ *service) { opts.Projects = &fakeProjects{} }),
	} {
		got := s.call("GET", "/ui/features.js", "")
		if got.Status != 200 || got.Text != want || got.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || got.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("%d %q %v", got.Status, got.Text, got.Header)
		}
	}
}
