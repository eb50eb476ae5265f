package cluster

import (
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"config-server/internal/farm"
)

const (
	// eventsKept is how long a pod's events are told from memory, so that many who look at one pod
	// cost one call.
	eventsKept = time.Second
	// glances bounds the looks at events that run at once. Who gets no turn does without: what they add
	// is for people, and must not hold up the calls that make workspaces.
	glances = 4
	// glanceLimit bounds one look.
	glanceLimit = 2 * time.Second
	// maxGlanced bounds the pods whose events are remembered.
	maxGlanced = 1024
)

// glanced remembers the last event of pods for a moment.
type glanced struct {
	flight singleflight.Group

	mu   sync.Mutex
	kept map[types.UID]glance
}

// glance is the newest event of a pod; nil = there is none, or it could not be read.
type glance struct {
	event *corev1.Event
	at    time.Time
}

// Doing tells in one line what kubelet does with a pod that is not Ready yet: mounting, pulling,
// starting, or what keeps it from that. It is put together from the pod's conditions, its container
// states and its newest event; without the right to read events, without the last. Empty = nothing
// is known of such a pod.
func (c *Cluster) Doing(ctx context.Context, name farm.PodName) string {
	if c.setupErr != nil {
		return ""
	}
	now := c.kept(name, "")
	if !now.known {
		limited, cancel := context.WithTimeout(ctx, glanceLimit)
		now = c.look(limited, name, "")
		cancel()
	}
	if now.pod == nil {
		return ""
	}
	verdict := judgeReady(now.pod)
	switch {
	case verdict.ready:
		return "the pod is Ready"
	case verdict.never != "":
		return "the pod cannot become Ready: " + verdict.never
	}
	return doing(now.pod, c.newestEvent(ctx, now.pod))
}

// newestEvent is nil if there is none or none can be read now.
func (c *Cluster) newestEvent(ctx context.Context, pod *corev1.Pod) *corev1.Event {
	if kept, ok := c.glanced.get(pod.UID); ok {
		return kept
	}
	result := c.glanced.flight.DoChan(string(pod.UID), func() (any, error) {
		select {
		case c.glances <- struct{}{}:
			defer func() { <-c.glances }()
		default:
			return (*corev1.Event)(nil), nil
		}
		// Others may wait for the same answer, so it does not end with who asked first.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), glanceLimit)
		defer cancel()
		events, err := c.eventsOf(ctx, farm.Pod{Name: farm.PodName(pod.Name), UID: string(pod.UID)}, "", c.callNow)
		var newest *corev1.Event
		if err != nil {
			c.log.Debug("events of a pod cannot be read", "pod", pod.Name, "error", err)
		} else if len(events) > 0 {
			newest = &events[len(events)-1]
		}
		c.glanced.put(pod.UID, newest)
		return newest, nil
	})
	select {
	case r := <-result:
		return r.Val.(*corev1.Event)
	case <-ctx.Done():
		return nil
	}
}

func (g *glanced) get(uid types.UID) (*corev1.Event, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	kept, ok := g.kept[uid]
	return kept.event, ok && time.Since(kept.at) < eventsKept
}

func (g *glanced) put(uid types.UID, event *corev1.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept == nil || len(g.kept) >= maxGlanced {
		g.kept = map[types.UID]glance{}
	}
	g.kept[uid] = glance{event: event, at: time.Now()}
}

// doing puts conditions, container states and the newest event into words.
func doing(pod *corev1.Pod, newest *corev1.Event) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "no node takes the pod yet: " + reasoned(condition.Reason, condition.Message)
		}
	}
	for _, status := range containerStatuses(pod) {
		switch {
		case status.State.Running != nil && newest != nil && newest.Type == corev1.EventTypeWarning:
			return "the container runs but is not Ready: " + reasoned(newest.Reason, newest.Message)
		case status.State.Running != nil:
			return "the container runs, its readiness is waited for"
		case status.State.Waiting != nil && !isStarting(status.State.Waiting.Reason):
			return "the container waits: " + reasoned(status.State.Waiting.Reason, status.State.Waiting.Message)
		}
	}
	if newest != nil {
		return happening(newest)
	}
	switch preparing := conditionOf(pod, corev1.PodReadyToStartContainers); {
	case preparing == corev1.ConditionTrue:
		return "creating the container"
	case preparing == corev1.ConditionFalse, len(pod.Status.ContainerStatuses) > 0:
		return "mounting volumes and preparing the network"
	}
	return "waiting until the node takes the pod up"
}

// isStarting knows the reasons that stand while nothing is wrong; only events say more.
func isStarting(reason string) bool {
	return reason == "" || reason == "ContainerCreating" || reason == "PodInitializing"
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return corev1.ConditionUnknown
}

// happening is what follows from a pod's newest event while its container is being made.
func happening(event *corev1.Event) string {
	told := reasoned("", event.Message)
	switch event.Reason {
	case "Pulling":
		return "p" + strings.TrimPrefix(told, "P") // kubelet's "Pulling image ..."
	case "Pulled":
		return "the image is there, creating the container"
	case "Created":
		return "the container is made, starting it"
	case "Started":
		return "the container has started, its readiness is waited for"
	case "Scheduled":
		return "mounting volumes and preparing the network"
	case "FailedMount", "FailedAttachVolume":
		return "mounting volumes fails and is tried again: " + told
	case "FailedCreatePodSandBox":
		return "preparing the network fails and is tried again: " + told
	}
	return reasoned(event.Reason, event.Message)
}
