package cluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"config-server/internal/farm"
)

// budgets are the limits of the service's defaults while images are pulled.
var budgets = farm.ReadyLimits{Total: 240 * time.Second, Unschedulable: 120 * time.Second, PullGrace: 90 * time.Second}

func unschedulable(message string) func(*corev1.Pod) {
	return withCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", message)
}

// withInit gives the pod an init container in the state.
func withInit(policy corev1.PullPolicy, state corev1.ContainerState) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "prepare", ImagePullPolicy: policy})
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{Name: "prepare", State: state})
	}
}

func initWaits(reason, message string) func(*corev1.Pod) {
	return withInit(corev1.PullIfNotPresent, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func initEnded(code int32) func(*corev1.Pod) {
	return withInit(corev1.PullIfNotPresent, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed"}})
}

// TestBudgetsEndTheWait takes pods through states on a clock of their own, and looks when the wait
// ends and what it says.
func TestBudgetsEndTheWait(t *testing.T) {
	t.Parallel()
	pulled := withPullPolicy(corev1.PullIfNotPresent)
	type moment struct {
		at    time.Duration
		state *corev1.Pod
	}
	const second = time.Second
	failing := guestPod(pulled, waiting("ErrImagePull", "dial tcp: i/o timeout"))
	backOff := guestPod(pulled, waiting("ImagePullBackOff", `Back-off pulling image "x"`))
	creating := guestPod(pulled, waiting("ContainerCreating", ""))
	for name, test := range map[string]struct {
		states []moment
		limits farm.ReadyLimits
		ends   time.Duration
		is     error
		says   string
		reason farm.ReadyReason
	}{
		"a pod of which nothing is heard": {
			nil, budgets, 240 * second, farm.ErrWaitTimeout, "timed out after 4m0s: phase Pending", farm.ReadyTimeout,
		},
		"a pull that takes its time": {
			[]moment{{0, creating}, {200 * second, guestPod(pulled, ready)}}, budgets, 200 * second, nil, "", "",
		},
		"a pull that fails for good": {
			[]moment{{10 * second, failing}, {20 * second, backOff}, {60 * second, failing}, {61 * second, backOff}}, budgets,
			100 * second, farm.ErrWaitTimeout, "timed out after 1m30s in which an image could not be pulled: phase Pending; container shell waits: ImagePullBackOff", farm.ReadyImagePull,
		},
		"a pull that fails and succeeds": {
			[]moment{{10 * second, failing}, {80 * second, creating}, {150 * second, guestPod(pulled, ready)}}, budgets, 150 * second, nil, "", "",
		},
		"a pull that fails anew has its grace anew": {
			[]moment{{10 * second, failing}, {80 * second, creating}, {100 * second, failing}}, budgets, 190 * second, farm.ErrWaitTimeout, "1m30s in which an image", farm.ReadyImagePull,
		},
		"the pull of an init container": {
			[]moment{{5 * second, guestPod(pulled, initWaits("ImagePullBackOff", "Back-off"), waiting("PodInitializing", ""))}}, budgets,
			95 * second, farm.ErrWaitTimeout, "container prepare waits: ImagePullBackOff: Back-off", farm.ReadyImagePull,
		},
		"no node takes it": {
			[]moment{{1 * second, guestPod(pulled, unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."))}}, budgets,
			121 * second, farm.ErrWaitTimeout, "timed out after 2m0s in which no node took the pod: phase Pending; not PodScheduled: Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", farm.ReadyUnschedulable,
		},
		"a node takes it at last": {
			[]moment{
				{1 * second, guestPod(pulled, unschedulable("no"))}, {110 * second, guestPod(pulled, withCondition(corev1.PodScheduled, corev1.ConditionTrue, "", ""))},
				{200 * second, guestPod(pulled, ready)},
			}, budgets, 200 * second, nil, "", "",
		},
		"it may not even be scheduled": {
			[]moment{{0, guestPod(pulled, withCondition(corev1.PodScheduled, corev1.ConditionFalse, "SchedulingGated", "a gate"))}}, budgets,
			120 * second, farm.ErrWaitTimeout, "no node took the pod: phase Pending; not PodScheduled: SchedulingGated: a gate", farm.ReadyUnschedulable,
		},
		"all in all comes first": {
			[]moment{{170 * second, failing}}, budgets, 240 * second, farm.ErrWaitTimeout, "timed out after 4m0s: phase Pending; container shell waits: ErrImagePull", farm.ReadyImagePull,
		},
		"nothing is pulled": {
			[]moment{{0, guestPod(unschedulable("no"))}}, farm.ReadyLimits{Total: 60 * second, Unschedulable: 120 * second, PullGrace: 90 * second},
			60 * second, farm.ErrWaitTimeout, "timed out after 1m0s: phase Pending; not PodScheduled", farm.ReadyUnschedulable,
		},
		"no limits but the total one": {
			[]moment{{0, failing}}, farm.ReadyLimits{Total: 240 * second}, 240 * second, farm.ErrWaitTimeout, "timed out after 4m0s: ", farm.ReadyImagePull,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, client := started(t, guestPod(pulled))
				begin := time.Now()
				outcome := waitWithin(t, c, test.limits)
				for _, m := range test.states {
					time.Sleep(m.at - time.Since(begin)) // on the test's own clock
					update(t, client, m.state)
				}
				err := <-outcome
				check(t, err, test.is, test.says)
				if waited := time.Since(begin); waited != test.ends {
					t.Errorf("it took %s, want %s", waited, test.ends)
				}
				if test.is != nil && farm.ReadyReasonOf(err) != test.reason {
					t.Errorf("reason %s, want %s", farm.ReadyReasonOf(err), test.reason)
				}
			})
		})
	}
}

// TestBudgetsFatalReasonsEndAtOnce: nothing is waited for after these, in whatever container.
func TestBudgetsFatalReasonsEndAtOnce(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "InvalidImageName", "RunContainerError"} {
		for place, state := range map[string]func(*corev1.Pod){"": waiting(reason, "because"), " of an init container": initWaits(reason, "because")} {
			t.Run(reason+place, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c, client := started(t, guestPod())
					outcome := waitWithin(t, c, budgets)
					begin := time.Now()
					update(t, client, guestPod(withPullPolicy(corev1.PullAlways), state))
					check(t, <-outcome, farm.ErrNeverReady, reason+": because")
					if waited := time.Since(begin); waited > eventsLag {
						t.Errorf("it took %s", waited)
					}
				})
			})
		}
	}
}

