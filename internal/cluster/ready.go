package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// WaitReady waits until the pod is Ready. The error wraps
//   - farm.ErrNeverReady, at once, when the pod can no longer become Ready: an image that is not
//     there, a configuration that kubelet refuses, a container that ended, a pod that failed, is
//     being deleted, is gone or was replaced;
//   - farm.ErrWaitTimeout when a limit is over;
//   - the context's cause;
//   - a *farm.APIError alone when the total limit is over and the pod's state could not be read.
//
// The first two tell kubelet's reason and message and the pod's last warning events. All but the
// context's cause are a *farm.NotReadyError.
func (c *Cluster) WaitReady(ctx context.Context, pod farm.Pod, limits farm.ReadyLimits) error {
	operation := fmt.Sprintf("wait until pod %s is Ready", pod.Name)
	reason := farm.ReadyOther
	patience := patience{limits: limits}
	last, outOfTime, err := c.follow(ctx, pod.Name, pod.UID, limits.Total, func(state *corev1.Pod) (bool, time.Duration, error) {
		v := judgeReady(state)
		reason = v.reason
		if v.ready {
			return true, 0, nil
		}
		if v.never != "" {
			return true, 0, fmt.Errorf("%w: %s", farm.ErrNeverReady, v.never)
		}
		again, err := patience.with(state, time.Now())
		return err != nil, again, err
	})
	switch {
	case err != nil && ctx.Err() != nil, c.setupErr != nil:
		return fmt.Errorf("%s: %w", operation, err)
	case errors.Is(err, farm.ErrWaitTimeout):
		warnings := c.lateWarnings(ctx, pod, false)
		return &farm.NotReadyError{Reason: slowReason(last.pod, warnings), Err: fmt.Errorf("%s: %w%s", operation, err, told(warnings))}
	case err != nil:
		return &farm.NotReadyError{Reason: reason, Err: fmt.Errorf("%s: %w%s", operation, err, told(c.lateWarnings(ctx, pod, last.pod != nil)))}
	case !outOfTime:
		return nil
	case last.err != nil:
		return &farm.NotReadyError{Reason: farm.ReadyUnreadable, Err: fmt.Errorf("%s: its state cannot be read: %w", operation, last.err)}
	default:
		warnings := c.lateWarnings(ctx, pod, false)
		return &farm.NotReadyError{
			Reason: slowReason(last.pod, warnings),
			Err:    fmt.Errorf("%s: %w after %s: %s%s", operation, farm.ErrWaitTimeout, limits.Total, describe(last.pod), told(warnings)),
		}
	}
}

const (
	// eventsLimit bounds the look at events, which only add to an error that stands already.
	eventsLimit = 3 * time.Second
	// eventsLag is how much later than a pod's status its event may arrive: kubelet sends both from
	// different places.
	eventsLag = 300 * time.Millisecond
)

// lateWarnings are the pod's last warning events, none if they cannot be read. With expected it looks
// a second time if there is none yet.
func (c *Cluster) lateWarnings(ctx context.Context, pod farm.Pod, expected bool) []string {
	ctx, cancel := context.WithTimeout(ctx, eventsLimit)
	defer cancel()
	warnings, err := c.LastWarnings(ctx, pod)
	if err == nil && len(warnings) == 0 && expected {
		select {
		case <-time.After(eventsLag):
			warnings, err = c.LastWarnings(ctx, pod)
		case <-ctx.Done():
		}
	}
	if err != nil {
		c.log.DebugContext(ctx, "events of a pod cannot be read", "pod", pod.Name, "error", err)
	}
	return warnings
}

// told is warning events as the end of an error text.
func told(warnings []string) string {
	if len(warnings) == 0 {
		return ""
	}
	return "; events: " + strings.Join(warnings, "; ")
}
