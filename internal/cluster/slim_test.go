package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

// TestSlimPodsSayTheSame compares what waits make of a pod before and after it is cut down.
func TestSlimPodsSayTheSame(t *testing.T) {
	t.Parallel()
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	whole := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "p", Namespace: namespace, UID: "u", CreationTimestamp: now,
				Annotations: map[string]string{"c": "d", farm.AnnotationImage: "decs:1"},
				Labels:      map[string]string{"a": "b", farm.LabelApp: farm.AppGuest, farm.LabelUser: "kim"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			},
			Spec: corev1.PodSpec{
				NodeName: "farm5", RestartPolicy: corev1.RestartPolicyNever, Volumes: []corev1.Volume{{Name: "nfs-home"}, {Name: "nvidia0"}, {Name: "nvidiactl"}},
				Containers: []corev1.Container{{Name: "shell", Image: "decs@sha256:1", ImagePullPolicy: corev1.PullNever, Env: []corev1.EnvVar{{Name: "USER"}}}},
			},
			Status: corev1.PodStatus{
				Phase: corev1.PodPending,
				Conditions: []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
					{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "not yet"},
				},
			},
		}
		change(pod)
		return pod
	}
	ready := func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions[1] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "shell", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	waiting := func(reason string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "shell", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "why"}}}}
		}
	}
	tests := []struct {
		name   string
		change func(*corev1.Pod)
	}{
		{"pending", func(*corev1.Pod) {}},
		{"waiting", waiting("ContainerCreating")},
		{"an image that is not there", waiting("ErrImageNeverPull")},
		{"a pull that may not be", waiting("ErrImagePull")},
		{"ready", ready},
		{"ready and being deleted", func(pod *corev1.Pod) { ready(pod); pod.DeletionTimestamp = &now }},
		{"ready but failed", func(pod *corev1.Pod) { ready(pod); pod.Status.Phase = corev1.PodFailed; pod.Status.Message = "evicted" }},
		{"ended", func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "shell", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}}}}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pod := whole(test.change)
			slim := slimPod(pod)
			if got, want := judgeReady(slim), judgeReady(pod); got != want {
				t.Errorf("verdict %+v, want %+v", got, want)
			}
			if diff := cmp.Diff(describe(pod), describe(slim)); diff != "" {
				t.Errorf("description (-want +got):\n%s", diff)
			}
			if slim.Namespace != pod.Namespace || len(slim.Labels) != 1 || len(slim.Spec.Volumes) != 1 || slim.ManagedFields != nil {
				t.Errorf("kept %+v", slim)
			}
			listed := podOf(pod)
			listed.Guest = false // KnownPods knows without the label
			if got := podOf(slim); got != listed || got.User != "kim" || got.GPUs != 1 || got.Image != "decs@sha256:1" || got.PinnedImage != "decs:1" || len(slim.Annotations) != 1 {
				t.Errorf("listed as %+v, want %+v", got, listed)
			}
		})
	}
}

func TestSlimNodesSayTheSame(t *testing.T) {
	t.Parallel()
	for _, object := range farmNodes() {
		whole := object.(*corev1.Node)
		if diff := cmp.Diff(nodeOf(whole), nodeOf(slimNode(whole))); diff != "" {
			t.Errorf("node %s (-want +got):\n%s", whole.Name, diff)
		}
	}
}
