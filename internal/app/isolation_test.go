package app_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/projects"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// A project's member gets a workspace on its tainted node, which tolerates the taints; nobody else gets one there.
func TestCheckIsolationOfWorkspaces(t *testing.T) {
	t.Parallel()
	keys := projects.DefaultKeys()
	k := testkit.OwnCluster(t)
	labels := map[string]string{keys.OfNode("vision"): ""}
	taints := projects.Taints(nil, labels, projects.IsolationStrict, keys)
	for _, name := range []string{"farm5", "farm6"} {
		k.SetNode(t, testkit.Node{Name: name, Labels: labels, Taints: taints})
	}
	w := world.New(t, world.Options{Cluster: k, Env: map[string]string{
		"PROJECTS": "on", "PROJECT_SOURCE": "ledger", "PROJECT_GROUPS": "vision", "NODE_ISOLATION": "strict",
	}})
	s := w.Service(t, nil)
	anywhere := map[string]any{"gpu_nodes": []any{
		map[string]any{"node_name": "farm5", "num_gpu": 1}, map[string]any{"node_name": "farm6", "num_gpu": 1}, map[string]any{"node_name": "farm7", "num_gpu": 1},
	}}
	for _, user := range []string{"kim", "lee"} {
		gpuUser(t, w, s, user, anywhere)
	}
	gpuUser(t, w, s, "choi", map[string]any{"gpu_nodes": []any{map[string]any{"node_name": "farm6", "num_gpu": 1}}})
	world.Call(t, s.URL, "PUT", "/accounts/groups", `{"name":"vision","members":["kim"]}`, 201)

	member := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", ""), 201)
	pod := podNamed(t, w, member.Text("pod_name"))
	want := []corev1.Toleration{{Key: keys.OfNode("vision"), Operator: corev1.TolerationOpExists}}
	if diff := cmp.Diff(want, ours(pod, keys)); member.Text("node") != "farm6" || diff != "" {
		t.Errorf("kim's is on %s; tolerations (-want +got)\n%s", member.Text("node"), diff)
	}
	other := world.Call(t, s.URL, "POST", "/create-pod", createBody("lee", ""), 201)
	if got := ours(podNamed(t, w, other.Text("pod_name")), keys); other.Text("node") != "farm7" || len(got) > 0 {
		t.Errorf("lee's is on %s and tolerates %v", other.Text("node"), got)
	}
	refused := world.Call(t, s.URL, "POST", "/create-pod", createBody("choi", ""), 400)
	if detail := refused.Text("detail"); !strings.Contains(detail, "farm6: kept for project vision") {
		t.Errorf("choi is told %q", detail)
	}
	untouched(t, w, 2)
}

// ours are the tolerations of a pod that have to do with projects.
func ours(pod corev1.Pod, keys projects.Keys) []corev1.Toleration {
	var all []corev1.Toleration
	for _, toleration := range pod.Spec.Tolerations {
		if strings.HasPrefix(toleration.Key, keys.NodePrefix) {
			all = append(all, toleration)
		}
	}
	return all
}
