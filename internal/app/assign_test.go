package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// assigningFarm is a farm whose GPUs are assigned: farm5, farm6 and farm7 have two each, farm6 the least
// loaded ones.
type assigningFarm struct {
	*world.World
	service *testkit.ServiceProcess
}

func newAssigningFarm(t *testing.T, mode string, env map[string]string) assigningFarm {
	t.Helper()
	all := map[string]string{"GPU_ASSIGNMENT": mode}
	for name, value := range env {
		all[name] = value
	}
	w := world.New(t, world.Options{Cluster: testkit.Cluster(t), Env: all})
	return assigningFarm{w, w.Service(t, nil)}
}

// user makes an account that wants n GPUs, on any of the nodes.
func (f assigningFarm) user(t *testing.T, name string, n int, nodes ...string) {
	t.Helper()
	var list []any
	for _, node := range nodes {
		list = append(list, map[string]any{"node_name": node, "num_gpu": n})
	}
	f.AdminBE.SetConfig(name, map[string]any{"gpu_nodes": list})
	world.Call(t, f.service.URL, "PUT", "/accounts/users", world.UserBody(name), 201)
}

func (f assigningFarm) create(t *testing.T, user string, status int) world.Answer {
	t.Helper()
	return world.Call(t, f.service.URL, "POST", "/create-pod", fmt.Sprintf(`{"username":%q}`, user), status)
}

// rows lists the assigned GPUs as "node index user".
func (f assigningFarm) rows(t *testing.T) []string {
	t.Helper()
	result, err := f.MariaDB.Open(t, f.Database).QueryContext(t.Context(), "SELECT node_name, gpu_index, username FROM config_server_gpus ORDER BY node_name, gpu_index, username")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = result.Close() }()
	all := []string{}
	for result.Next() {
		var node, user string
		var index int
		if err := result.Scan(&node, &index, &user); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %d %s", node, index, user))
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func (f assigningFarm) wantRows(t *testing.T, when string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, want...), f.rows(t)); diff != "" {
		t.Errorf("%s: rows (-want +got)\n%s", when, diff)
	}
}

// gpusOf are the GPUs whose device files a pod mounts, with its node and what it is told.
func gpusOf(pod corev1.Pod) string {
	var files []string
	for _, volume := range pod.Spec.Volumes {
		if volume.HostPath != nil && strings.HasPrefix(volume.HostPath.Path, "/dev/nvidia") {
			files = append(files, strings.TrimPrefix(volume.HostPath.Path, "/dev/nvidia"))
		}
	}
	return fmt.Sprint(pod.Spec.NodeName, " ", strings.Join(files, ","), " ", variables(pod.Spec.Containers[0])["NVIDIA_VISIBLE_DEVICES"])
}

const control = ",ctl,-uvm,-uvm-tools,-modeset"

