package cluster

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"config-server/internal/farm"
)

// waiters tells waits that the kept state of their pod has changed. A signal says only "look
// again", so signals may merge and none carries a state that could be old.
type waiters struct {
	mu    sync.Mutex
	byPod map[farm.PodName]map[chan struct{}]bool
}

// register returns a channel with room for one signal, and the function that ends it.
func (w *waiters) register(pod farm.PodName) (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byPod == nil {
		w.byPod = map[farm.PodName]map[chan struct{}]bool{}
	}
	if w.byPod[pod] == nil {
		w.byPod[pod] = map[chan struct{}]bool{}
	}
	w.byPod[pod][changed] = true
	return changed, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byPod[pod], changed)
		if len(w.byPod[pod]) == 0 {
			delete(w.byPod, pod)
		}
	}
}

func (w *waiters) signal(pod farm.PodName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for changed := range w.byPod[pod] {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// maxGraves is how many removed pods are remembered. A wait that begins after so many later
// removals asks the API server instead.
const maxGraves = 4096

// graves remembers the UIDs of pods that were seen to go, so that a wait that begins afterwards
// tells "gone" from "not yet seen" without a call.
type graves struct {
	mu    sync.Mutex
	known map[types.UID]bool
	order []types.UID // a ring, oldest at next
	next  int
}

func (g *graves) add(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil {
		g.known = map[types.UID]bool{}
	}
	if g.known[uid] {
		return
	}
	g.known[uid] = true
	if len(g.order) < maxGraves {
		g.order = append(g.order, uid)
		return
	}
	delete(g.known, g.order[g.next])
	g.order[g.next] = uid
	g.next = (g.next + 1) % maxGraves
}

func (g *graves) has(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[uid]
}

// podChanged is called by the watch after its store has changed.
func (c *Cluster) podChanged(object any, removed bool) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	if removed {
		c.graves.add(pod.UID)
	}
	c.waiters.signal(farm.PodName(pod.Name))
}
