package cluster

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"config-server/internal/farm"
)

// The tests of this file run on a clock of their own, so that limits cost no time.

// waitReady begins a wait and returns the channel of its outcome. By its return the wait stands.
func waitReady(t *testing.T, c *Cluster, limit time.Duration) <-chan error {
	t.Helper()
	return waitWithin(t, c, farm.ReadyLimits{Total: limit})
}

func waitWithin(t *testing.T, c *Cluster, limits farm.ReadyLimits) <-chan error {
	t.Helper()
	outcome := make(chan error, 1)
	go func() { outcome <- c.WaitReady(t.Context(), podOf(guestPod()), limits) }()
	synctest.Wait()
	return outcome
}

// mustWait fails if the wait is over already.
func mustWait(t *testing.T, outcome <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-outcome:
		t.Fatalf("the wait is over: %v", err)
	default:
	}
}

func TestWaitReadyEndsWithTheState(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		state *corev1.Pod
		is    error // nil = Ready
		says  string
	}{
		"Ready":         {state: guestPod(ready)},
		"never Ready":   {state: guestPod(waiting("ErrImageNeverPull", "no such image")), is: farm.ErrNeverReady, says: "ErrImageNeverPull: no such image"},
		"being deleted": {state: guestPod(terminating), is: farm.ErrNeverReady, says: "being deleted"},
	} {
		t.Run(name+" before the wait", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, client := started(t, guestPod())
				update(t, client, test.state)
				synctest.Wait()
				check(t, <-waitReady(t, c, time.Minute), test.is, test.says)
			})
		})
		t.Run(name+" during the wait", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, client := started(t, guestPod())
				outcome := waitReady(t, c, time.Minute)
				mustWait(t, outcome)
				begin := time.Now()
				update(t, client, test.state)
				check(t, <-outcome, test.is, test.says)
				if waited := time.Since(begin); waited > eventsLag {
					t.Errorf("it took %s", waited)
				}
			})
		})
	}
}

func check(t *testing.T, err, is error, says string) {
	t.Helper()
	switch {
	case is == nil && err != nil:
		t.Errorf("unexpected: %v", err)
	case is != nil && !errors.Is(err, is):
		t.Errorf("error %v is not %v", err, is)
	case is != nil && !strings.Contains(err.Error(), says):
		t.Errorf("error %q lacks %q", err, says)
	}
}

func TestWaitReadyOfAPodThatGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, client := started(t, guestPod())
		outcome := waitReady(t, c, time.Minute)
		begin := time.Now()
		remove(t, client, guestPod())
		check(t, <-outcome, farm.ErrNeverReady, "deleted or replaced")
		// A later wait knows it from the watch.
		check(t, <-waitReady(t, c, time.Minute), farm.ErrNeverReady, "deleted or replaced")
		if waited := time.Since(begin); waited > 0 {
			t.Errorf("it took %s", waited)
		}
	})
}

func TestWaitReadyOfAPodThatIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// The pod went before this service watched; another one has its name.
		c, _ := started(t, guestPod(ready, withUID("uid-2")))
		check(t, <-waitReady(t, c, time.Minute), farm.ErrNeverReady, "deleted or replaced")
	})
}

func TestWaitReadyTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, client := started(t, guestPod(), warning("FailedMount", "mount failed: timed out", 0))
		outcome := waitReady(t, c, time.Minute)
		begin := time.Now()
		update(t, client, guestPod(waiting("ContainerCreating", "")))
		err := <-outcome
		check(t, err, farm.ErrWaitTimeout, "container shell waits: ContainerCreating; events: FailedMount: mount failed: timed out")
		if reason := farm.ReadyReasonOf(err); reason != farm.ReadyMount {
			t.Errorf("reason %q", reason)
		}
		if waited := time.Since(begin); waited != time.Minute {
			t.Errorf("it took %s", waited)
		}
	})
}

func TestWaitReadyTellsLateEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, client := started(t, guestPod())
		outcome := waitReady(t, c, time.Minute)
		update(t, client, guestPod(waiting("CreateContainerConfigError", "refused")))
		mustWait(t, outcome)
		if err := client.Tracker().Add(warning("Failed", "Error: secret is missing", 0)); err != nil {
			t.Fatal(err)
		}
		err := <-outcome
		check(t, err, farm.ErrNeverReady, "refused; events: Failed: Error: secret is missing")
		if reason := farm.ReadyReasonOf(err); reason != farm.ReadyConfigError {
			t.Errorf("reason %q", reason)
		}
	})
}

func TestWaitReadyWithoutTheRightToReadEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, client := started(t, guestPod(waiting("InvalidImageName", "bad")))
		client.PrependReactor("list", "events", func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("not allowed"))
		})
		check(t, <-waitReady(t, c, time.Minute), farm.ErrNeverReady, "InvalidImageName: bad")
	})
}

func TestWaitReadyEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, _ := started(t, guestPod())
		gone := errors.New("caller is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		outcome := make(chan error, 1)
		go func() { outcome <- c.WaitReady(ctx, podOf(guestPod()), farm.ReadyLimits{Total: time.Minute}) }()
		mustWait(t, outcome)
		cancel(gone)
		err := <-outcome
		check(t, err, gone, "ailab-kim-01020304")
		if reason := farm.ReadyReasonOf(err); reason != farm.ReadyOther {
			t.Errorf("a wait that nobody wanted any more has reason %q", reason)
		}
	})
}

