package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/cluster"
	"config-server/internal/gpuoptions"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// extendedResources lets an API server keep what a DeviceClass stands for, and a scheduler allocate it.
const extendedResources = "DRAExtendedResource"

func deviceClass(t *testing.T, k *testkit.KubeCluster, name, standsFor string) {
	t.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{
		ExtendedResourceName: &standsFor,
		Selectors:            []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", name)}}},
	}}
	if _, err := k.Admin(t).ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func hardQuota(t *testing.T, k *testkit.KubeCluster, name string, hard map[string]string) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for resource_, text := range hard {
		quota.Spec.Hard[corev1.ResourceName(resource_)] = resource.MustParse(text)
	}
	if _, err := k.Admin(t).CoreV1().ResourceQuotas(k.Namespace).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// gpuUse is a pod that uses a GPU of a node.
func gpuUse(t *testing.T, k *testkit.KubeCluster, namespace, node string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "user-"},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{nvidiaGPU: resource.MustParse("1")}},
		}}},
	}
	if _, err := k.Admin(t).CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// asServiceAccount is the service's own view of the cluster, with exactly its rights.
func asServiceAccount(k *testkit.KubeCluster) *cluster.Cluster {
	return cluster.FromREST(k.ServiceConfig(), cluster.Options{Namespace: k.Namespace})
}

// TestGPUOptionsWithoutARight takes one right after the other from the chart's ServiceAccount: the options degrade as
// docs/gpu.md says, and check names what is missing.
func TestGPUOptionsWithoutARight(t *testing.T) {
	t.Parallel()
	k := testkit.GatedCluster(t, extendedResources)
	k.SetNode(t, testkit.Node{Name: "farm5", Labels: map[string]string{modelLabel: "L40S"}, Resources: map[string]string{nvidiaGPU: "4"}})
	k.SetNode(t, testkit.Node{Name: "farm6", Resources: map[string]string{"amd.com/gpu": "1"}})
	deviceClass(t, k, "xe.example.com", "gpu.intel.com/xe")
	hardQuota(t, k, "gpus", map[string]string{"requests.nvidia.com/gpu": "2", "requests.amd.com/gpu": "0"})
	gpuUse(t, k, "default", "farm5")
	gpuUse(t, k, k.Namespace, "farm5")
	w := world.New(t, world.Options{Cluster: k})
	admin := k.Admin(t).CoreV1().PodTemplates(k.Namespace)

	const here, onlyHere = "nvidia.com/gpu/L40S nodes 2/4", "free counts the pods of this namespace only"
	const class = "gpu.intel.com/xe deviceclass -1/-1"
	type revoked struct {
		verb, resource string
		everywhere     bool
	}
	for name, tc := range map[string]struct {
		rights   []revoked
		template bool
		want     []string
		warning  string
		says     []string // of check
		result   string   // of check
	}{
		"all rights":               {want: []string{class, here}, result: "ok"},
		"all rights, a template":   {template: true, want: []string{"special template -1/-1"}, result: "ok"},
		"no PodTemplates":          {rights: []revoked{{"list", "podtemplates", false}}, template: true, want: []string{class, here}, says: []string{"missing: list podtemplates: no GPU options from PodTemplates"}, result: "LIMITED"},
		"no quotas":                {rights: []revoked{{"list", "resourcequotas", false}}, want: []string{"amd.com/gpu nodes 1/1", class, here}, says: []string{"missing: list resourcequotas: "}, result: "LIMITED"},
		"no DeviceClasses":         {rights: []revoked{{"list", "deviceclasses.resource.k8s.io", true}}, want: []string{here}, says: []string{"missing: list deviceclasses.resource.k8s.io in the cluster: "}, result: "LIMITED"},
		"no pods of others":        {rights: []revoked{{"list", "pods", true}}, want: []string{class, "nvidia.com/gpu/L40S nodes 3/4"}, warning: onlyHere, says: []string{"missing: list pods in the cluster: free GPUs count the pods of this namespace only"}, result: "LIMITED"},
		"no nodes":                 {rights: []revoked{{"list", "nodes", true}}, want: []string{"nvidia.com/gpu quota 2/2"}, says: []string{"missing: list nodes in the cluster: candidates are not known"}, result: "FAILED"},
		"no nodes and no quotas":   {rights: []revoked{{"list", "nodes", true}, {"list", "resourcequotas", false}}, want: nil, says: []string{"missing: list nodes", "missing: list resourcequotas"}, result: "FAILED"},
		"a template and no others": {rights: []revoked{{"list", "nodes", true}, {"list", "resourcequotas", false}, {"list", "deviceclasses.resource.k8s.io", true}, {"list", "pods", true}}, template: true, want: []string{"special template -1/-1"}, says: []string{"missing: list pods in the cluster"}, result: "FAILED"},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: they share the ServiceAccount
			if tc.template {
				template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "special", Labels: map[string]string{gpuoptions.DefaultLabel: "nvidia"}}}
				template.Template.Spec.Containers = []corev1.Container{{Name: "shell", Image: "unused"}}
				if _, err := admin.Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := admin.Delete(context.Background(), "special", metav1.DeleteOptions{}); err != nil {
						t.Error(err)
					}
				})
			}
			service := asServiceAccount(k)
			k.Grant(t, "least") // what the case before has taken
			for _, right := range tc.rights {
				k.Revoke(t, right.verb, right.resource, right.everywhere)
			}
			all := []revoked{{"list", "podtemplates", false}, {"list", "resourcequotas", false}, {"list", "deviceclasses.resource.k8s.io", true}, {"list", "pods", true}, {"list", "nodes", true}}
			testkit.WaitFor(t, testLimit, "the API server to know the rights", func(ctx context.Context) error {
				for _, right := range all {
					resource, group, _ := strings.Cut(right.resource, ".")
					allowed, err := service.May(ctx, cluster.Right{Verb: right.verb, Group: group, Resource: resource, Everywhere: right.everywhere})
					if want := !slices.Contains(tc.rights, right); err != nil || allowed != want {
						return fmt.Errorf("%s %s: allowed %t, error %v", right.verb, right.resource, allowed, err)
					}
				}
				return nil
			})

			offer, err := gpuoptions.New(gpuoptions.Options{Reader: service, Root: t.TempDir()}).List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range offer.Options {
				got = append(got, fmt.Sprintf("%s %s %d/%d", o.ID, o.Source, o.Free, o.Total))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options (-want +got)\n%s", diff)
			}
			if warnings := strings.Join(offer.Warnings, "; "); (warnings == "") != (tc.warning == "") || !strings.Contains(warnings, tc.warning) {
				t.Errorf("warnings %q, want %q", warnings, tc.warning)
			}

			code, out, errs := byHand(t, w, map[string]string{"STATE_DIR": t.TempDir()}, "check")
			if failed := tc.result == "FAILED"; failed != (code == 1) {
				t.Errorf("check: exit code %d\n%s%s", code, out, errs)
			}
			if tc.result != "ok" && !strings.Contains(out, tc.result) || tc.result == "ok" && strings.Contains(out, "missing") {
				t.Errorf("check does not say %s:\n%s", tc.result, out)
			}
			for _, words := range tc.says {
				if !strings.Contains(out, words) {
					t.Errorf("check does not say %q:\n%s", words, out)
				}
			}
		})
	}
}

