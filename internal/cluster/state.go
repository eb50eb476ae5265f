package cluster

import (
	corev1 "k8s.io/api/core/v1"
)

// The states of a workspace, as PodStates counts them.
const (
	StatePending     = "pending"     // no container runs yet
	StateStarting    = "starting"    // running, not Ready
	StateReady       = "ready"       // running and Ready
	StateEnded       = "ended"       // Failed or Succeeded
	StateTerminating = "terminating" // being deleted, whatever else it is
)

// PodStates counts the workspace pods by state, all states named, as the watch has them: nothing is
// asked. The second result is false while they are not known, or the watch is broken.
func (c *Cluster) PodStates() (map[string]int, bool) {
	states := map[string]int{StatePending: 0, StateStarting: 0, StateReady: 0, StateEnded: 0, StateTerminating: 0}
	if c.setupErr != nil || !c.pods.fresh() {
		return states, false
	}
	for _, object := range c.pods.informer.GetStore().List() {
		if pod, ok := object.(*corev1.Pod); ok {
			states[stateOf(pod)]++
		}
	}
	return states, true
}

func stateOf(pod *corev1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return StateTerminating
	case pod.Status.Phase == corev1.PodFailed, pod.Status.Phase == corev1.PodSucceeded:
		return StateEnded
	case isReady(pod):
		return StateReady
	case pod.Status.Phase == corev1.PodRunning:
		return StateStarting
	default:
		return StatePending
	}
}

// WatchState tells how one watch is.
type WatchState struct {
	Objects  string // nodes, pods or services
	Fresh    bool   // what is kept can be relied on
	Failures int64  // LISTs and WATCHes that failed since the start
}

// Watches tells how each watch is; none without a usable client. That of Services is left out while
// the API server does not allow it: it may be forbidden on purpose, and nothing depends on it.
func (c *Cluster) Watches() []WatchState {
	if c.setupErr != nil {
		return nil
	}
	var states []WatchState
	for _, w := range []*watched{c.nodes, c.pods, c.services} {
		if w == c.services && w.denied.Load() {
			continue
		}
		states = append(states, WatchState{Objects: w.what, Fresh: w.fresh(), Failures: w.failures.Load()})
	}
	return states
}
