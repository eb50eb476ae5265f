package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestJudgeReady(t *testing.T) {
	t.Parallel()
	const goes = "" // neither Ready nor impossible
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		ready bool
		never string // a part of the reason; goes = the wait goes on
	}{
		"just sent":                   {pod: guestPod(), never: goes},
		"Ready":                       {pod: guestPod(ready), ready: true},
		"running, not yet Ready":      {pod: guestPod(inPhase(corev1.PodRunning, "", ""), withCondition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "")), never: goes},
		"creating":                    {pod: guestPod(waiting("ContainerCreating", "")), never: goes},
		"not scheduled":               {pod: guestPod(withCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes")), never: goes},
		"gone":                        {pod: nil, never: "deleted"},
		"being deleted":               {pod: guestPod(terminating), never: "being deleted"},
		"Ready and being deleted":     {pod: guestPod(ready, terminating), never: "being deleted"},
		"Ready once, failed since":    {pod: guestPod(ready, inPhase(corev1.PodFailed, "Evicted", "The node was low on memory")), never: "Evicted: The node was low on memory"},
		"node is full":                {pod: guestPod(inPhase(corev1.PodFailed, "OutOfcpu", "Node didn't have enough resource: cpu")), never: "OutOfcpu: Node didn't have enough resource: cpu"},
		"failed without a reason":     {pod: guestPod(inPhase(corev1.PodFailed, "", ""), exited(127, "Error", "")), never: "container shell ended with status 127: Error"},
		"ended":                       {pod: guestPod(inPhase(corev1.PodSucceeded, "", ""), exited(0, "Completed", "")), never: "ended with status 0: Completed"},
		"container ended, no phase":   {pod: guestPod(exited(1, "Error", "")), never: "container shell ended with status 1"},
		"container will be restarted": {pod: guestPod(withRestarts(corev1.RestartPolicyAlways), exited(1, "Error", "")), never: goes},
		"image not on the node":       {pod: guestPod(waiting("ErrImageNeverPull", `Container image "x" is not present with pull policy of Never`)), never: `ErrImageNeverPull: Container image "x" is not present`},
		"image name is no name":       {pod: guestPod(waiting("InvalidImageName", "couldn't parse image name")), never: "InvalidImageName"},
		"configuration refused":       {pod: guestPod(waiting("CreateContainerConfigError", `secret "x" not found`)), never: `CreateContainerConfigError: secret "x" not found`},
		"container not made":          {pod: guestPod(waiting("CreateContainerError", "")), never: "CreateContainerError"},
		"container not started":       {pod: guestPod(waiting("RunContainerError", "")), never: "RunContainerError"},
		"pull failed, policy Never":   {pod: guestPod(waiting("ErrImagePull", "i/o timeout")), never: "ErrImagePull: i/o timeout"},
		"pull failed, may be again":   {pod: guestPod(withPullPolicy(corev1.PullAlways), waiting("ErrImagePull", "dial tcp: i/o timeout")), never: goes},
		"pull waits to try again":     {pod: guestPod(withPullPolicy(corev1.PullIfNotPresent), waiting("ImagePullBackOff", `Back-off pulling image "x"`)), never: goes},
		"the registry lacks it":       {pod: guestPod(withPullPolicy(corev1.PullAlways), waiting("ErrImagePull", "failed to resolve reference: x: not found")), never: "not found"},
		"the registry refuses us":     {pod: guestPod(withPullPolicy(corev1.PullAlways), waiting("ErrImagePull", "401 Unauthorized")), never: "Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := judgeReady(test.pod)
			if got.ready != test.ready {
				t.Errorf("ready %v, want %v", got.ready, test.ready)
			}
			if (got.never == "") != (test.never == goes) || !strings.Contains(got.never, test.never) {
				t.Errorf("never %q, want %q in it", got.never, test.never)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("가", 2*maxText)
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"nothing seen": {nil, "nothing was seen of the pod"},
		"pulling":      {guestPod(waiting("ContainerCreating", "")), "phase Pending; container shell waits: ContainerCreating"},
		"the container's reason is enough": {
			guestPod(waiting("ContainerCreating", ""), withCondition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "x")),
			"phase Pending; container shell waits: ContainerCreating",
		},
		"not scheduled": {
			guestPod(withCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes\nare available")),
			"phase Pending; not PodScheduled: Unschedulable: 0/3 nodes are available",
		},
		"being deleted": {guestPod(terminating), "phase Pending; being deleted"},
		"messages are bounded": {
			guestPod(inPhase(corev1.PodFailed, "Evicted", long)),
			"phase Failed; Evicted: " + strings.Repeat("가", maxText),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := describe(test.pod); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}
