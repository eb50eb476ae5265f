package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
	"config-server/internal/testkit/world"
)

const (
	// gpuTemplate is a GPU option that asks for nothing, so that every node of the tests has it.
	gpuTemplate = "any-gpu"
	gpuBody     = `{"username":"kim","gpu_option":"` + gpuTemplate + `"}`
	newPods     = `^POST .*/pods$`
)

// newGPUFarm is a farm with one GPU option of NVIDIA's, in a cluster of its own that has no runtime
// class. Its pods are bound by the test, as the scheduler would.
func newGPUFarm(t *testing.T, env map[string]string) shapedFarm {
	t.Helper()
	f := shapedFarm{world.New(t, world.Options{Env: env})}
	grantTemplates(t, f.Cluster)
	f.store(t, gpuTemplate, `{spec: {containers: [{name: shell, image: unused}]}}`)
	f.label(t, gpuTemplate)
	bindPods(t, f.Cluster)
	return f
}

// label makes a template a GPU option.
func (f shapedFarm) label(t *testing.T, template string) {
	t.Helper()
	kept := f.Cluster.Admin(t).CoreV1().PodTemplates(f.Cluster.Namespace)
	object, err := kept.Get(t.Context(), template, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	object.Labels = map[string]string{"ailab/gpu": "nvidia"}
	if _, err := kept.Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// bindPods plays the scheduler until the test ends: each pod goes to the node that it demands.
func bindPods(t *testing.T, c *testkit.KubeCluster) {
	t.Helper()
	pods := c.Admin(t).CoreV1().Pods(c.Namespace)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	watch, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Spec.Affinity == nil {
				continue
			}
			node := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
			binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
			// A pod that is bound or gone meanwhile needs nobody.
			_ = pods.Bind(ctx, binding, metav1.CreateOptions{})
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// TestTemplatesRuntimeClassThatTheClusterLacks: the service's proposal is dropped and told once; what a
// template asks for is not; and where the class is there, it is used.
func TestTemplatesRuntimeClassThatTheClusterLacks(t *testing.T) {
	t.Parallel()
	f := newGPUFarm(t, nil)
	f.store(t, "asks", `{spec: {runtimeClassName: nvidia, containers: [{name: shell, image: unused}]}}`)
	asked := between(t, f.World)
	service := f.Service(t, nil)
	f.user(t, service.URL, "kim", "")
	f.user(t, service.URL, "lee", "asks")

	for n := range 2 {
		asked.Fail(faultproxy.HTTPFault{Match: newPods, Hook: none})
		pod := f.podNamed(t, world.Call(t, service.URL, "POST", "/create-pod", gpuBody, 201).Text("pod_name"))
		if class := pod.Spec.RuntimeClassName; class != nil {
			t.Errorf("runtime class %s", *class)
		}
		if got := variables(pod.Spec.Containers[0])["NVIDIA_DRIVER_CAPABILITIES"]; got != "all" {
			t.Errorf("NVIDIA_DRIVER_CAPABILITIES=%s", got)
		}
		if hits := asked.Hits()[0]; hits != 2 {
			t.Errorf("workspace %d: the API server was sent %d pods, want 2", n, hits)
		}
	}
	if told := strings.Count(service.Log(t), "the cluster has no such RuntimeClass"); told != 1 {
		t.Errorf("it was told %d times, want once", told)
	}

	asked.Fail(faultproxy.HTTPFault{Match: newPods, Hook: none})
	answer := f.refuseBody(t, service.URL, `{"username":"lee","gpu_option":"`+gpuTemplate+`"}`, "lee", 500, "CREATE_POD", "POD_CREATE_FAILED")
	if answer.Text("k8s_status") != "403" || !strings.Contains(answer.Text("detail"), `RuntimeClass "nvidia" not found`) || asked.Hits()[0] != 1 {
		t.Errorf("%d pods were sent: %s", asked.Hits()[0], answer.Body)
	}

	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "nvidia"}, Handler: "nvidia"}
	if _, err := f.Cluster.Admin(t).NodeV1().RuntimeClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, 30*time.Second, "a workspace with the class", func(ctx context.Context) error {
		answer, err := world.Send(ctx, service.URL, "POST", "/create-pod", gpuBody)
		if err != nil || answer.Status != 201 {
			return fmt.Errorf("%v: %s", err, answer.Body)
		}
		if f.podNamed(t, answer.Text("pod_name")).Spec.RuntimeClassName == nil {
			return errors.New("it has none") // the API server knows classes by a watch
		}
		return nil
	})
}

