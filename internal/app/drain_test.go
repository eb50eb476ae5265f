package app_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// nothingLeft waits until there is no trace of a workspace.
func nothingLeft(t *testing.T, w *world.World) {
	t.Helper()
	eventually(t, "an empty farm", func() bool {
		return len(w.Pods(t)) == 0 && len(w.Services(t)) == 0 && len(w.Rows(t)) == 0 && w.Operations(t) == 0
	})
}

func TestDrainLetsRunningWorkFinishAndTakesNoNewWork(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Env: map[string]string{"DRAIN_TIMEOUT": "50s"}})
	service := w.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	done := pendingCreate(t, w, service, "kim")
	service.Term()
	eventually(t, "that new work is refused", func() bool {
		answer, err := world.Send(t.Context(), service.URL, "PUT", "/accounts/groups", `{"name":"team"}`)
		return err == nil && answer.Status == 503 && answer.JSON["error"] != nil
	})
	for _, refused := range []struct{ method, path, body string }{
		{"POST", "/create-pod", `{"username":"kim"}`}, {"POST", "/delete-pod", `{"pod_name":"ailab-kim-00000000"}`}, {"DELETE", "/accounts/users/kim", ""},
	} {
		world.Call(t, service.URL, refused.method, refused.path, refused.body, 503)
	}
	world.Call(t, service.URL, "GET", "/accounts/users/kim", "", 200)
	world.Call(t, service.URL, "GET", "/readyz", "", 503)
	world.Call(t, service.URL, "GET", "/health", "", 200)

	makeReady(t, w, w.Pods(t)[0].Name)
	if got := <-done; got.err != nil || got.answer.Status != 201 {
		t.Fatalf("create-pod: %v %d %s", got.err, got.answer.Status, got.answer.Body)
	}
	if ending := service.Wait(t, testLimit); ending != "exit status 0" {
		t.Errorf("the service ended with %s", ending)
	}
	if len(w.Pods(t)) != 1 || len(w.Services(t)) != 2 || len(w.Rows(t)) != 2 || w.Operations(t) != 0 {
		t.Errorf("%d pods, %d Services, %d rows, %d records", len(w.Pods(t)), len(w.Services(t)), len(w.Rows(t)), w.Operations(t))
	}
}

func TestDrainUndoesWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Env: map[string]string{"DRAIN_TIMEOUT": "1s", "UNDO_RESERVE": "25s"}})
	service := w.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	done := pendingCreate(t, w, service, "kim")
	begin := time.Now()
	service.Term()
	got := <-done
	if got.err != nil || got.answer.Status < 500 {
		t.Errorf("create-pod: %v %d %s", got.err, got.answer.Status, got.answer.Body)
	}
	if undone, _ := got.answer.JSON["rollback"].(map[string]any); undone["podDeleted"] != true || undone["nodeportsReleased"] != true {
		t.Errorf("the answer's undo map: %s", got.answer.Body)
	}
	if ending := service.Wait(t, testLimit); ending != "exit status 0" {
		t.Errorf("the service ended with %s", ending)
	}
	const grace = 55 * time.Second // terminationGracePeriodSeconds without the wait before SIGTERM
	if took := time.Since(begin); took > grace {
		t.Errorf("it took %v, the pod's grace is %v", took, grace)
	}
	if len(w.Pods(t))+len(w.Services(t))+len(w.Rows(t))+w.Operations(t) > 0 {
		t.Errorf("left: %d pods, %d Services, %d rows, %d records", len(w.Pods(t)), len(w.Services(t)), len(w.Rows(t)), w.Operations(t))
	}
	world.Call(t, w.Service(t, nil).URL, "GET", "/accounts/users/kim", "", 200)
}

func TestCallerGoneUndoesCreatePod(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	ctx, hangUp := context.WithCancel(t.Context())
	done := pendingCreateUntil(ctx, t, w, service, "kim")
	hangUp()
	<-done
	nothingLeft(t, w)
	w.AdminBE.SetConfig("kim", nil)
	world.Call(t, service.URL, "POST", "/create-pod", `{"username":"kim"}`, 201)
}

func TestCallerGoneUndoesPutUser(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("stays"), 201)
	before := farmState(t, w)
	w.NAS.Fail(t, testkit.SSHFault{Contains: "chown", Hang: true})
	ctx, hangUp := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = world.Send(ctx, service.URL, "PUT", "/accounts/users", world.UserBody("kim"))
	}()
	home := filepath.Join(w.NAS.ShareDir, "kim")
	eventually(t, "kim's home", func() bool { _, err := os.Stat(home); return err == nil })
	eventually(t, "the hanging chown", func() bool { return strings.Contains(strings.Join(w.NAS.Commands(t), "\n"), "chown") })
	hangUp()
	<-done
	w.NAS.Fail(t)
	eventually(t, "that kim is undone", func() bool {
		_, err := os.Stat(home)
		for name := range w.ShareFiles(t) {
			if strings.Contains(name, "journal/") {
				return false
			}
		}
		return os.IsNotExist(err)
	})
	after := farmState(t, w)
	for _, file := range []string{"share/passwd", "share/group", "share/shadow"} {
		if before[file] != after[file] {
			t.Errorf("%s was changed", file)
		}
	}
	world.Call(t, service.URL, "GET", "/accounts/users/kim", "", 404)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
}

func TestCallerGoneDoesNotStopDeletions(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	pod := workspaceOf(t, service.URL, "kim")
	send := func(method, path, body string) (hangUp func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = world.Send(ctx, service.URL, method, path, body)
		}()
		return func() { cancel(); <-done }
	}

	w.Cluster.Stop(t, testkit.PartKwok) // so that the pod does not end
	hangUp := send("POST", "/delete-pod", `{"pod_name":"`+pod+`"}`)
	eventually(t, "that the pod is going", func() bool { return w.Pods(t)[0].DeletionTimestamp != nil })
	hangUp()
	w.Cluster.Start(t, testkit.PartKwok)
	nothingLeft(t, w)

	w.NAS.Freeze(t)
	hangUp = send("DELETE", "/accounts/users/kim", "")
	eventually(t, "that kim's lines are gone", func() bool { return !strings.Contains(w.ShareFiles(t)["passwd"], "\nkim:") })
	hangUp()
	w.NAS.Thaw()
	eventually(t, "that kim's home is gone", func() bool {
		for name := range w.ShareFiles(t) {
			if strings.Contains(name, "journal/") {
				return false
			}
		}
		return len(w.Homes(t)) == 0
	})
}