func TestAssignmentExclusive(t *testing.T) {
	t.Parallel()
	f := newAssigningFarm(t, "exclusive", nil)
	f.user(t, "kim", 2, "FARM5", "farm6", "farm7")
	f.user(t, "lee", 1, "farm6", "farm7")
	f.user(t, "park", 1, "farm7")
	f.user(t, "choi", 2, "farm6", "farm7")
	f.user(t, "none", 0, "farm6")

	var kim string
	for _, step := range []struct{ user, want string }{
		{"kim", "farm6 0,1" + control + " 0,1"}, // the best node
		{"lee", "farm7 0" + control + " 0"},     // farm6 has none left
		{"park", "farm7 1" + control + " 1"},
		{"none", "farm6  "}, // wants none, and so has none
	} {
		answer := f.create(t, step.user, 201)
		pod := podNamed(t, f.World, answer.Text("pod_name"))
		if got := gpusOf(pod); got != step.want || answer.Text("node") != pod.Spec.NodeName {
			t.Errorf("%s on %s: %q, want %q", step.user, answer.Text("node"), got, step.want)
		}
		if step.user == "kim" {
			kim = pod.Name
		}
	}
	f.wantRows(t, "full", "farm6 0 kim", "farm6 1 kim", "farm7 0 lee", "farm7 1 park")
	nodes := f.nodesOfPorts(t)
	if diff := cmp.Diff(map[string]string{"kim": "farm6", "lee": "farm7", "park": "farm7", "none": "farm6"}, nodes); diff != "" {
		t.Errorf("nodes in the rows of NodePorts (-want +got)\n%s", diff)
	}

	full := f.create(t, "choi", 400)
	for _, text := range []string{"not enough GPUs", "farm6: 0 of 2 GPUs free, 2 asked for: GPU 0 has " + kim + " (kim)", "farm7: 0 of 2 GPUs free", "(lee)", "(park)"} {
		if !strings.Contains(full.Text("detail"), text) {
			t.Errorf("detail %q lacks %q", full.Text("detail"), text)
		}
	}
	if full.Text("step") != "BUILD_POD_SPEC" || full.Text("error") != "POD_SPEC_BUILD_FAILED" {
		t.Errorf("full: %s", full.Body)
	}
	untouched(t, f.World, 4)
	f.wantRows(t, "refused", "farm6 0 kim", "farm6 1 kim", "farm7 0 lee", "farm7 1 park")

	// Who looks sees who has what.
	told := map[string]string{}
	for _, entry := range looked(t, f.service.URL, "/workspaces", 200).JSON["workspaces"].([]any) {
		one := entry.(map[string]any)
		told[fmt.Sprint(one["username"])] = fmt.Sprintf("%v %v", one["gpus"], one["gpu_indexes"])
	}
	if diff := cmp.Diff(map[string]string{"kim": "2 [0 1]", "lee": "1 [0]", "park": "1 [1]", "none": "0 <nil>"}, told); diff != "" {
		t.Errorf("GET /workspaces (-want +got)\n%s", diff)
	}
	if code, out, errs := byHand(t, f.World, nil, "pods", "list", "--server", f.service.URL); code != 0 || !strings.Contains(out, "  2  0,1  ") {
		t.Errorf("pods list: exit %d\n%s%s", code, out, errs)
	}

	// What goes is free for the next one.
	deletePod(t, f.service, kim)
	f.wantRows(t, "deleted", "farm7 0 lee", "farm7 1 park")
	if node := f.create(t, "choi", 201).Text("node"); node != "farm6" {
		t.Errorf("node %s", node)
	}
}

// nodesOfPorts maps each user with NodePorts to the node in their rows.
func (f assigningFarm) nodesOfPorts(t *testing.T) map[string]string {
	t.Helper()
	result, err := f.MariaDB.Open(t, f.Database).QueryContext(t.Context(), "SELECT DISTINCT username, node_name FROM nodeport_allocations")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = result.Close() }()
	nodes := map[string]string{}
	for result.Next() {
		var user, node string
		if err := result.Scan(&user, &node); err != nil {
			t.Fatal(err)
		}
		nodes[user] += node
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	return nodes
}

func TestAssignmentLeastLoaded(t *testing.T) {
	t.Parallel()
	f := newAssigningFarm(t, "least-loaded", nil)
	f.Prom.SetLoads(t, map[string][]testkit.GPU{"farm6": {{Util: 90}, {Util: 5}, {Util: 50}}})
	for _, step := range []struct {
		user string
		n    int
		want string
	}{
		{"kim", 1, "farm6 1" + control + " 1"}, {"lee", 1, "farm6 2" + control + " 2"}, {"park", 2, "farm6 0,1" + control + " 0,1"}, // all three are taken: GPU 1 is the least busy that is shared
	} {
		f.user(t, step.user, step.n, "farm6")
		if got := gpusOf(podNamed(t, f.World, f.create(t, step.user, 201).Text("pod_name"))); got != step.want {
			t.Errorf("%s: %q, want %q", step.user, got, step.want)
		}
	}
	f.user(t, "choi", 4, "farm6")
	if answer := f.create(t, "choi", 400); !strings.Contains(answer.Text("detail"), "farm6: has 3 GPUs, 4 asked for") {
		t.Errorf("more than there are: %s", answer.Body)
	}
	// Of farm8 nobody tells anything.
	f.user(t, "han", 2, "farm8")
	blind := f.create(t, "han", 201)
	if got := gpusOf(podNamed(t, f.World, blind.Text("pod_name"))); got != "farm8 0,1"+control+" 0,1" {
		t.Errorf("without metrics: %q", got)
	}
	if !strings.Contains(blind.Text("warnings"), "nobody tells which GPUs farm8 has") {
		t.Errorf("nobody is told that the GPUs are not known: %s", blind.Body)
	}
}