// TestBudgetsJudgeInitContainers: they run and end before the workspace starts.
func TestBudgetsJudgeInitContainers(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	sidecar := func(pod *corev1.Pod) { pod.Spec.InitContainers[0].RestartPolicy = &always }
	for name, test := range map[string]struct {
		pod   *corev1.Pod
		never string // empty = the wait goes on
	}{
		"one has done its work":              {guestPod(initEnded(0), waiting("PodInitializing", "")), ""},
		"one has failed":                     {guestPod(initEnded(3), waiting("PodInitializing", "")), "container prepare ended with status 3"},
		"a sidecar is started again":         {guestPod(initEnded(3), sidecar, waiting("PodInitializing", "")), ""},
		"its image is not on the node":       {guestPod(withInit(corev1.PullNever, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}})), "container prepare: ErrImagePull"},
		"its pull is tried again":            {guestPod(initWaits("ErrImagePull", "dial tcp: i/o timeout")), ""},
		"the registry does not have it":      {guestPod(initWaits("ErrImagePull", "manifest unknown")), "manifest unknown"},
		"the workspace has ended behind one": {guestPod(initEnded(0), exited(0, "Completed", "")), "container shell ended with status 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// As the watch keeps it: what is judged must not be lost.
			got := judgeReady(slimPod(test.pod)).never
			if (got == "") != (test.never == "") || !strings.Contains(got, test.never) {
				t.Errorf("never %q, want %q in it", got, test.never)
			}
		})
	}
	if got := slowReason(guestPod(initEnded(0)), nil); got != farm.ReadyTimeout {
		t.Errorf("an init container that has done its work counts as %s", got)
	}
}

// TestBudgetsLastWarningSpeaks when neither conditions nor containers say anything.
func TestBudgetsLastWarningSpeaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, client := started(t, guestPod(), warning("FailedMount", "MountVolume.SetUp failed: connection timed out", time.Minute), warning("FailedCreatePodSandBox", "no network", 0))
		outcome := waitWithin(t, c, budgets)
		update(t, client, guestPod(withPullPolicy(corev1.PullAlways)))
		err := <-outcome
		check(t, err, farm.ErrWaitTimeout, "phase Pending; events: FailedMount: MountVolume.SetUp failed: connection timed out; FailedCreatePodSandBox: no network")
		if got := farm.ReadyReasonOf(err); got != farm.ReadyCreateError {
			t.Errorf("reason %s: the last warning says otherwise", got)
		}
	})
}

// TestBudgetsDeletionsNameTheirPod: the API server is told which pod is meant, so that one that was made
// anew under the name is safe; without that nothing is asked.
func TestBudgetsDeletionsNameTheirPod(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset(guestPod())
	c := New(client, Options{Namespace: namespace})
	if existed, err := c.DeletePod(t.Context(), "ailab-kim-01020304", ""); existed || err == nil {
		t.Errorf("without a UID: %t, %v", existed, err)
	}
	if n := len(client.Actions()); n > 0 {
		t.Errorf("without a UID the API server was asked %d times", n)
	}
	if existed, err := c.DeletePod(t.Context(), "ailab-kim-01020304", "uid-1"); !existed || err != nil {
		t.Errorf("deletion: %t, %v", existed, err)
	}
	deletions := client.Actions()
	if len(deletions) != 1 {
		t.Fatalf("%d calls, want 1", len(deletions))
	}
	told := deletions[0].(k8stesting.DeleteAction).GetDeleteOptions().Preconditions
	if told == nil || told.UID == nil || *told.UID != "uid-1" {
		t.Errorf("preconditions %v", told)
	}
}
