package cluster

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
)

func event(kind, reason, message string) *corev1.Event {
	e := warning(reason, message, 0)
	e.Type = kind
	return e
}

func TestDoing(t *testing.T) {
	t.Parallel()
	normal := func(reason, message string) *corev1.Event { return event(corev1.EventTypeNormal, reason, message) }
	warns := func(reason, message string) *corev1.Event { return event(corev1.EventTypeWarning, reason, message) }
	runs := withState(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	creating := waiting("ContainerCreating", "")
	cases := map[string]struct {
		pod    *corev1.Pod
		newest *corev1.Event
		want   string
	}{
		"just sent":                          {guestPod(), nil, "waiting until the node takes the pod up"},
		"no node":                            {guestPod(withCondition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available")), nil, "no node takes the pod yet: Unschedulable: 0/3 nodes are available"},
		"taken up":                           {guestPod(creating), nil, "mounting volumes and preparing the network"},
		"volumes not there":                  {guestPod(withCondition(corev1.PodReadyToStartContainers, corev1.ConditionFalse, "", "")), nil, "mounting volumes and preparing the network"},
		"volumes there":                      {guestPod(creating, withCondition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, "", "")), nil, "creating the container"},
		"scheduled":                          {guestPod(creating), normal("Scheduled", "Successfully assigned"), "mounting volumes and preparing the network"},
		"pulls":                              {guestPod(creating), normal("Pulling", `Pulling image "dguailab/decs:1.0"`), `pulling image "dguailab/decs:1.0"`},
		"pulled":                             {guestPod(creating), normal("Pulled", "Container image already present on machine"), "the image is there, creating the container"},
		"made":                               {guestPod(creating), normal("Created", "Created container shell"), "the container is made, starting it"},
		"started, status on its way":         {guestPod(creating), normal("Started", "Started container shell"), "the container has started, its readiness is waited for"},
		"a mount fails":                      {guestPod(creating), warns("FailedMount", `MountVolume.SetUp failed for volume "nfs-home" : timed out`), `mounting volumes fails and is tried again: MountVolume.SetUp failed for volume "nfs-home" : timed out`},
		"the network fails":                  {guestPod(creating), warns("FailedCreatePodSandBox", "no plugin"), "preparing the network fails and is tried again: no plugin"},
		"an event of which nothing is known": {guestPod(creating), warns("NodeNotReady", "Node is not ready"), "NodeNotReady: Node is not ready"},
		"a pull fails":                       {guestPod(waiting("ImagePullBackOff", `Back-off pulling image "x"`)), normal("Pulling", "Pulling"), `the container waits: ImagePullBackOff: Back-off pulling image "x"`},
		"runs":                               {guestPod(runs), normal("Started", "Started"), "the container runs, its readiness is waited for"},
		"runs and fails its probe":           {guestPod(runs), warns("Unhealthy", "Readiness probe failed"), "the container runs but is not Ready: Unhealthy: Readiness probe failed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := doing(c.pod, c.newest); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestDoingOfPodsThatNeedNoEvents(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"Ready":          {guestPod(ready), "the pod is Ready"},
		"never":          {guestPod(waiting("ErrImageNeverPull", "not there")), "the pod cannot become Ready: container shell: ErrImageNeverPull: not there"},
		"on its way out": {guestPod(terminating, func(p *corev1.Pod) { p.Finalizers = []string{"test/stay"} }), "the pod cannot become Ready: the pod is being deleted"},
		"not there":      {guestPod(func(p *corev1.Pod) { p.Name = "ailab-kim-ffffffff" }), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cluster, client := started(t, c.pod)
				if got := cluster.Doing(t.Context(), "ailab-kim-01020304"); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
				for _, action := range client.Actions() {
					if action.GetResource().Resource == "events" {
						t.Errorf("events were asked for: %v", action)
					}
				}
			})
		})
	}
}

// Many who look at one pod cost one LIST a second.
func TestDoingAsksForEventsOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, client := started(t, guestPod(waiting("ContainerCreating", "")), event(corev1.EventTypeNormal, "Pulling", `Pulling image "x"`))
		lists := 0
		client.PrependReactor("list", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
			lists++
			time.Sleep(100 * time.Millisecond) // of the bubble's clock
			return false, nil, nil
		})
		answers := make(chan string)
		for range 50 {
			go func() { answers <- cluster.Doing(t.Context(), "ailab-kim-01020304") }()
		}
		for range 50 {
			if got := <-answers; got != `pulling image "x"` {
				t.Errorf("got %q", got)
			}
		}
		if lists != 1 {
			t.Errorf("%d LISTs at once, want 1", lists)
		}
		time.Sleep(eventsKept / 2)
		cluster.Doing(t.Context(), "ailab-kim-01020304")
		if lists != 1 {
			t.Errorf("%d LISTs within a second, want 1", lists)
		}
		time.Sleep(eventsKept)
		cluster.Doing(t.Context(), "ailab-kim-01020304")
		if lists != 2 {
			t.Errorf("%d LISTs after a second, want 2", lists)
		}
	})
}

func TestDoingWithoutTheRightToReadEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster, client := started(t, guestPod(waiting("ContainerCreating", "")))
		client.PrependReactor("list", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("forbidden")
		})
		if got := cluster.Doing(t.Context(), "ailab-kim-01020304"); !strings.HasPrefix(got, "mounting volumes") {
			t.Errorf("got %q", got)
		}
	})
}