// TestAssignmentOfConcurrentCreates sends creates to two replicas at once: no GPU gets two workspaces, and
// those that are refused are as many as there are too few.
func TestAssignmentOfConcurrentCreates(t *testing.T) {
	t.Parallel()
	f := newAssigningFarm(t, "exclusive", map[string]string{"LEDGER_LOCK": "mysql"})
	bases := []string{f.service.URL, f.Service(t, nil).URL}
	const users = 8 // for six GPUs
	for i := range users {
		f.user(t, fmt.Sprintf("u%d", i), 1, "farm5", "farm6", "farm7")
	}
	var all sync.WaitGroup
	statuses := make([]int, users)
	for i := range users {
		all.Go(func() {
			answer, err := world.Send(t.Context(), bases[i%2], "POST", "/create-pod", fmt.Sprintf(`{"username":"u%d"}`, i))
			if err != nil {
				t.Error(err)
			}
			statuses[i] = answer.Status
		})
	}
	all.Wait()
	slices.Sort(statuses)
	if diff := cmp.Diff([]int{201, 201, 201, 201, 201, 201, 400, 400}, statuses); diff != "" {
		t.Errorf("statuses (-want +got)\n%s", diff)
	}
	seen := map[string]bool{}
	for _, pod := range f.Pods(t) {
		if gpu := gpusOf(pod); seen[gpu] {
			t.Errorf("two workspaces have %s", gpu)
		} else {
			seen[gpu] = true
		}
	}
	if len(f.rows(t)) != 6 || len(seen) != 6 {
		t.Errorf("%d pods, rows %q", len(seen), f.rows(t))
	}
	if n := f.Operations(t); n != 0 {
		t.Errorf("%d records stay", n)
	}
}

// A launch that fails gives back what it took, and a migration takes and gives back.
func TestAssignmentOfFailuresAndMigrations(t *testing.T) {
	t.Parallel()
	f := newAssigningFarm(t, "exclusive", nil)
	f.user(t, "kim", 2, "farm5")
	f.create(t, "kim", 201)
	f.user(t, "sick", 1, "farm6")
	f.AdminBE.SetConfig("sick", map[string]any{"image": "dguailab/decs:" + testkit.ImageNeverPull, "gpu_nodes": []any{map[string]any{"node_name": "farm6", "num_gpu": 1}}})
	f.create(t, "sick", 500)
	f.wantRows(t, "a launch that failed", "farm5 0 kim", "farm5 1 kim")

	// The best node has one GPU left, the next one two.
	f.user(t, "lee", 1, "farm6")
	lee := f.create(t, "lee", 201).Text("pod_name")
	nodes := []any{}
	for _, name := range []string{"farm5", "farm6", "farm7"} {
		nodes = append(nodes, map[string]any{"node_name": name, "num_gpu": 2})
	}
	f.AdminBE.SetConfig("kim", map[string]any{"gpu_nodes": nodes})
	const migrate = `{"username":"kim","nodes":["farm5","farm6","farm7"]}`
	stays := world.Call(t, f.service.URL, "POST", "/migrate", `{"username":"kim","nodes":["farm5","farm6"]}`, 200)
	if stays.Text("status") != "skipped" || stays.Text("reason") != "no_candidate_node" {
		t.Errorf("no better node has two: %s", stays.Body)
	}
	f.wantRows(t, "a migration that is none", "farm5 0 kim", "farm5 1 kim", "farm6 0 lee")
	untouched(t, f.World, 2)
	moved := world.Call(t, f.service.URL, "POST", "/migrate", migrate, 200)
	if moved.Text("status") != "migrated" || moved.Text("to") != "farm7" {
		t.Errorf("to the next better node: %s", moved.Body)
	}
	f.wantRows(t, "migrated", "farm6 0 lee", "farm7 0 kim", "farm7 1 kim")
	if got := gpusOf(podNamed(t, f.World, moved.Text("new_pod"))); got != "farm7 0,1"+control+" 0,1" {
		t.Errorf("the new pod: %q", got)
	}
	deletePod(t, f.service, lee)
	untouched(t, f.World, 1)
}

