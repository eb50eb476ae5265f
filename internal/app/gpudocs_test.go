package app_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

const gpuPage = "../../docs/gpu.md"

// TestGPUOptionsExamplesOfThePage does what the page says, on a farm as it has it: files are written, commands are run.
// Then it looks at what came of them.
func TestGPUOptionsExamplesOfThePage(t *testing.T) {
	t.Parallel()
	k := testkit.OwnCluster(t)
	k.SetNode(t, testkit.Node{Name: "farm5", Labels: map[string]string{modelLabel: "NVIDIA-L40S"}, Resources: map[string]string{nvidiaGPU: "4"}})
	k.SetNode(t, testkit.Node{Name: "farm6", Resources: map[string]string{"nvidia.com/mig-1g.10gb": "7"}})
	node := "farm7"
	k.SetNode(t, testkit.Node{Name: node, Labels: map[string]string{"amd.com/gpu.product-name": "AMD_Radeon_PRO_W7900"}})
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "farm7-amd"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.amd.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu-0"}},
	}}
	if _, err := k.Admin(t).ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	k.Scheduler(t)
	w := world.New(t, world.Options{Cluster: k, Env: map[string]string{"GPU_SCAN_INTERVAL": "100ms"}})
	s := w.Service(t, nil)
	gpuUser(t, w, s, "kim", map[string]any{"gpu_nodes": []any{
		map[string]any{"node_name": "farm5", "num_gpu": 1}, map[string]any{"node_name": "farm6", "num_gpu": 1}, map[string]any{"node_name": "farm7", "num_gpu": 1},
	}})
	binary, err := testkit.ServiceBinary(testkit.Build{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"nvidia.com/gpu/NVIDIA-L40S": "4/4", "nvidia.com/mig-1g.10gb": "7/7"}, offered(t, s)); diff != "" {
		t.Errorf("options, as the page shows them first (-want +got)\n%s", diff)
	}
	files, commands := followPage(t, gpuPage, map[string]string{"kubectl": testkit.Built(t, "kubectl"), "config-server": binary},
		"KUBECONFIG="+k.AdminKubeconfig(t), "API="+s.URL)
	if files != 4 || commands != 4 {
		t.Errorf("%d files and %d blocks of commands were found in the page", files, commands)
	}

	places, capabilities := map[string]string{}, map[string]string{}
	for _, pod := range w.Pods(t) {
		option := pod.Annotations[farm.AnnotationGPU]
		places[option] = pod.Spec.NodeName
		for _, variable := range pod.Spec.Containers[0].Env {
			if variable.Name == "NVIDIA_DRIVER_CAPABILITIES" {
				capabilities[option] = variable.Value
			}
		}
	}
	if diff := cmp.Diff(map[string]string{"nvidia.com/gpu/NVIDIA-L40S": "farm5", "radeon": "farm7", "slice": "farm6"}, places); diff != "" {
		t.Errorf("nodes of the workspaces (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"nvidia.com/gpu/NVIDIA-L40S": "all", "slice": "compute,utility"}, capabilities); diff != "" {
		t.Errorf("capabilities (-want +got)\n%s", diff)
	}
	// After the page's last command: what the quota caps is gone.
	if diff := cmp.Diff(map[string]string{"radeon": "<nil>/<nil>", "slice": "6/7"}, offered(t, s)); diff != "" {
		t.Errorf("options under the cap (-want +got)\n%s", diff)
	}
}

// TestGPUOptionsPageNamesTestsThatThereAre holds the page's table to what is tested.
func TestGPUOptionsPageNamesTestsThatThereAre(t *testing.T) {
	t.Parallel()
	namesOfTestsExist(t, gpuPage, 40)
}
