package load_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"config-server/internal/testkit/load"
)

func TestClosedKeepsOneCallAClientInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var inFlight, most atomic.Int64
		var mu sync.Mutex
		seen := map[int]bool{}
		result := load.Closed(t.Context(), 4, 20, func(_ context.Context, i int) (int, error) {
			now := inFlight.Add(1)
			defer inFlight.Add(-1)
			mu.Lock()
			most.Store(max(most.Load(), now))
			seen[i] = true
			mu.Unlock()
			<-time.After(10 * time.Millisecond)
			return 201, nil
		})
		if most.Load() != 4 || len(seen) != 20 {
			t.Errorf("%d calls at once and %d different ones, want 4 and 20", most.Load(), len(seen))
		}
		// 20 calls of 10 ms by 4 clients take 50 ms.
		if result.Took != 50*time.Millisecond || result.Rate(201) != 400 || result.Quantile(0.5) != 10*time.Millisecond {
			t.Errorf("got %v at %v/s, median %v", result.Took, result.Rate(201), result.Quantile(0.5))
		}
	})
}

func TestOpenCountsTheTimeFromWhenACallWasDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turn := make(chan struct{}, 1) // a server that does one call at a time, 30 ms each
		result := load.Open(t.Context(), 100, 50*time.Millisecond, func(context.Context, int) (int, error) {
			turn <- struct{}{}
			defer func() { <-turn }()
			<-time.After(30 * time.Millisecond)
			return 200, nil
		})
		// Calls are due at 0, 10, 20, 30 and 40 ms and end at 30, 60, 90, 120 and 150 ms.
		if got := result.Quantile(1); result.Calls() != 5 || got != 110*time.Millisecond {
			t.Errorf("%d calls, the slowest %v; want 5 and 110ms", result.Calls(), got)
		}
		if got := result.Quantile(0); got != 30*time.Millisecond {
			t.Errorf("the fastest took %v, want 30ms", got)
		}
	})
}

func TestOpenBeginsNothingAfterTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
		defer cancel()
		result := load.Open(ctx, 100, time.Second, func(context.Context, int) (int, error) { return 200, nil })
		if result.Calls() != 3 {
			t.Errorf("%d calls, want the three before the end", result.Calls())
		}
	})
}

func TestResultTellsFailuresByCode(t *testing.T) {
	t.Parallel()
	result := load.Closed(t.Context(), 1, 4, func(_ context.Context, i int) (int, error) {
		switch i {
		case 0, 1:
			return 201, nil
		case 2:
			return 500, errors.New("it says why")
		}
		return 0, errors.New("refused")
	})
	if got := result.Unexpected(201); got != "1 x 500 (it says why); 1 x no answer (refused)" {
		t.Errorf("unexpected: %q", got)
	}
	if got := result.Unexpected(201, 500); got != "1 x no answer (refused)" {
		t.Errorf("unexpected beside 500: %q", got)
	}
	if result.Count(201) != 2 || len(result.Times) != 3 {
		t.Errorf("%d with 201, %d times; want 2 and 3", result.Count(201), len(result.Times))
	}
}

func TestQuantileIsByNearestRank(t *testing.T) {
	t.Parallel()
	result := load.Result{Times: []time.Duration{1, 2, 3, 4}}
	tests := []struct {
		q    float64
		want time.Duration
	}{{0, 1}, {0.25, 1}, {0.5, 2}, {0.51, 3}, {0.99, 4}, {1, 4}}
	for _, test := range tests {
		if got := result.Quantile(test.q); got != test.want {
			t.Errorf("quantile %v is %d, want %d", test.q, got, test.want)
		}
	}
	if got := (load.Result{}).Quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing is %v", got)
	}
	if got := load.Median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("median is %v, want 2", got)
	}
}
