package cluster

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// patience measures how long a pod has been in states that may pass and must not last.
type patience struct {
	limits farm.ReadyLimits

	unschedulable time.Time // since when no node takes it; zero = it is not so
	pulling       time.Time // since when a pull fails
}

// with looks at a state. The error wraps farm.ErrWaitTimeout once the state has lasted for its limit;
// until then the result is the time that is left, 0 if nothing runs out.
func (p *patience) with(pod *corev1.Pod, now time.Time) (left time.Duration, err error) {
	for _, state := range []struct {
		since *time.Time
		is    bool
		limit time.Duration
		words string
	}{
		{&p.unschedulable, isUnschedulable(pod), p.limits.Unschedulable, "no node took the pod"},
		{&p.pulling, isPullFailing(pod), p.limits.PullGrace, "an image could not be pulled"},
	} {
		if !state.is {
			*state.since = time.Time{}
			continue
		}
		if state.since.IsZero() {
			*state.since = now
		}
		if state.limit == 0 {
			continue
		}
		rest := state.limit - now.Sub(*state.since)
		if rest <= 0 {
			return 0, fmt.Errorf("%w after %s in which %s: %s", farm.ErrWaitTimeout, state.limit, state.words, describe(pod))
		}
		if left == 0 || rest < left {
			left = rest
		}
	}
	return left, nil
}

// isUnschedulable tells that the scheduler has looked at the pod and found no node, or may not look
// at it yet.
func isUnschedulable(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Status == corev1.ConditionFalse
		}
	}
	return false
}

// isPullFailing tells that kubelet could not pull an image and tries again. Between its tries the
// reason changes back and forth.
func isPullFailing(pod *corev1.Pod) bool {
	for _, status := range containerStatuses(pod) {
		if waiting := status.State.Waiting; waiting != nil && pullAgain[waiting.Reason] {
			return true
		}
	}
	return false
}
