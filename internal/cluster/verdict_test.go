package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

func TestJudgeReady(t *testing.T) {
	t.Parallel()
	const goes = "" // neither Ready nor impossible
	for name, test := range map[string]struct {
		pod    *corev1.Pod
		ready  bool
		never  string // a part of kubelet's words; goes = the wait goes on
		reason farm.ReadyReason
	}{
		"just sent":                   {pod: guestPod(), never: goes},
		"Ready":                       {pod: guestPod(ready), ready: true},
		"running, not yet Ready":      {pod: guestPod(inPhase(corev1.PodRunning, "", ""), withCondition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "")), never: goes},
		"creating":                    {pod: guestPod(waiting("ContainerCreating", "")), never: goes},
		"not scheduled":               {pod: guestPod(withCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes")), never: goes},
		"gone":                        {pod: nil, never: "deleted", reason: farm.ReadyDeleted},
		"being deleted":               {pod: guestPod(terminating), never: "being deleted", reason: farm.ReadyDeleted},
		"Ready and being deleted":     {pod: guestPod(ready, terminating), never: "being deleted", reason: farm.ReadyDeleted},
		"Ready once, failed since":    {pod: guestPod(ready, inPhase(corev1.PodFailed, "Evicted", "The node was low on memory")), never: "Evicted: The node was low on memory", reason: farm.ReadyRejected},
		"node is full":                {pod: guestPod(inPhase(corev1.PodFailed, "OutOfcpu", "Node didn't have enough resource: cpu")), never: "OutOfcpu: Node didn't have enough resource: cpu", reason: farm.ReadyRejected},
		"failed without a reason":     {pod: guestPod(inPhase(corev1.PodFailed, "", ""), exited(127, "Error", "")), never: "container shell ended with status 127: Error", reason: farm.ReadyExited},
		"ended":                       {pod: guestPod(inPhase(corev1.PodSucceeded, "", ""), exited(0, "Completed", "")), never: "ended with status 0: Completed", reason: farm.ReadyExited},
		"container ended, no phase":   {pod: guestPod(exited(1, "Error", "")), never: "container shell ended with status 1", reason: farm.ReadyExited},
		"container will be restarted": {pod: guestPod(withRestarts(corev1.RestartPolicyAlways), exited(1, "Error", "")), never: goes},
		"image not on the node":       {pod: guestPod(waiting("ErrImageNeverPull", `Container image "x" is not present with pull policy of Never`)), never: `ErrImageNeverPull: Container image "x" is not present`, reason: farm.ReadyImageNeverPull},
		"image name is no name":       {pod: guestPod(waiting("InvalidImageName", "couldn't parse image name")), never: "InvalidImageName", reason: farm.ReadyImagePull},
		"configuration refused":       {pod: guestPod(waiting("CreateContainerConfigError", `secret "x" not found`)), never: `CreateContainerConfigError: secret "x" not found`, reason: farm.ReadyConfigError},
		"container not made":          {pod: guestPod(waiting("CreateContainerError", "")), never: "CreateContainerError", reason: farm.ReadyCreateError},
		"container not started":       {pod: guestPod(waiting("RunContainerError", "")), never: "RunContainerError", reason: farm.ReadyRunError},
		"pull failed, policy Never":   {pod: guestPod(waiting("ErrImagePull", "i/o timeout")), never: "ErrImagePull: i/o timeout", reason: farm.ReadyImagePull},
		"pull failed, may be again":   {pod: guestPod(withPullPolicy(corev1.PullAlways), waiting("ErrImagePull", "dial tcp: i/o timeout")), never: goes},
		"pull waits to try again":     {pod: guestPod(withPullPolicy(corev1.PullIfNotPresent), waiting("ImagePullBackOff", `Back-off pulling image "x"`)), never: goes},
		"the registry lacks it":       {pod: guestPod(withPullPolicy(corev1.PullAlways), waiting("ErrImagePull", "failed to resolve reference: x: not found")), never: "not found", reason: farm.ReadyImagePull},
		"the registry refuses us":     {pod: guestPod(withPullPolicy(corev1.PullAlways), waiting("ErrImagePull", "401 Unauthorized")), never: "Unauthorized", reason: farm.ReadyImagePull},
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
			if got.reason != test.reason {
				t.Errorf("reason %q, want %q", got.reason, test.reason)
			}
		})
	}
}

func TestSlowReason(t *testing.T) {
	t.Parallel()
	creating := waiting("ContainerCreating", "")
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		warnings []string
		want     farm.ReadyReason
	}{
		"nothing seen":                {nil, nil, farm.ReadyTimeout},
		"creating, and nobody says":   {guestPod(creating), nil, farm.ReadyTimeout},
		"running and not Ready":       {guestPod(inPhase(corev1.PodRunning, "", "")), []string{"Unhealthy: probe failed"}, farm.ReadyTimeout},
		"the pull is tried again":     {guestPod(withPullPolicy(corev1.PullAlways), waiting("ErrImagePull", "i/o timeout")), nil, farm.ReadyImagePull},
		"the pull waits":              {guestPod(withPullPolicy(corev1.PullAlways), waiting("ImagePullBackOff", "")), nil, farm.ReadyImagePull},
		"ends again and again":        {guestPod(withRestarts(corev1.RestartPolicyAlways), waiting("CrashLoopBackOff", "")), nil, farm.ReadyExited},
		"ended, will be restarted":    {guestPod(withRestarts(corev1.RestartPolicyAlways), exited(1, "Error", "")), nil, farm.ReadyExited},
		"no node":                     {guestPod(withCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes")), nil, farm.ReadyUnschedulable},
		"a mount that fails":          {guestPod(creating), []string{"Failed: x", "FailedMount: mount failed: timed out (3 times)"}, farm.ReadyMount},
		"a volume that is not there":  {guestPod(creating), []string{"FailedAttachVolume: x"}, farm.ReadyMount},
		"no sandbox":                  {guestPod(creating), []string{"FailedCreatePodSandBox: no network"}, farm.ReadyCreateError},
		"the last warning counts":     {guestPod(creating), []string{"FailedMount: x", "FailedCreatePodSandBox: y"}, farm.ReadyCreateError},
		"the state counts before all": {guestPod(waiting("ImagePullBackOff", "")), []string{"FailedMount: x"}, farm.ReadyImagePull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := slowReason(test.pod, test.warnings); got != test.want {
				t.Errorf("reason %q, want %q", got, test.want)
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
