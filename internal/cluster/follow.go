package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"config-server/internal/farm"
)

const (
	// blindBackstop is the first pause between looks while the watch is broken.
	blindBackstop = 300 * time.Millisecond
	maxBlindPause = 3 * time.Second
	maxPause      = 10 * time.Second
)

// sight is what is known of a pod: present, gone, or (known false) nothing.
type sight struct {
	known bool
	pod   *corev1.Pod // nil = gone, or another pod has its name
	err   error       // of a look that failed
}

// judge looks at a state of a pod, nil for one that is gone, and tells whether that ends a wait, and
// how. A state that may not last is looked at again after the given time, if it has not changed by
// then; 0 = it may.
type judge func(pod *corev1.Pod) (done bool, again time.Duration, err error)

// follow calls judge with each state of the pod until judge is done, ctx is, or the limit is over.
// States come from the watch. Beside it stands a slow look at the API server, for a watch that is
// broken or that missed something; one look that fails ends nothing. The result is judge's error,
// the context's cause, or outOfTime and the last sight: an err in it means that the last look
// failed and the watch was broken.
func (c *Cluster) follow(ctx context.Context, name farm.PodName, uid string, limit time.Duration, judge judge) (last sight, outOfTime bool, err error) {
	if c.setupErr != nil {
		return sight{}, false, c.setupErr
	}
	changed, unregister := c.waiters.register(name)
	defer unregister()
	over := time.NewTimer(limit)
	defer over.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	looks := make(chan sight, 1)
	pause := c.pauses()
	next := time.NewTimer(pause())
	defer next.Stop()
	again := time.NewTimer(limit)
	again.Stop()
	defer again.Stop()

	now := c.kept(name, uid)
	for {
		if now.known {
			last = now
			done, after, err := judge(now.pod)
			if done {
				return last, false, err
			}
			again.Stop()
			if after > 0 {
				again.Reset(after)
			}
		}
		select {
		case <-changed:
			now = c.kept(name, uid)
		case <-again.C:
			now = last
		case <-next.C:
			now = sight{}
			go func() { looks <- c.look(ctx, name, uid) }()
		case now = <-looks:
			last.err = now.err
			next.Reset(pause())
		case <-over.C:
			if c.pods.fresh() {
				last.err = nil
			}
			return last, true, nil
		case <-ctx.Done():
			return last, false, context.Cause(ctx)
		}
	}
}

// kept is what the watch knows of the pod.
func (c *Cluster) kept(name farm.PodName, uid string) sight {
	if c.graves.has(types.UID(uid)) {
		return sight{known: true}
	}
	object, exists, err := c.pods.informer.GetStore().GetByKey(c.namespace + "/" + string(name))
	if err != nil || !exists {
		return sight{}
	}
	pod := object.(*corev1.Pod)
	if !sameUID(pod, uid) {
		return sight{}
	}
	return sight{known: true, pod: pod}
}

// sameUID tells whether this is the pod meant; an empty UID means any pod of the name.
func sameUID(pod *corev1.Pod, uid string) bool { return uid == "" || string(pod.UID) == uid }

// look asks the API server.
func (c *Cluster) look(ctx context.Context, name farm.PodName, uid string) sight {
	pod, err := c.getPod(ctx, name)
	switch {
	case apierrors.IsNotFound(err):
		return sight{known: true}
	case err != nil:
		return sight{err: err}
	case !sameUID(pod, uid):
		return sight{known: true}
	default:
		return sight{known: true, pod: pod}
	}
}

// pauses gives the time until the next look: short ones while the watch is broken, growing in both
// cases, and spread so that many waits do not look together.
func (c *Cluster) pauses() func() time.Duration {
	well, blind := c.backstop, min(blindBackstop, c.backstop)
	return func() time.Duration {
		pause := well
		if c.pods.fresh() {
			well = min(2*well, maxPause)
		} else {
			pause = blind
			blind = min(2*blind, maxBlindPause)
		}
		return pause + time.Duration(rand.Int64N(int64(pause)/5+1))
	}
}

// WaitGone waits until the pod with this name and UID is gone. A pod that was gone before the call
// is a success. The error wraps farm.ErrWaitTimeout when the limit is over, or the context's cause.
func (c *Cluster) WaitGone(ctx context.Context, name farm.PodName, uid string, limit time.Duration) error {
	operation := fmt.Sprintf("wait until pod %s is gone", name)
	if c.setupErr != nil {
		return fmt.Errorf("%s: %w", operation, c.setupErr)
	}
	// Nobody may have watched when it went, so look once unless the watch can tell.
	begin := time.Now()
	if !c.kept(name, uid).known {
		first, cancel := context.WithTimeout(ctx, limit)
		now := c.look(first, name, uid)
		cancel()
		if now.known && now.pod == nil {
			return nil
		}
	}
	last, outOfTime, err := c.follow(ctx, name, uid, limit-time.Since(begin), func(pod *corev1.Pod) (bool, time.Duration, error) {
		return pod == nil, 0, nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", operation, err)
	case !outOfTime:
		return nil
	case last.err != nil:
		return fmt.Errorf("%s: %w after %s, and the last look failed: %w", operation, farm.ErrWaitTimeout, limit, last.err)
	case last.pod == nil:
		return fmt.Errorf("%s: %w after %s", operation, farm.ErrWaitTimeout, limit)
	default:
		return fmt.Errorf("%s: %w after %s: %s", operation, farm.ErrWaitTimeout, limit, describe(last.pod))
	}
}
