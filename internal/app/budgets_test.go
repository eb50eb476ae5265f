package app_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// TestBudgetsOfTheService has pods wait for what kubelet or the scheduler says, and looks when the
// service gives up, what it says, and that nothing is left.
func TestBudgetsOfTheService(t *testing.T) {
	t.Parallel()
	f := shapedFarm{world.New(t, world.Options{})}
	grantTemplates(t, f.Cluster)
	f.Cluster.Scheduler(t)
	waits := func(reason string) string {
		return fmt.Sprintf(`{metadata: {annotations: {%s: %s}}, spec: {containers: [{name: shell, image: unused}]}}`, testkit.AnnotationWaits, reason)
	}
	first := func(reason string) string {
		return fmt.Sprintf(`{metadata: {annotations: {%s: %s}}, spec: {initContainers: [{name: prepare, image: "i:1"}], containers: [{name: shell, image: unused}]}}`, testkit.AnnotationWaits, reason)
	}
	pulling := map[string]string{"IMAGE_PULL_POLICY": "IfNotPresent", "POD_PENDING_TIMEOUT": "6s", "POD_PULL_GRACE": "2s", "POD_UNSCHEDULABLE_TIMEOUT": "3s"}
	capped := maps.Clone(pulling)
	maps.Copy(capped, map[string]string{"POD_REQUEST_BUDGET": "8s", "POD_PENDING_TIMEOUT": "100s", "POD_READY_TIMEOUT": "8s", "POD_DELETE_TIMEOUT": "8s"})
	services := map[string]string{
		"pulling": f.Service(t, pulling).URL,
		"local":   f.Service(t, map[string]string{"POD_READY_TIMEOUT": "2s", "POD_PENDING_TIMEOUT": "5s"}).URL,
		"capped":  f.Service(t, capped).URL,
	}
	// The GPU option of these tests asks for what no node has.
	f.store(t, gpuTemplate, `{spec: {containers: [{name: shell, image: unused, resources: {requests: {ephemeral-storage: 1Ti}}}]}}`)
	f.label(t, gpuTemplate)

	const second = time.Second
	type budget struct {
		service, template string
		option            string
		least, most       time.Duration
		says              string
	}
	cases := map[string]budget{
		"all-in-all":     {service: "pulling", template: waits("ContainerCreating"), least: 6 * second, most: 12 * second, says: "timed out after 6s: phase Pending; container shell waits: ContainerCreating"},
		"pull-fails":     {service: "pulling", template: waits("ImagePullBackOff"), least: 2 * second, most: 6 * second, says: "timed out after 2s in which an image could not be pulled: phase Pending; container shell waits: ImagePullBackOff: as the test says"},
		"init-pull":      {service: "pulling", template: first("ErrImagePull"), least: 2 * second, most: 6 * second, says: "in which an image could not be pulled: phase Pending; container prepare waits: ErrImagePull"},
		"no-node":        {service: "pulling", template: waits("ContainerCreating"), option: gpuTemplate, least: 3 * second, most: 6 * second, says: "timed out after 3s in which no node took the pod: phase Pending; not PodScheduled: Unschedulable: 0/4 nodes are available: "},
		"nothing-pulled": {service: "local", template: waits("ContainerCreating"), least: 2 * second, most: 5 * second, says: "timed out after 2s: phase Pending"},
		"sidecar-pulls":  {service: "local", template: first("ContainerCreating"), least: 5 * second, most: 10 * second, says: "timed out after 5s: phase Pending; container prepare waits: ContainerCreating"},
		"request-ends":   {service: "capped", template: waits("ContainerCreating"), least: 6 * second, most: 10 * second, says: "timed out after 7."},
	}
	for _, reason := range []string{"CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "InvalidImageName", "RunContainerError"} {
		name := strings.ToLower(reason)
		cases[name] = budget{service: "pulling", template: waits(reason), most: 5 * second, says: "the pod can no longer become Ready: container shell: " + reason + ": as the test says"}
		cases["init-"+name] = budget{service: "pulling", template: first(reason), most: 5 * second, says: "the pod can no longer become Ready: container prepare: " + reason + ": as the test says"}
	}
	for name, test := range cases {
		f.store(t, name, test.template)
		f.user(t, services["local"], name, name)
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			body := fmt.Sprintf(`{"username":%q,"gpu_option":%q}`, name, test.option)
			begin := time.Now()
			answer := f.refuseBody(t, services[test.service], body, name, 500, "WAIT_POD_READY", "POD_READY_TIMEOUT")
			if took := time.Since(begin); took < test.least || took > test.most {
				t.Errorf("it took %s, want %s to %s", took, test.least, test.most)
			}
			if !strings.Contains(answer.Text("detail"), test.says) {
				t.Errorf("detail %q, want %q in it", answer.Text("detail"), test.says)
			}
		})
	}
}
