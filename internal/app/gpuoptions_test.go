package app_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

const (
	nvidiaGPU   = "nvidia.com/gpu"
	modelLabel  = "nvidia.com/gpu.product"
	optionL40S  = "nvidia.com/gpu/L40S"
	optionA100  = "nvidia.com/gpu/A100"
	anyOptionID = "the options are"
)

// gpuWorld is a farm with GPUs of two models and a real scheduler. farm6, the least loaded node, has the rare
// model; farm8 has no GPU, and farm7 keeps everybody away who does not ask for one.
func gpuWorld(t *testing.T, env map[string]string) (*world.World, *testkit.ServiceProcess) {
	t.Helper()
	cluster := testkit.OwnCluster(t)
	kept := corev1.Taint{Key: nvidiaGPU, Value: "present", Effect: corev1.TaintEffectNoSchedule}
	for _, node := range []testkit.Node{
		{Name: "farm5", Labels: map[string]string{modelLabel: "L40S"}, Resources: map[string]string{nvidiaGPU: "4"}},
		{Name: "farm6", Labels: map[string]string{modelLabel: "A100"}, Resources: map[string]string{nvidiaGPU: "2"}},
		{Name: "farm7", Labels: map[string]string{modelLabel: "L40S"}, Resources: map[string]string{nvidiaGPU: "4"}, Taints: []corev1.Taint{kept}},
	} {
		cluster.SetNode(t, node)
	}
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "nvidia"}, Handler: "nvidia"}
	if _, err := cluster.Admin(t).NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Scheduler(t)
	all := map[string]string{"GPU_SCAN_INTERVAL": "100ms"}
	maps.Copy(all, env)
	w := world.New(t, world.Options{Cluster: cluster, Env: all})
	return w, w.Service(t, nil)
}

// gpuUser makes an account whose user configuration has these fields over the recorded ones.
func gpuUser(t *testing.T, w *world.World, s *testkit.ServiceProcess, name string, fields map[string]any) {
	t.Helper()
	w.AdminBE.SetConfig(name, fields)
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody(name), 201)
}

func createBody(user, option string) string {
	if option == "" {
		return fmt.Sprintf(`{"username":%q}`, user)
	}
	return fmt.Sprintf(`{"username":%q,"gpu_option":%q}`, user, option)
}

func podNamed(t *testing.T, w *world.World, name string) corev1.Pod {
	t.Helper()
	for _, pod := range w.Pods(t) {
		if pod.Name == name {
			return pod
		}
	}
	t.Fatalf("there is no pod %s", name)
	return corev1.Pod{}
}

// offered maps each option to what is free of its total.
func offered(t *testing.T, s *testkit.ServiceProcess) map[string]string {
	t.Helper()
	answer := looked(t, s.URL, "/gpu-options", 200)
	all := map[string]string{}
	for _, entry := range answer.JSON["options"].([]any) {
		option := entry.(map[string]any)
		all[fmt.Sprint(option["id"])] = fmt.Sprintf("%v/%v", option["free"], option["total"])
	}
	return all
}

// untouched fails the test if anything of a refused workspace is left.
func untouched(t *testing.T, w *world.World, pods int) {
	t.Helper()
	if left := w.Pods(t); len(left) != pods {
		t.Errorf("%d pods, want %d", len(left), pods)
	}
	if rows := w.Rows(t); len(rows) != 2*pods {
		t.Errorf("rows %v for %d workspaces", rows, pods)
	}
	if n := w.Operations(t); n != 0 {
		t.Errorf("%d records of operations stay", n)
	}
}