// TestGPUOptionsWithoutNodes makes a workspace where nodes may not be read: with an option the scheduler looks at them.
func TestGPUOptionsWithoutNodes(t *testing.T) {
	t.Parallel()
	w, first := gpuWorld(t, map[string]string{"GPU_RUNTIME_CLASS": "none"})
	hardQuota(t, w.Cluster, "gpus", map[string]string{"requests.nvidia.com/gpu": "4"})
	gpuUser(t, w, first, "kim", nil)
	gpuUser(t, w, first, "lee", map[string]any{"gpu_nodes": nil})
	first.Kill()
	for _, verb := range []string{"list", "watch"} {
		w.Cluster.Revoke(t, verb, "nodes", true)
	}
	testkit.WaitFor(t, testLimit, "the API server to know the rights", func(ctx context.Context) error {
		allowed, err := asServiceAccount(w.Cluster).May(ctx, cluster.Right{Verb: "list", Resource: "nodes", Everywhere: true})
		if err == nil && allowed {
			err = fmt.Errorf("it still may")
		}
		return err
	})
	s := w.Service(t, nil)
	if diff := cmp.Diff(map[string]string{nvidiaGPU: "4/4"}, offered(t, s)); diff != "" {
		t.Fatalf("options (-want +got)\n%s", diff)
	}
	made := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", nvidiaGPU), 201)
	pod := podNamed(t, w, made.Text("pod_name"))
	if made.Text("node") != "farm6" || pod.Spec.NodeName != "farm6" || pod.Spec.RuntimeClassName != nil {
		t.Errorf("node %s, bound to %q, runtime class %v", made.Text("node"), pod.Spec.NodeName, pod.Spec.RuntimeClassName)
	}
	for name, body := range map[string]string{"without an option": createBody("kim", ""), "without named nodes": createBody("lee", nvidiaGPU)} {
		if refused := world.Call(t, s.URL, "POST", "/create-pod", body, 500); refused.Text("error") != "NODE_LIST_FAILED" {
			t.Errorf("%s: %s", name, refused.Body)
		}
	}
	untouched(t, w, 1)
}

