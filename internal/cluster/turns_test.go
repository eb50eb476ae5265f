package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes/fake"
)

// TestCallsWaitForTheirTurn has ten calls of two seconds each with two at once, under a limit of three
// seconds: the wait for the turn does not count.
func TestCallsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(fake.NewClientset(), Options{Namespace: namespace, MaxCalls: 2, CallLimit: 3 * time.Second})
		var running, most atomic.Int64
		var all sync.WaitGroup
		begin := time.Now()
		for range 10 {
			all.Go(func() {
				err := c.call(t.Context(), "test", func(ctx context.Context) error {
					most.Store(max(most.Load(), running.Add(1)))
					defer running.Add(-1)
					select {
					case <-time.After(2 * time.Second):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(begin); most.Load() != 2 || took != 10*time.Second {
			t.Errorf("%d calls ran at once and all took %v, want 2 and 10s", most.Load(), took)
		}
	})
}

func TestWaitForATurnEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(fake.NewClientset(), Options{Namespace: namespace, MaxCalls: 1})
		c.turns <- struct{}{}
		gone := errors.New("the caller is gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		err := c.call(ctx, "create pod p", func(context.Context) error {
			t.Error("the call was made")
			return nil
		})
		if !errors.Is(err, gone) {
			t.Errorf("error %v, want the context's cause", err)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("the probe waited for a turn: %v", err)
		}
	})
}