// blind is a Cluster whose watch of pods fails, and so do its looks while fail returns an error.
func blind(t *testing.T, fail func() error, objects ...runtime.Object) (*Cluster, *fake.Clientset) {
	t.Helper()
	client := fake.NewClientset(objects...)
	refuse := func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("refused") }
	client.PrependReactor("list", "pods", refuse)
	client.PrependReactor("get", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		err := fail()
		return err != nil, nil, err
	})
	c := New(client, Options{Namespace: namespace})
	c.Start(context.WithoutCancel(t.Context()))
	t.Cleanup(c.Stop)
	synctest.Wait()
	return c, client
}

func TestWaitReadyWithoutItsWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		c, client := blind(t, func() error {
			if looks++; looks <= 3 {
				return errors.New("connection refused")
			}
			return nil
		}, guestPod())
		outcome := waitReady(t, c, time.Minute)
		begin := time.Now()
		update(t, client, guestPod(ready))
		check(t, <-outcome, nil, "")
		if waited := time.Since(begin); waited < 2*time.Second || waited > 8*time.Second {
			t.Errorf("the fourth look came after %s", waited)
		}
		if looks != 4 {
			t.Errorf("%d looks, want 4", looks)
		}
	})
}

func TestWaitReadyWithoutWatchAndLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		c, _ := blind(t, func() error { looks++; return errors.New("connection refused") }, guestPod())
		err := <-waitReady(t, c, time.Minute)
		var api *farm.APIError
		if !errors.As(err, &api) || errors.Is(err, farm.ErrWaitTimeout) || errors.Is(err, farm.ErrNeverReady) {
			t.Errorf("want an APIError alone, got %v", err)
		}
		if reason := farm.ReadyReasonOf(err); reason != farm.ReadyUnreadable {
			t.Errorf("reason %q", reason)
		}
		if looks < 10 || looks > 30 {
			t.Errorf("%d looks within a minute", looks)
		}
	})
}

func TestWaitReadyLooksSeldomWhileItsWatchIsWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, client := started(t, guestPod())
		client.ClearActions()
		check(t, <-waitReady(t, c, time.Minute), farm.ErrWaitTimeout, "phase Pending")
		looks := 0
		for _, action := range client.Actions() {
			if action.GetVerb() == "get" {
				looks++
			}
		}
		if looks == 0 || looks > 8 {
			t.Errorf("%d looks within a minute", looks)
		}
	})
}

func TestWaitGone(t *testing.T) {
	t.Parallel()
	wait := func(t *testing.T, c *Cluster, uid string) <-chan error {
		outcome := make(chan error, 1)
		go func() { outcome <- c.WaitGone(t.Context(), "ailab-kim-01020304", uid, time.Minute) }()
		synctest.Wait()
		return outcome
	}
	for name, uid := range map[string]string{"by UID": "uid-1", "by name": ""} {
		t.Run("while the pod goes, "+name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, client := started(t, guestPod())
				outcome := wait(t, c, uid)
				update(t, client, guestPod(terminating))
				mustWait(t, outcome)
				begin := time.Now()
				remove(t, client, guestPod())
				check(t, <-outcome, nil, "")
				if waited := time.Since(begin); uid != "" && waited > 0 {
					t.Errorf("it took %s", waited)
				}
			})
		})
	}
	t.Run("before anybody watched", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c, _ := started(t)
			begin := time.Now()
			check(t, <-wait(t, c, "uid-1"), nil, "")
			if waited := time.Since(begin); waited > 0 {
				t.Errorf("it took %s", waited)
			}
		})
	})
	t.Run("of a pod whose name another has", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c, _ := started(t, guestPod(withUID("uid-2")))
			check(t, <-wait(t, c, "uid-1"), nil, "")
		})
	})
	t.Run("of a pod that stays", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c, _ := started(t, guestPod(terminating))
			begin := time.Now()
			check(t, <-wait(t, c, "uid-1"), farm.ErrWaitTimeout, "phase Pending; being deleted")
			if waited := time.Since(begin); waited != time.Minute {
				t.Errorf("it took %s", waited)
			}
		})
	})
	t.Run("of a pod that bears no label of ours", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			foreign := guestPod()
			foreign.Labels = nil
			c, client := started(t, foreign)
			outcome := wait(t, c, "uid-1")
			mustWait(t, outcome)
			remove(t, client, foreign)
			check(t, <-outcome, nil, "")
		})
	})
	t.Run("without its watch", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c, _ := blind(t, func() error {
				return &apierrors.StatusError{ErrStatus: apierrors.NewGenericServerResponse(
					http.StatusServiceUnavailable, "get", schema.GroupResource{Resource: "pods"}, "", "starting", 0, true).ErrStatus}
			})
			err := <-wait(t, c, "uid-1")
			check(t, err, farm.ErrWaitTimeout, "the last look failed")
		})
	})
}
