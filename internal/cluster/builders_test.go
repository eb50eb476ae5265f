package cluster

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"config-server/internal/farm"
)

const namespace = "ailab-infra"

// guestPod is a workspace pod that was just sent; each change makes a case of it.
func guestPod(changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "ailab-kim-01020304", Namespace: namespace, UID: "uid-1",
			Labels: map[string]string{
				farm.LabelApp: farm.AppGuest, farm.LabelUser: "kim", farm.LabelPod: "ailab-kim-01020304",
			},
		},
		Spec: corev1.PodSpec{
			NodeName:      "farm6",
			RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: farm.ContainerName, Image: "dguailab/decs:1.0", ImagePullPolicy: corev1.PullNever,
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func ready(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func terminating(pod *corev1.Pod) {
	now := metav1.Now()
	pod.DeletionTimestamp = &now
}

func withUID(uid string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.UID = types.UID(uid) }
}

func withPullPolicy(policy corev1.PullPolicy) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].ImagePullPolicy = policy }
}

func withRestarts(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = policy }
}

func inPhase(phase corev1.PodPhase, reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = phase, reason, message
	}
}

func withState(state corev1.ContainerState) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: farm.ContainerName, State: state,
		})
	}
}

func waiting(reason, message string) func(*corev1.Pod) {
	return withState(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func exited(code int32, reason, message string) func(*corev1.Pod) {
	return withState(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}})
}

func withCondition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: kind, Status: status, Reason: reason, Message: message,
		})
	}
}

func warning(reason, message string, age time.Duration) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "e-" + reason, Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{Name: "ailab-kim-01020304", UID: "uid-1"},
		Type:           corev1.EventTypeWarning,
		Reason:         reason,
		Message:        message,
		Count:          1,
		LastTimestamp:  metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(-age)),
	}
}

// started is a Cluster on client-go's stand-in, with its watches running. It works inside
// synctest.Test only: the stand-in loses what happens between its list and its watch, and only
// there is it known that the watch has begun.
func started(t *testing.T, objects ...runtime.Object) (*Cluster, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(objects...)
	c := New(client, Options{Namespace: namespace, Log: slog.New(slog.DiscardHandler)})
	start(t, c)
	synctest.Wait()
	return c, client
}

func start(t *testing.T, c *Cluster) {
	t.Helper()
	c.Start(context.WithoutCancel(t.Context()))
	t.Cleanup(c.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !c.WaitSynced(ctx) {
		t.Fatal("the watches have no state after a minute")
	}
}

// update writes a new state of the pod, as kubelet would.
func update(t *testing.T, client *fake.Clientset, pod *corev1.Pod) {
	t.Helper()
	if _, err := client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, client *fake.Clientset, pod *corev1.Pod) {
	t.Helper()
	if err := client.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