// TestGPUOptionsOfAnAPIServerWithoutExtendedResources shows the trap: the class is stored, and what it stands for is not.
func TestGPUOptionsOfAnAPIServerWithoutExtendedResources(t *testing.T) {
	t.Parallel()
	k := testkit.OwnCluster(t)
	deviceClass(t, k, "xe.example.com", "gpu.intel.com/xe")
	classes, err := asServiceAccount(k).DeviceClasses(t.Context())
	if err != nil || len(classes) != 1 || classes[0].Spec.ExtendedResourceName != nil {
		t.Fatalf("classes %+v, error %v", classes, err)
	}
	offer, err := gpuoptions.New(gpuoptions.Options{Reader: asServiceAccount(k)}).List(t.Context())
	if err != nil || len(offer.Options) != 0 {
		t.Errorf("offer %+v, error %v", offer, err)
	}
}

// TestGPUOptionsOfDRA has a scheduler allocate a device of a ResourceSlice: for a template's claim, and for what a
// DeviceClass stands for.
func TestGPUOptionsOfDRA(t *testing.T) {
	t.Parallel()
	k := testkit.GatedCluster(t, extendedResources)
	k.Scheduler(t, extendedResources)
	const driver = "xe.example.com"
	deviceClass(t, k, driver, "gpu.intel.com/xe")
	admin, node := k.Admin(t), "farm5"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "farm5-xe"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
	}}
	if _, err := admin.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w := world.New(t, world.Options{Cluster: k, Env: map[string]string{"POD_UNSCHEDULABLE_TIMEOUT": "3s"}})
	s := w.Service(t, nil)
	gpuUser(t, w, s, "kim", map[string]any{"gpu_nodes": []any{map[string]any{"node_name": "farm5", "num_gpu": 1}}})

	if diff := cmp.Diff(map[string]string{"gpu.intel.com/xe": "<nil>/<nil>"}, offered(t, s)); diff != "" {
		t.Fatalf("options (-want +got)\n%s", diff)
	}
	extended := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", "gpu.intel.com/xe"), 201)
	pod := podNamed(t, w, extended.Text("pod_name"))
	if pod.Spec.NodeName != "farm5" || pod.Status.ExtendedResourceClaimStatus == nil {
		t.Errorf("bound to %q, claim of the extended resource %v", pod.Spec.NodeName, pod.Status.ExtendedResourceClaimStatus)
	}

	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: driver}}},
	}}}
	if _, err := admin.ResourceV1().ResourceClaims(k.Namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "claimed", Labels: map[string]string{gpuoptions.DefaultLabel: "xe"}}}
	template.Template.Spec = corev1.PodSpec{
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim.Name}},
		Containers: []corev1.Container{{
			Name: "shell", Image: "unused", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}}},
		}},
	}
	if _, err := admin.CoreV1().PodTemplates(k.Namespace).Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"claimed": "<nil>/<nil>"}, offered(t, s)); diff != "" {
		t.Fatalf("options of templates (-want +got)\n%s", diff)
	}
	claimed := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", "claimed"), 201)
	pod = podNamed(t, w, claimed.Text("pod_name"))
	shell := pod.Spec.Containers[0]
	if pod.Spec.NodeName != "farm5" || len(shell.Resources.Claims) != 1 || len(shell.Resources.Limits) != 2 || shell.Image == "unused" {
		t.Errorf("bound to %q, claims %v, limits %v, image %s", pod.Spec.NodeName, shell.Resources.Claims, shell.Resources.Limits, shell.Image)
	}
	for _, toleration := range pod.Spec.Tolerations {
		if !strings.HasPrefix(toleration.Key, "node.kubernetes.io/") { // every pod has those
			t.Errorf("toleration %+v beside the template", toleration)
		}
	}
	allocated, err := admin.ResourceV1().ResourceClaims(k.Namespace).Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil || allocated.Status.Allocation == nil {
		t.Errorf("the claim is not allocated: %+v, error %v", allocated.Status, err)
	}

	// A template that is gone is no option any more.
	if err := admin.CoreV1().PodTemplates(k.Namespace).Delete(t.Context(), "claimed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := world.Call(t, s.URL, "POST", "/create-pod", createBody("kim", "claimed"), 400)
	if !strings.Contains(gone.Text("detail"), anyOptionID+" gpu.intel.com/xe") {
		t.Errorf("a template that is gone: %s", gone.Body)
	}
	untouched(t, w, 2)
}
