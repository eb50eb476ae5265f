package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"config-server/internal/cluster"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// TestImagesWithoutTheRightToLogs takes the rights to logs and events: exports say so and leave no pod, a workspace that does not
// become Ready is told with what its containers say alone, and check names both.
func TestImagesWithoutTheRightToLogs(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Cluster: testkit.Cluster(t)})
	w.Cluster.Revoke(t, "get", "pods/log", false)
	w.Cluster.Revoke(t, "list", "events", false)
	own := asServiceAccount(w.Cluster)
	testkit.WaitFor(t, testLimit, "the end of the rights", func(ctx context.Context) error {
		for _, right := range []cluster.Right{{Verb: "get", Resource: "pods", Subresource: "log"}, {Verb: "list", Resource: "events"}} {
			if allowed, err := own.May(ctx, right); err != nil || allowed {
				return fmt.Errorf("%s: allowed %t, error %v", right, allowed, err)
			}
		}
		return nil
	})
	service := w.Service(t, nil)
	refused := world.Call(t, service.URL, "POST", "/images/export", `{"image":"dguailab/decs:1.0","path":"/etc/ssh","node":"farm5"}`, 503)
	if !strings.Contains(refused.Text("error"), "pods/log") {
		t.Errorf("an export: %s", refused.Body)
	}
	// The answer does not wait for kubelet to end the pod.
	testkit.WaitFor(t, testLimit, "the end of the export's pod", func(ctx context.Context) error {
		if left := exportPods(ctx, t, w); len(left) != 0 {
			return fmt.Errorf("pod %s is left", left[0].Name)
		}
		return nil
	})

	gpuUser(t, w, service, "kim", map[string]any{"image": "dguailab/decs:" + testkit.ImageNeverPull})
	failed := world.Call(t, service.URL, "POST", "/create-pod", createBody("kim", ""), 500)
	if detail := failed.Text("detail"); failed.Text("step") != "WAIT_POD_READY" || !strings.Contains(detail, "ErrImageNeverPull") || strings.Contains(detail, "events:") {
		t.Errorf("a workspace: %s", failed.Body)
	}
	untouched(t, w, 0)

	_, out, errs := byHand(t, w, nil, "check")
	for _, words := range []string{"missing: list events: ", "missing: get pods/log: ", "LIMITED  further rights"} {
		if !strings.Contains(out, words) {
			t.Errorf("check does not say %q: %s%s", words, out, errs)
		}
	}
}