// TestTemplatesSecondTryIsUndone breaks the second try of a pod in each way.
func TestTemplatesSecondTryIsUndone(t *testing.T) {
	t.Parallel()
	f := newGPUFarm(t, map[string]string{"POD_REQUEST_BUDGET": "20s", "POD_READY_TIMEOUT": "15s", "POD_DELETE_TIMEOUT": "15s"})
	proxy := between(t, f.World)
	service := f.Service(t, nil)
	f.user(t, service.URL, "kim", "")
	for name, test := range map[string]struct {
		fault  faultproxy.HTTPFault
		status string // what Kubernetes said; empty = nothing
	}{
		"refused with 422":  {faultproxy.HTTPFault{Status: 422, Reason: metav1.StatusReasonInvalid}, "422"},
		"refused with 403":  {faultproxy.HTTPFault{Status: 403, Reason: metav1.StatusReasonForbidden}, "403"},
		"failing":           {faultproxy.HTTPFault{Status: 500, Reason: metav1.StatusReasonInternalError}, "500"},
		"done, answer lost": {faultproxy.HTTPFault{Reset: true, After: true}, ""},
		"done, then hangs":  {faultproxy.HTTPFault{Hang: true, After: true}, ""},
		"connection breaks": {faultproxy.HTTPFault{Reset: true}, ""},
	} {
		test.fault.Match, test.fault.Skip = newPods, 1
		proxy.Fail(test.fault)
		answer := world.Call(t, service.URL, "POST", "/create-pod", gpuBody, 500)
		if answer.Text("step") != "CREATE_POD" || answer.Text("error") != "POD_CREATE_FAILED" || answer.Text("k8s_status") != test.status {
			t.Errorf("%s: answer %s", name, answer.Body)
		}
		if proxy.Hits()[0] == 0 {
			t.Errorf("%s: there was no second try", name)
		}
		if n := len(f.Pods(t)) + len(f.Services(t)) + len(f.Rows(t)); n > 0 {
			t.Errorf("%s: %d pods, Services and rows are left", name, n)
		}
	}
	proxy.Fail()
	world.Call(t, service.URL, "POST", "/create-pod", gpuBody, 201)
}

// TestTemplatesCrashAroundTheSecondTry kills the process before, between and after the two tries; its
// next life takes back what there is.
func TestTemplatesCrashAroundTheSecondTry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	order := filepath.Join(dir, "order")
	f := newGPUFarm(t, map[string]string{"STATE_DIR": filepath.Join(dir, "state"), "CRASH_FILE": order, "CRASH_LOG": filepath.Join(dir, "points")})
	service := f.NewService(t, testkit.Build{Tags: "crashpoints", NoRace: true}, nil)
	service.Start(t)
	f.user(t, service.URL, "kim", "")
	for _, point := range []string{
		"POST pods before#1", "POST pods after#1", "POST pods before#2", "POST pods after#2", "create-pod/CREATE_POD/after#1",
	} {
		if err := os.WriteFile(order, []byte("kill "+point), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), testLimit)
		answer, err := world.Send(ctx, service.URL, "POST", "/create-pod", gpuBody)
		cancel()
		if err == nil {
			t.Fatalf("%s: the service did not die: %s", point, answer.Body)
		}
		service.Wait(t, testLimit)
		made := len(f.Pods(t))
		if want := map[bool]int{true: 1, false: 0}[strings.HasSuffix(point, "after#2") || strings.HasSuffix(point, "CREATE_POD/after#1")]; made != want {
			t.Errorf("%s: the killed process left %d pods, want %d", point, made, want)
		}
		if f.Operations(t) != 1 {
			t.Errorf("%s: the killed process left %d records, want 1", point, f.Operations(t))
		}
		if err := os.Remove(order); err != nil {
			t.Fatal(err)
		}
		service.Start(t)
		testkit.WaitFor(t, testLimit, "recovery from "+point, func(context.Context) error {
			if n := len(f.Pods(t)) + len(f.Services(t)) + len(f.Rows(t)) + f.Operations(t); n > 0 {
				return fmt.Errorf("%d pods, Services, rows and records are left", n)
			}
			return nil
		})
	}
	if pod := f.podNamed(t, world.Call(t, service.URL, "POST", "/create-pod", gpuBody, 201).Text("pod_name")); pod.Labels[farm.LabelUser] != "kim" {
		t.Errorf("labels %v", pod.Labels)
	}
}
