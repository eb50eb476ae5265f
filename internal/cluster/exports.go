package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"config-server/internal/farm"
)

// ExportPods lists the pods of exports, as the API server has them.
func (c *Cluster) ExportPods(ctx context.Context) ([]farm.Pod, error) {
	return c.listPods(ctx, "list pods of exports", labels.Set{farm.LabelApp: farm.AppExport})
}

// WaitStarted waits until a container of the pod runs or has ended. The error wraps farm.ErrNeverReady
// if none can, farm.ErrWaitTimeout at the limit, both with what kubelet or the scheduler says, else the
// context's cause.
func (c *Cluster) WaitStarted(ctx context.Context, pod farm.Pod, limit time.Duration) error {
	_, err := c.waitFor(ctx, "wait until pod "+string(pod.Name)+" runs", pod, limit, func(now *corev1.Pod) (bool, error) {
		for _, status := range now.Status.ContainerStatuses {
			if status.State.Running != nil || status.State.Terminated != nil {
				return true, nil
			}
		}
		if v := judgeReady(now); v.never != "" {
			return false, fmt.Errorf("%w: %s", farm.ErrNeverReady, v.never)
		}
		return false, nil
	})
	return err
}

// WaitEnded waits until the pod's container has ended, and tells how. The error wraps
// farm.ErrNeverReady if the pod is gone, farm.ErrWaitTimeout at the limit, else the context's cause.
func (c *Cluster) WaitEnded(ctx context.Context, pod farm.Pod, limit time.Duration) (farm.PodEnd, error) {
	var end farm.PodEnd
	_, err := c.waitFor(ctx, "wait until pod "+string(pod.Name)+" has ended", pod, limit, func(now *corev1.Pod) (bool, error) {
		for _, status := range now.Status.ContainerStatuses {
			if t := status.State.Terminated; t != nil {
				end = farm.PodEnd{ExitCode: int(t.ExitCode), Message: reasoned(t.Reason, t.Message)}
				return true, nil
			}
		}
		if now.Status.Phase == corev1.PodFailed {
			end = farm.PodEnd{ExitCode: -1, Message: reasoned(now.Status.Reason, now.Status.Message)}
			return true, nil
		}
		return false, nil
	})
	return end, err
}

// waitFor watches one pod, whoever made it, until done says so.
func (c *Cluster) waitFor(ctx context.Context, operation string, pod farm.Pod, limit time.Duration, done func(*corev1.Pod) (bool, error)) (*corev1.Pod, error) {
	if c.setupErr != nil {
		return nil, fmt.Errorf("%s: %w", operation, c.setupErr)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pods := c.client.CoreV1().Pods(c.namespace)
	selected := func(opts metav1.ListOptions) metav1.ListOptions {
		opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, string(pod.Name)).String()
		return opts
	}
	from := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, selected(opts))
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, selected(opts))
		},
	}
	var last *corev1.Pod
	_, err := watchtools.UntilWithSync(limited, cache.ToListWatcherWithWatchListSemantics(from, c.client), &corev1.Pod{}, nil, func(event watch.Event) (bool, error) {
		now, ok := event.Object.(*corev1.Pod)
		if !ok || !sameUID(now, pod.UID) {
			return false, nil
		}
		last = now
		if event.Type == watch.Deleted {
			return false, fmt.Errorf("%w: the pod is gone", farm.ErrNeverReady)
		}
		return done(now)
	})
	switch {
	case err == nil:
		return last, nil
	case errors.Is(err, farm.ErrNeverReady):
		return last, fmt.Errorf("%s: %w", operation, err)
	case ctx.Err() != nil:
		return last, fmt.Errorf("%s: %w", operation, context.Cause(ctx))
	case limited.Err() != nil:
		return last, fmt.Errorf("%s: %w after %s: %s", operation, farm.ErrWaitTimeout, limit, describe(last))
	default:
		return last, fmt.Errorf("%s: %w", operation, err)
	}
}

// FollowLog opens the log of a container, from its first line on; it ends with the container. Only ctx
// bounds it: a log may be long.
func (c *Cluster) FollowLog(ctx context.Context, pod farm.PodName, container string) (io.ReadCloser, error) {
	operation := fmt.Sprintf("follow the log of pod %s", pod)
	if c.setupErr != nil {
		return nil, fmt.Errorf("%s: %w", operation, c.setupErr)
	}
	if c.logs == nil {
		return nil, fmt.Errorf("%s: this client cannot read logs", operation)
	}
	begin := time.Now()
	stream, err := c.logs(ctx, pod, container, false, 0)
	c.called.Tell(ctx, operation, begin, unanswered(err))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, apiError(err))
	}
	return stream, nil
}
