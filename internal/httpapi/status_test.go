package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
)

var began = time.Date(2026, 11, 30, 11, 11, 7, 904_500_000, time.FixedZone("KST", 9*3600))

func waiting(user farm.UserName) farm.Status {
	return farm.Status{
		User: user, Stage: farm.StageWaitingReady, Message: "farm6: pulling", Pod: "ailab-kim-1a2b3c4d", Node: "farm6",
		Operation: farm.OperationCreate, OperationID: "op-1", RequestID: "r-1", Code: "", Detail: "",
		StartedAt: began, UpdatedAt: began.Add(time.Second),
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := newService()
	s.progress.status = func(_ context.Context, user farm.UserName) (farm.Status, error) { return waiting(user), nil }
	got := s.described(t, "GET", "/pods/kim/status", "")
	want := object(t, `{"username":"kim","stage":"waiting_ready","message":"farm6: pulling","updated_at":"2026-11-30T02:11:08.904Z",
		"started_at":"2026-11-30T02:11:07.904Z","pod_name":"ailab-kim-1a2b3c4d","node":"farm6","operation":"create","operation_id":"op-1",
		"request_id":"r-1","code":"","detail":""}`)
	if diff := cmp.Diff(want, got.object(t)); diff != "" || got.Status != 200 {
		t.Errorf("%d (-want +got):\n%s", got.Status, diff)
	}
}

func TestStatusOfNobody(t *testing.T) {
	t.Parallel()
	s := newService()
	s.progress.status = func(_ context.Context, user farm.UserName) (farm.Status, error) {
		return farm.Status{User: user, Stage: farm.StageUnknown, Message: "there is no workspace"}, nil
	}
	got := s.described(t, "GET", "/pods/kim/status", "")
	want := object(t, `{"username":"kim","stage":"unknown","message":"there is no workspace","updated_at":null,"started_at":null,
		"pod_name":"","node":"","operation":"","operation_id":"","request_id":"","code":"","detail":""}`)
	if diff := cmp.Diff(want, got.object(t)); diff != "" || got.Status != 200 {
		t.Errorf("%d (-want +got):\n%s", got.Status, diff)
	}
}

func TestStatusOfNames(t *testing.T) {
	t.Parallel()
	for path, c := range map[string]struct {
		status int
		asked  farm.UserName
	}{
		"/pods/2021_Kim/status":                         {200, "2021_Kim"},
		"/pods/%ED%99%8D%EA%B8%B8/status":               {200, "홍길"},
		"/pods/a%2Bb/status":                            {200, "a+b"},
		"/pods/a%2Fb/status":                            {400, ""},
		"/pods/a/b/status":                              {400, ""},
		"/pods//status":                                 {400, ""},
		"/pods/../status":                               {400, ""},
		"/pods/a%20b/status":                            {400, ""},
		"/pods/a:b/status":                              {400, ""},
		"/pods/%00/status":                              {400, ""},
		"/pods/" + strings.Repeat("k", 256) + "/status": {400, ""},
		"/pods/kim":                                     {404, ""},
		"/pods/kim/status/":                             {404, ""},
		"/pods/":                                        {404, ""},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			s := newService()
			var asked farm.UserName
			s.progress.status = func(_ context.Context, user farm.UserName) (farm.Status, error) {
				asked = user
				return waiting(user), nil
			}
			if got := s.call("GET", path, ""); got.Status != c.status || asked != c.asked {
				t.Errorf("%d, asked for %q: %s", got.Status, asked, got.Text)
			}
		})
	}
}

func TestStatusThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"", "text/event-stream"} {
		s := newService()
		s.progress.status = func(context.Context, farm.UserName) (farm.Status, error) {
			return farm.Status{}, errors.New("dial tcp 10.0.0.7:3306: connection refused")
		}
		request := newRequest("GET", "/pods/kim/status", "")
		request.Header.Set("Accept", accept)
		got := s.send(request)
		got.fits(t, "GET", "/pods/kim/status")
		if got.Status != 500 || strings.Contains(got.Text, "10.0.0.7") {
			t.Errorf("Accept %q: %d %s", accept, got.Status, got.Text)
		}
	}
}

func TestStatusNeedsTheToken(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/pods/kim/status", "/operations"} {
		s := newService(withToken)
		got := s.described(t, "GET", path, "")
		if got.Status != 401 {
			t.Errorf("%s: %d", path, got.Status)
		}
		request := newRequest("GET", path, "")
		request.Header.Set("X-Internal-Token", "s3cret-marker")
		if got := s.send(request); got.Status != 200 {
			t.Errorf("%s with the token: %d %s", path, got.Status, got.Text)
		}
	}
}