// TestAssignmentIsAuditedAndMended: rows of pods that are gone, pods without rows, and two on one GPU.
func TestAssignmentIsAuditedAndMended(t *testing.T) {
	t.Parallel()
	f := newAssigningFarm(t, "exclusive", map[string]string{"LEDGER_LOCK": "mysql", "RECONCILE_INTERVAL": "0", "RECONCILE_GRACE": "1ms", "AUDIT_INTERVAL": "0"})
	f.user(t, "kim", 1, "farm6")
	f.user(t, "lee", 1, "farm6")
	kim := f.create(t, "kim", 201).Text("pod_name")
	f.create(t, "lee", 201)
	if code, out, errs := byHand(t, f.World, nil, "audit"); code != 0 {
		t.Fatalf("a whole farm: exit %d\n%s%s", code, out, errs)
	}
	sqlExec(t, f.World, "DELETE FROM config_server_gpus WHERE pod_name = ?", kim)
	sqlExec(t, f.World, "INSERT INTO config_server_gpus (username, pod_name, node_name, gpu_index, alone, created_at) VALUES ('gone', 'ailab-gone-0000000e', 'farm6', 3, 1, '2026-01-01 00:00:00')")
	_, out, _ := byHand(t, f.World, nil, "audit")
	for _, text := range []string{"gpu-row-without-pod", "ailab-gone-0000000e", "pod-without-gpu-row", kim} {
		if !strings.Contains(out, text) {
			t.Errorf("audit lacks %q:\n%s", text, out)
		}
	}
	if code, out, errs := byHand(t, f.World, nil, "reconcile"); code != 1 { // it found something
		t.Errorf("reconcile: exit %d\n%s%s", code, out, errs)
	}
	f.wantRows(t, "mended", "farm6 0 kim", "farm6 1 lee")
	if code, out, errs := byHand(t, f.World, nil, "audit"); code != 0 {
		t.Errorf("mended: exit %d\n%s%s", code, out, errs)
	}

	// A replica without the setting gives everybody the first GPU: both are adopted, and told.
	first := f.Service(t, map[string]string{"GPU_ASSIGNMENT": "first"})
	f.user(t, "park", 1, "farm6")
	world.Call(t, first.URL, "POST", "/create-pod", `{"username":"park"}`, 201)
	f.wantRows(t, "without the setting", "farm6 0 kim", "farm6 1 lee")
	if code, out, errs := byHand(t, f.World, nil, "reconcile"); code != 1 { // it found something
		t.Errorf("reconcile: exit %d\n%s%s", code, out, errs)
	}
	f.wantRows(t, "adopted", "farm6 0 kim", "farm6 0 park", "farm6 1 lee")
	code, out, _ := byHand(t, f.World, nil, "audit")
	if code != 1 || !strings.Contains(out, "shared-gpu") || !strings.Contains(out, "farm6/0") {
		t.Errorf("two on one GPU: exit %d\n%s", code, out)
	}
}

func TestAssignmentIsCounted(t *testing.T) {
	t.Parallel()
	f := newAssigningFarm(t, "exclusive", nil)
	f.user(t, "kim", 1, "farm6")
	f.create(t, "kim", 201)
	s := f.Service(t, nil) // counts as it starts
	lines := []string{
		`config_server_gpu_devices{node="farm6",state="used"} 1`, `config_server_gpu_devices{node="farm6",state="free"} 1`, `config_server_gpu_devices{node="farm5",state="free"} 2`,
	}
	testkit.WaitFor(t, testLimit, "the count of device files", func(ctx context.Context) error {
		answer, err := world.Send(ctx, s.URL, "GET", "/metrics", "")
		if err != nil {
			return err
		}
		for _, line := range lines {
			if !strings.Contains(string(answer.Body), line+"\n") {
				return errors.New("the metrics lack " + line)
			}
		}
		return nil
	})
	if answer := world.Call(t, f.Service(t, map[string]string{"GPU_ASSIGNMENT": "first"}).URL, "GET", "/metrics", "", 200); strings.Contains(string(answer.Body), "config_server_gpu_devices{") {
		t.Error("they are counted although nobody assigns them")
	}
}
