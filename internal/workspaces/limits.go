package workspaces

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// readyReserve is the time that is left of a request when its wait for Ready ends: for the look at
// what kubelet says, so that the caller is told more than that the time is up.
const readyReserve = 3 * time.Second

// readyLimits are the limits of the wait for the new pod. The request's own end caps them all.
func (l *launch) readyLimits(ctx context.Context) farm.ReadyLimits {
	limits := farm.ReadyLimits{Total: l.ReadyLimit, Unschedulable: l.UnschedulableLimit, PullGrace: l.PullGrace}
	if pulls(l.spec.Spec) {
		limits.Total = l.PendingLimit
	}
	if end, bounded := ctx.Deadline(); bounded {
		left := time.Until(end)
		limits.Total = min(limits.Total, left-min(readyReserve, left/10))
	}
	return limits
}

// pulls tells whether a node may have to pull an image for the pod. A policy that is not named is
// one of the two that pull.
func pulls(spec corev1.PodSpec) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, c := range containers {
			if c.ImagePullPolicy != corev1.PullNever {
				return true
			}
		}
	}
	for _, volume := range spec.Volumes {
		if volume.Image != nil && volume.Image.PullPolicy != corev1.PullNever {
			return true
		}
	}
	return false
}
