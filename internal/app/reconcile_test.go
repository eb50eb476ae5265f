package app_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/locks"
	"config-server/internal/reconciler"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// left makes what the reconciler removes, and what recovery settles, in a farm without a service.
func left(t *testing.T, w *world.World, kim string) {
	t.Helper()
	sqlExec(t, w, `INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port, created_at)
		VALUES ('lee', 'ailab-lee-0000000d', 'farm5', 22, 30500, '2026-01-01 00:00:00')`)
	sqlExec(t, w, "DELETE FROM nodeport_allocations WHERE pod_name = ? AND internal_port = 8888", kim)
	sqlExec(t, w, `INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port)
		VALUES ('kim', 'ailab-kim-0000000e', 'farm5', 22, 30501)`)
	sqlExec(t, w, `INSERT INTO config_server_operations (id, kind, username, pod_name, node_name, old_pod_name, old_node_name, stage, instance)
		VALUES ('11111111-1111-1111-1111-111111111111', 'create', 'kim', 'ailab-kim-0000000e', 'farm5', '', '', 'running', 'an-instance-that-was-killed')`)
}

// actions counts findings by action and kind.
func actions(t *testing.T, stdout string) []string {
	t.Helper()
	var list []string
	for _, f := range reported(t, stdout) {
		list = append(list, fmt.Sprint(f["action"], " ", f["kind"]))
	}
	slices.Sort(list)
	return list
}

func TestReconcileByHand(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"local", "mysql"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Env: map[string]string{"LEDGER_LOCK": lock}})
			env := map[string]string{"STATE_DIR": t.TempDir()}
			service := w.Service(t, env)
			kim := workspaceOf(t, service.URL, "kim")
			if code, out, errs := byHand(t, w, env, "reconcile"); code != 0 || !strings.HasPrefix(out, "0 findings") {
				t.Fatalf("a whole farm: exit %d\n%s%s", code, out, errs)
			}
			service.Term()
			service.Wait(t, testLimit)
			left(t, w, kim)

			before := farmState(t, w)
			code, out, errs := byHand(t, w, env, "reconcile", "--dry-run", "-o", "json")
			wantSame(t, before, farmState(t, w))
			want := []string{"would-fix missing-row", "would-fix stale-row", "would-fix task"}
			if got := actions(t, out); code != 1 || !slices.Equal(got, want) {
				t.Errorf("dry run: exit %d, %v, want %v\n%s", code, got, want, errs)
			}

			args := []string{"reconcile", "-o", "json"}
			if lock == "local" {
				code, _, errs := byHand(t, w, env, args...)
				wantSame(t, before, farmState(t, w))
				if code != 1 || !strings.Contains(errs, "--service-stopped") {
					t.Errorf("without a service in sight: exit %d, %s", code, errs)
				}
				args = append(args, "--service-stopped")
			}
			code, out, errs = byHand(t, w, env, args...)
			want = []string{"done missing-row", "done stale-row", "done task"}
			if got := actions(t, out); code != 1 || !slices.Equal(got, want) {
				t.Errorf("exit %d, %v, want %v\n%s", code, got, want, errs)
			}
			rows := w.Rows(t)
			if n := w.Operations(t); n != 0 || len(rows) != 2 {
				t.Errorf("%d records and rows %v are left", n, rows)
			}
			for port, pod := range rows {
				if pod != kim {
					t.Errorf("port %d is %s's", port, pod)
				}
			}
			if code, out, errs := byHand(t, w, env, args...); code != 0 {
				t.Errorf("once more: exit %d\n%s%s", code, out, errs)
			}
		})
	}
}

// What an instance that lives is doing is nobody else's to undo.
func TestReconcileByHandLeavesLivingWorkAlone(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"local", "mysql"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Env: map[string]string{"LEDGER_LOCK": lock, "RECONCILE_GRACE": "0.001"}})
			env := map[string]string{"STATE_DIR": t.TempDir()}
			service := w.Service(t, env)
			world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
			answer := pendingCreate(t, w, service, "kim")
			pod := w.Pods(t)[0].Name
			code, out, errs := byHand(t, w, env, "reconcile", "-o", "json")
			if code != 0 || len(reported(t, out)) != 0 {
				t.Errorf("beside a create-pod: exit %d\n%s%s", code, out, errs)
			}
			if pods := w.Pods(t); len(pods) != 1 || pods[0].Name != pod || pods[0].DeletionTimestamp != nil || w.Operations(t) != 1 || len(w.Rows(t)) != 2 {
				t.Errorf("pods %d, records %d, rows %v", len(pods), w.Operations(t), w.Rows(t))
			}
			makeReady(t, w, pod)
			if got := <-answer; got.err != nil || got.answer.Status != 201 {
				t.Errorf("create-pod: %v %d %s", got.err, got.answer.Status, got.answer.Body)
			}
		})
	}
}

// Two that reconcile at once would each take the other's half for left over.
func TestReconcileByHandSaysThatAnotherIsAtIt(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	env := map[string]string{"STATE_DIR": t.TempDir(), "RECONCILE_INTERVAL": "0"}
	service := w.Service(t, env)
	kim := workspaceOf(t, service.URL, "kim")
	service.Term()
	service.Wait(t, testLimit)
	left(t, w, kim)
	lease, free, err := locks.NewLocal(filepath.Join(env["STATE_DIR"], "locks")).TryLock(t.Context(), reconciler.LeaseName)
	if err != nil || !free {
		t.Fatalf("take the lease: %v, %v", free, err)
	}
	code, out, errs := byHand(t, w, env, "reconcile", "--service-stopped", "-o", "json")
	// Recovery needs no lease, because each record is claimed.
	if got := actions(t, out); code != 1 || !strings.Contains(errs, "another instance is reconciling") || !slices.Equal(got, []string{"done task"}) {
		t.Errorf("exit %d, %v, %s", code, got, errs)
	}
	if len(w.Rows(t)) != 2 {
		t.Errorf("rows were changed without the lease: %v", w.Rows(t))
	}
	lease.Unlock()
	if code, out, errs := byHand(t, w, env, "reconcile", "--service-stopped", "-o", "json"); code != 1 || len(actions(t, out)) != 2 {
		t.Errorf("with the lease: exit %d\n%s%s", code, out, errs)
	}
}

// answered is what a request in the background came to.
type answered struct {
	answer world.Answer
	err    error
}

// pendingCreate asks for a workspace whose pod does not become Ready by itself, and returns once the
// pod is there.
func pendingCreate(t *testing.T, w *world.World, service *testkit.ServiceProcess, user string) <-chan answered {
	t.Helper()
	return pendingCreateUntil(t.Context(), t, w, service, user)
}

func pendingCreateUntil(ctx context.Context, t *testing.T, w *world.World, service *testkit.ServiceProcess, user string) <-chan answered {
	t.Helper()
	w.AdminBE.SetConfig(user, map[string]any{"image": "decs:" + testkit.ImageNeverReady})
	done := make(chan answered, 1)
	go func() {
		answer, err := world.Send(ctx, service.URL, "POST", "/create-pod", `{"username":"`+user+`"}`)
		done <- answered{answer, err}
	}()
	eventually(t, "the pod of "+user, func() bool { return len(w.Pods(t)) > 0 })
	return done
}

// makeReady plays kubelet for a pod that kwok leaves alone.
func makeReady(t *testing.T, w *world.World, name string) {
	t.Helper()
	pods := w.Cluster.Admin(t).CoreV1().Pods(w.Cluster.Namespace)
	pod, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for something outside of this process.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	testkit.WaitFor(t, testLimit, what, func(context.Context) error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	})
}