func TestMethodsOfStatus(t *testing.T) {
	t.Parallel()
	for target, allow := range map[string]string{"POST /pods/kim/status": "GET", "DELETE /operations": "GET"} {
		method, path, _ := strings.Cut(target, " ")
		if got := newService().call(method, path, ""); got.Status != 405 || got.Header.Get("Allow") != allow {
			t.Errorf("%s: %d, allow %q", target, got.Status, got.Header.Get("Allow"))
		}
	}
	for _, path := range []string{"/pods/kim/status", "/operations"} {
		request := newRequest("HEAD", path, "")
		request.Header.Set("Accept", "text/event-stream")
		if got := newService().send(request); got.Status != 200 || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("HEAD %s: %d %s", path, got.Status, got.Header.Get("Content-Type"))
		}
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	s := newService()
	s.progress.operations = func(context.Context, farm.UserName, int) ([]farm.Progress, error) {
		return []farm.Progress{{
			ID: "op-2", Kind: farm.OperationMigrate, User: "kim", Pod: "ailab-kim-2", Node: "farm7", OldPod: "ailab-kim-1", OldNode: "farm6",
			Stage: farm.StageFailed, Message: "migrate failed", Code: farm.PodReadyTimeout, Detail: "why", RequestID: "r-2", Instance: "one",
			StartedAt: began, UpdatedAt: began.Add(time.Minute), Done: true,
			Steps: []farm.StepResult{{Step: "SAVE_IMAGE", Result: farm.ResultOK, Seconds: 1.5}}, Undo: []farm.UndoResult{{Step: "CREATE_POD", What: farm.WhatPod, Result: farm.ResultUndone}},
		}, {ID: "op-1", Kind: farm.OperationDelete, User: "kim", Pod: "ailab-kim-1", Stage: farm.StageStarted, Message: "begun", StartedAt: began, UpdatedAt: began}}, nil
	}
	got := s.described(t, "GET", "/operations", "")
	want := object(t, `{"operations":[{"id":"op-2","operation":"migrate","username":"kim","pod_name":"ailab-kim-2","node":"farm7","old_pod_name":"ailab-kim-1",
		"old_node":"farm6","stage":"failed","message":"migrate failed","code":"POD_READY_TIMEOUT","detail":"why","request_id":"r-2",
		"started_at":"2026-11-30T02:11:07.904Z","updated_at":"2026-11-30T02:12:07.904Z","done":true,
		"steps":[{"step":"SAVE_IMAGE","result":"ok","seconds":1.5}],"undo":[{"step":"CREATE_POD","what":"pod","result":"undone"}]},
		{"id":"op-1","operation":"delete","username":"kim","pod_name":"ailab-kim-1","node":"","old_pod_name":"","old_node":"","stage":"started",
		"message":"begun","code":"","detail":"","request_id":"","started_at":"2026-11-30T02:11:07.904Z","updated_at":"2026-11-30T02:11:07.904Z",
		"done":false,"steps":[],"undo":[]}]}`)
	if diff := cmp.Diff(want, got.object(t)); diff != "" || got.Status != 200 {
		t.Errorf("%d (-want +got):\n%s", got.Status, diff)
	}
}

func TestOperationsAskedFor(t *testing.T) {
	t.Parallel()
	for query, c := range map[string]struct {
		status int
		user   farm.UserName
		limit  int
	}{
		"":                         {200, "", 100},
		"?limit=&username=":        {200, "", 100},
		"?username=2021_Kim":       {200, "2021_Kim", 100},
		"?limit=500":               {200, "", 500},
		"?limit=1&username=a%2Bb":  {200, "a+b", 1},
		"?limit=0":                 {400, "", 0},
		"?limit=501":               {400, "", 0},
		"?limit=-1":                {400, "", 0},
		"?limit=ten":               {400, "", 0},
		"?limit=1.0":               {400, "", 0},
		"?username=a%20b":          {400, "", 0},
		"?username=" + "..%2Fetc":  {400, "", 0},
		"?username=%ff":            {400, "", 0},
		"?username=kim&other=what": {200, "kim", 100},
		"?limit=%zz":               {400, "", 0},
		"?limit=%":                 {400, "", 0},
		"?limit=1;username=kim":    {400, "", 0},
		"?username=kim&other=%zz":  {400, "", 0},
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			s := newService()
			var user farm.UserName
			var limit int
			s.progress.operations = func(_ context.Context, u farm.UserName, n int) ([]farm.Progress, error) {
				user, limit = u, n
				return nil, nil
			}
			got := s.described(t, "GET", "/operations"+query, "")
			if got.Status != c.status || user != c.user || limit != c.limit {
				t.Errorf("%d, %d of %q: %s", got.Status, limit, user, got.Text)
			}
			if strings.ContainsAny(query, "z;") && !strings.Contains(got.Text, "malformed query: invalid") {
				t.Errorf("it does not say what is wrong: %s", got.Text)
			}
			if got.Status == http.StatusOK && got.Text != "{\"operations\":[]}\n" {
				t.Errorf("answer %q", got.Text)
			}
		})
	}
}