func TestGPUOptionsAreBoundByTheScheduler(t *testing.T) {
	t.Parallel()
	w, s := gpuWorld(t, map[string]string{"POD_UNSCHEDULABLE_TIMEOUT": "3s"})
	if diff := cmp.Diff(map[string]string{optionL40S: "8/8", optionA100: "2/2"}, offered(t, s)); diff != "" {
		t.Fatalf("options (-want +got)\n%s", diff)
	}
	twoEach := []any{}
	for _, name := range []string{"FARM5", "farm6", "farm7", "farm8"} {
		twoEach = append(twoEach, map[string]any{"node_name": name, "num_gpu": 2})
	}
	gpuUser(t, w, s, "kim", map[string]any{"gpu_nodes": twoEach})

	// farm6 is idle and has another model, farm8 has no GPU: the better of the other two is taken, taint and all.
	first := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", optionL40S), 201)
	if first.Text("node") != "farm7" {
		t.Fatalf("node %s, want farm7: %s", first.Text("node"), first.Body)
	}
	pod := podNamed(t, w, first.Text("pod_name"))
	if pod.Spec.NodeName != "farm7" || pod.Annotations[farm.AnnotationGPU] != optionL40S {
		t.Errorf("bound to %q, annotations %v", pod.Spec.NodeName, pod.Annotations)
	}
	requests := pod.Spec.Containers[0].Resources.Requests[nvidiaGPU]
	if requests.Value() != 2 {
		t.Errorf("it requests %s GPUs, want 2", requests.String())
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.HostPath != nil {
			t.Errorf("it mounts %s beside the option", volume.HostPath.Path)
		}
	}
	if pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName != "nvidia" {
		t.Errorf("runtimeClassName %v", pod.Spec.RuntimeClassName)
	}
	testkit.WaitFor(t, testLimit, "the scheduler to say that it has bound the pod", func(ctx context.Context) error {
		events, err := w.Cluster.Admin(t).CoreV1().Events(w.Cluster.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Scheduled,involvedObject.name=" + pod.Name})
		if err == nil && len(events.Items) == 0 {
			err = errors.New("there is no such event")
		}
		return err
	})

	// What is full is left out; when nothing is left, everybody is told why, and nothing is made.
	nodes := []string{}
	for range 3 {
		nodes = append(nodes, world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", optionL40S), 201).Text("node"))
	}
	if diff := cmp.Diff([]string{"farm7", "farm5", "farm5"}, nodes); diff != "" {
		t.Errorf("nodes of the next workspaces (-want +got)\n%s", diff)
	}
	full := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", optionL40S), 400)
	if full.Text("step") != "BUILD_POD_SPEC" || full.Text("error") != "POD_SPEC_BUILD_FAILED" {
		t.Errorf("full: %s", full.Body)
	}
	for _, reason := range []string{
		"no suitable node", "farm5: 0 of 4 nvidia.com/gpu free, 2 asked for", "farm6: has no " + optionL40S, "farm7: 0 of 4 nvidia.com/gpu free", "farm8: has no " + optionL40S,
	} {
		if !strings.Contains(full.Text("detail"), reason) {
			t.Errorf("detail %q lacks %q", full.Text("detail"), reason)
		}
	}
	untouched(t, w, 4)
	if diff := cmp.Diff(map[string]string{optionL40S: "0/8", optionA100: "2/2"}, offered(t, s)); diff != "" {
		t.Errorf("options of a full farm (-want +got)\n%s", diff)
	}

	metrics := string(world.Call(t, s.URL, "GET", "/metrics", "", 200).Body)
	for _, line := range []string{
		`config_server_gpus{model="L40S",resource="nvidia.com/gpu",state="free"} 0`, `config_server_gpus{model="L40S",resource="nvidia.com/gpu",state="used"} 8`,
		`config_server_gpus{model="A100",resource="nvidia.com/gpu",state="free"} 2`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("the metrics lack %s", line)
		}
	}

	// A node whose GPUs are free and whose processors are not: only the scheduler knows, and its words are told.
	filler := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "filler"},
		Spec: corev1.PodSpec{NodeName: "farm6", Containers: []corev1.Container{{
			Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")}},
		}}},
	}
	if _, err := w.Cluster.Admin(t).CoreV1().Pods("default").Create(t.Context(), filler, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stuck := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", optionA100), 500)
	if stuck.Text("step") != "WAIT_POD_READY" || !strings.Contains(stuck.Text("detail"), "Unschedulable") || !strings.Contains(stuck.Text("detail"), "Insufficient cpu") {
		t.Errorf("stuck: %s", stuck.Body)
	}
	untouched(t, w, 4)

	// A workspace that goes frees its GPUs at once for the next one.
	deletePod(t, s, first.Text("pod_name"))
	again := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", optionL40S), 201)
	if again.Text("node") != "farm7" {
		t.Errorf("node %s after a workspace there has gone", again.Text("node"))
	}
	listed := looked(t, s.URL, "/workspaces", 200)
	for _, entry := range listed.JSON["workspaces"].([]any) {
		one := entry.(map[string]any)
		if fmt.Sprint(one["gpus"]) != "2" || fmt.Sprint(one["gpu_option"]) != optionL40S {
			t.Errorf("listed as %v", one)
		}
	}
}

