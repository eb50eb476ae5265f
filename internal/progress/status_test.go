package progress_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/progress"
)

// cluster plays what Kubernetes says. Pods in late are not in the watch yet.
type cluster struct {
	pods, late []farm.Pod
	err        error
	doing      string
	looks      int
}

func (c *cluster) KnownPods(context.Context) ([]farm.Pod, error) {
	return append([]farm.Pod(nil), c.pods...), c.err
}

func (c *cluster) Pod(_ context.Context, name farm.PodName) (farm.Pod, bool, error) {
	c.looks++
	for _, p := range append(append([]farm.Pod(nil), c.pods...), c.late...) {
		if p.Name == name {
			return p, true, c.err
		}
	}
	return farm.Pod{}, false, c.err
}

func (c *cluster) Doing(context.Context, farm.PodName) string { return c.doing }

func pod(name string, changes ...func(*farm.Pod)) farm.Pod {
	p := farm.Pod{Name: farm.PodName(name), User: "kim", Node: "farm6", Guest: true, Phase: "Running", Ready: true, CreatedAt: begin}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func TestStatus(t *testing.T) {
	t.Parallel()
	const first, second = "ailab-kim-00000001", "ailab-kim-00000002"
	unready := func(p *farm.Pod) { p.Ready = false }
	failed := func(p *farm.Pod) { p.Phase, p.Ready = "Failed", false }
	leaving := func(p *farm.Pod) { p.Terminating = true }
	younger := func(p *farm.Pod) { p.CreatedAt = p.CreatedAt.Add(time.Minute) }
	others := func(p *farm.Pod) { p.User = "lee" }
	waits := func(n int) farm.Progress {
		p := began(n, "kim")
		p.Stage, p.Node = farm.StageWaitingReady, "farm6"
		return p
	}
	deletion := func(n int, of string, stage farm.Stage, done bool) farm.Progress {
		p := ended(n, "kim", stage)
		p.Kind, p.Pod, p.Done = farm.OperationDelete, farm.PodName(of), done
		return p
	}
	ready := func(n int) farm.Progress { return ended(n, "kim", farm.StageReady) }
	lost := func(n int) farm.Progress { return ended(n, "kim", farm.StageFailed) }
	down := errors.New("down")

	for name, c := range map[string]struct {
		told    []farm.Progress
		cluster cluster
		want    string // stage, message, pod, operation
		looks   int    // at the API server
	}{
		"nothing at all":                     {nil, cluster{}, "unknown, there is no workspace, , ", 0},
		"only somebody else's":               {[]farm.Progress{ended(1, "lee", farm.StageReady)}, cluster{pods: []farm.Pod{pod("ailab-lee-00000001", others)}}, "unknown, there is no workspace, , ", 0},
		"nothing told, no cluster":           {nil, cluster{err: down}, "unknown, no operation is known, and the cluster cannot be read, , ", 0},
		"nothing told, a pod":                {nil, cluster{pods: []farm.Pod{pod(first)}}, "ready, the workspace stands on farm6, " + first + ", ", 0},
		"nothing told, a pod that has ended": {nil, cluster{pods: []farm.Pod{pod(first, failed)}, doing: "it ended"}, "failed, farm6: it ended, " + first + ", ", 0},
		"nothing told, a pod being made":     {nil, cluster{pods: []farm.Pod{pod(first, unready)}, doing: "pulling"}, "waiting_ready, farm6: pulling, " + first + ", ", 0},
		"nothing told, a pod on its way out": {nil, cluster{pods: []farm.Pod{pod(first, leaving)}}, "unknown, there is no workspace, , ", 0},
		"under way":                          {[]farm.Progress{began(1, "kim")}, cluster{doing: "pulling"}, "started, begun, " + first + ", create", 0},
		"waiting":                            {[]farm.Progress{waits(1)}, cluster{doing: "pulling"}, "waiting_ready, farm6: pulling, " + first + ", create", 0},
		"waiting, nothing known of the pod":  {[]farm.Progress{waits(1)}, cluster{}, "waiting_ready, begun, " + first + ", create", 0},
		"ready":                              {[]farm.Progress{ready(1)}, cluster{pods: []farm.Pod{pod(first)}}, "ready, begun, " + first + ", create", 0},
		"ready on another replica just now":  {[]farm.Progress{ready(1)}, cluster{late: []farm.Pod{pod(first)}}, "ready, begun, " + first + ", create", 1},
		"ready once, ended by now":           {[]farm.Progress{ready(1)}, cluster{pods: []farm.Pod{pod(first, failed)}}, "failed, the pod has ended, " + first + ", create", 0},
		"ready once, being removed":          {[]farm.Progress{ready(1)}, cluster{pods: []farm.Pod{pod(first, leaving)}}, "unknown, workspace " + first + " is being removed, " + first + ", create", 0},
		"ready once, gone by now":            {[]farm.Progress{ready(1)}, cluster{}, "unknown, workspace " + first + " is gone, , ", 1},
		"ready, no cluster":                  {[]farm.Progress{ready(1)}, cluster{err: down}, "ready, begun, " + first + ", create", 0},
		"ready once, an older one stands":    {[]farm.Progress{ready(2)}, cluster{pods: []farm.Pod{pod(first)}}, "ready, the workspace stands on farm6, " + first + ", ", 0},
		"failed":                             {[]farm.Progress{lost(1)}, cluster{}, "failed, begun, " + first + ", create", 0},
		"failed, an older one stands": {[]farm.Progress{lost(3), ready(2)}, cluster{pods: []farm.Pod{pod(first), pod(second, younger)}},
			"failed, begun; workspace " + second + " on farm6 is still there, ailab-kim-00000003, create", 0},
		"failed after one that went well": {[]farm.Progress{lost(2), ready(1)}, cluster{}, "failed, begun, " + second + ", create", 0},
		"being deleted":                   {[]farm.Progress{ready(1), deletion(2, first, farm.StageStarted, false)}, cluster{pods: []farm.Pod{pod(first)}}, "started, begun, " + first + ", delete", 0},
		"deleted":                         {[]farm.Progress{ready(1), deletion(2, first, farm.StageReady, true)}, cluster{}, "unknown, workspace " + first + " was deleted, , ", 0},
		"one deleted, another stands": {[]farm.Progress{ready(1), ready(2), deletion(3, second, farm.StageReady, true)}, cluster{pods: []farm.Pod{pod(first)}},
			"ready, the workspace stands on farm6, " + first + ", ", 0},
		"a failed create outlives a delete": {[]farm.Progress{ready(1), lost(2), deletion(3, first, farm.StageReady, true)}, cluster{}, "failed, begun, " + second + ", create", 0},
		"a delete that failed":              {[]farm.Progress{ready(1), deletion(2, first, farm.StageFailed, true)}, cluster{pods: []farm.Pod{pod(first)}}, "failed, begun; workspace " + first + " on farm6 is still there, " + first + ", delete", 0},
		"a delete that failed and then went well": {
			[]farm.Progress{ready(1), deletion(2, first, farm.StageFailed, true), deletion(3, first, farm.StageReady, true)}, cluster{}, "unknown, workspace " + first + " was deleted, , ", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := store(t, databasetest.SQLite(t), progress.Options{})
			write(t, s, c.told...)
			status, err := progress.NewView(s, &c.cluster).Status(t.Context(), "kim")
			if err != nil {
				t.Fatal(err)
			}
			got := string(status.Stage) + ", " + status.Message + ", " + string(status.Pod) + ", " + string(status.Operation)
			if got != c.want || status.User != "kim" || c.cluster.looks != c.looks {
				t.Errorf("got  %s (%d looks)\nwant %s (%d)", got, c.cluster.looks, c.want, c.looks)
			}
		})
	}
}

func TestStatusTellsAllOfItsOperation(t *testing.T) {
	t.Parallel()
	s := store(t, databasetest.SQLite(t), progress.Options{Now: func() time.Time { return begin.Add(time.Hour) }})
	p := ended(1, "kim", farm.StageFailed)
	p.Node, p.Code, p.Detail = "farm6", farm.PodReadyTimeout, "why"
	write(t, s, p)
	got, err := progress.NewView(s, &cluster{}).Status(t.Context(), "kim")
	want := farm.Status{
		User: "kim", Stage: farm.StageFailed, Message: "begun", Pod: p.Pod, Node: "farm6", Operation: farm.OperationCreate, OperationID: p.ID,
		RequestID: "r-1", Code: farm.PodReadyTimeout, Detail: "why",
		StartedAt: p.StartedAt.Truncate(time.Millisecond), UpdatedAt: begin.Add(time.Hour).Truncate(time.Millisecond),
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestStatusWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	db := databasetest.SQLite(t).Open(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := progress.NewView(progress.New(db, progress.Options{}), &cluster{}).Status(t.Context(), "kim"); err == nil {
		t.Error("no error: what is not read must not pass for nothing")
	}
}