func TestGPUOptionsOfTheUserConfiguration(t *testing.T) {
	t.Parallel()
	w, s := gpuWorld(t, nil)
	gpuUser(t, w, s, "kim", map[string]any{"gpu_option": optionA100})
	gpuUser(t, w, s, "lee", map[string]any{"gpu_option": optionL40S, "gpu_nodes": nil})
	gpuUser(t, w, s, "park", map[string]any{"gpu_option": "nvidia.com/gpu/H100"})
	gpuUser(t, w, s, "choi", nil)

	// num_gpu of its node is 2, so that the second workspace of this user finds no free A100.
	kim := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", ""), 201)
	if kim.Text("node") != "farm6" || podNamed(t, w, kim.Text("pod_name")).Annotations[farm.AnnotationGPU] != optionA100 {
		t.Errorf("the configuration's option: %s", kim.Body)
	}
	other := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", optionL40S), 201)
	if other.Text("node") != "farm7" || podNamed(t, w, other.Text("pod_name")).Annotations[farm.AnnotationGPU] != optionL40S {
		t.Errorf("the request's option comes first: %s", other.Body)
	}
	// Without an entry of the node, an option asks for one GPU.
	lee := world.Call(t, s.URL, "POST", "/create-pod", createBody("lee", ""), 201)
	requests := podNamed(t, w, lee.Text("pod_name")).Spec.Containers[0].Resources.Requests[nvidiaGPU]
	if lee.Text("node") != "farm7" || requests.Value() != 1 {
		t.Errorf("node %s, %s GPUs, want farm7 and 1", lee.Text("node"), requests.String())
	}
	// Without an option the pod is the usual one, beside the scheduler.
	choi := world.Call(t, s.URL, "POST", "/create-pod", createBody("choi", ""), 201)
	plain := podNamed(t, w, choi.Text("pod_name"))
	if choi.Text("node") != "farm6" || plain.Spec.Affinity != nil || plain.Spec.RuntimeClassName != nil || plain.Annotations != nil {
		t.Errorf("without an option: node %s, affinity %v, annotations %v", choi.Text("node"), plain.Spec.Affinity, plain.Annotations)
	}

	for name, tc := range map[string]struct{ body, step, code string }{
		"unknown in the request":       {createBody("choi", "nvidia.com/gpu/H100"), "VALIDATE_REQUEST", "INVALID_CREATE_POD_REQUEST"},
		"unknown in the configuration": {createBody("park", ""), "BUILD_POD_SPEC", "POD_SPEC_BUILD_FAILED"},
		"no text":                      {`{"username":"choi","gpu_option":1}`, "VALIDATE_REQUEST", "INVALID_CREATE_POD_REQUEST"},
	} {
		refused := world.Call(t, s.URL, "POST", "/create-pod", tc.body, 400)
		if refused.Text("step") != tc.step || refused.Text("error") != tc.code {
			t.Errorf("%s: %s", name, refused.Body)
		}
		if name != "no text" && !strings.Contains(refused.Text("detail"), anyOptionID+" "+optionA100+", "+optionL40S) {
			t.Errorf("%s: detail %q does not name the options", name, refused.Text("detail"))
		}
		if fmt.Sprint(refused.JSON["progress"]) != "map[]" {
			t.Errorf("%s: something was undone: %s", name, refused.Body)
		}
	}
	untouched(t, w, 4)

	// A migration looks for the configuration's option: of the better nodes, none has the model.
	w.Prom.SetLoads(t, map[string][]testkit.GPU{"farm6": {{Util: 90, Used: 1000, Temp: 40}}, "farm5": {{Util: 20, Used: 1000, Temp: 40}}, "farm7": {{Util: 1, Used: 1000, Temp: 40}}})
	deletePod(t, s, other.Text("pod_name"))
	stays := world.Call(t, s.URL, "POST", "/migrate", `{"username":"kim","nodes":["farm5","farm6","farm7"]}`, 200)
	if stays.Text("status") != "skipped" || stays.Text("reason") != "no_candidate_node" {
		t.Errorf("no better node has the GPU: %s", stays.Body)
	}
	// With the other model, the best node is full and the next one is taken.
	w.AdminBE.SetConfig("kim", map[string]any{"gpu_option": optionL40S})
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("kang"), 201)
	w.AdminBE.SetConfig("kang", map[string]any{"gpu_nodes": []any{map[string]any{"node_name": "farm7", "num_gpu": 3}}, "gpu_option": optionL40S})
	world.Call(t, s.URL, "POST", "/create-pod", createBody("kang", ""), 201)
	moved := world.Call(t, s.URL, "POST", "/migrate", `{"username":"kim","nodes":["farm5","farm6","farm7"]}`, 200)
	if moved.Text("status") != "migrated" || moved.Text("to") != "farm5" {
		t.Errorf("the next better node: %s", moved.Body)
	}
	// An option that does not exist stops a migration before anything is saved.
	w.AdminBE.SetConfig("kim", map[string]any{"gpu_option": "gone"})
	w.Prom.SetLoads(t, map[string][]testkit.GPU{"farm5": {{Util: 90, Used: 1000, Temp: 40}}, "farm6": {{Util: 1, Used: 1000, Temp: 40}}, "farm7": {{Util: 50, Used: 1000, Temp: 40}}})
	saves := len(w.Cluster.Execs(t))
	if gone := world.Call(t, s.URL, "POST", "/migrate", `{"username":"kim","nodes":["farm5","farm6"]}`, 400); !strings.Contains(gone.Text("error"), anyOptionID) {
		t.Errorf("a migration to an option that is gone: %s", gone.Body)
	}
	if now := len(w.Cluster.Execs(t)); now != saves {
		t.Errorf("it was saved before: %d calls, then %d", saves, now)
	}
}
