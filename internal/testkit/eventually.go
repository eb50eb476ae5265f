package testkit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// fatalError ends a wait at once: what is waited for can no longer come.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

func fatal(err error) error { return fatalError{err} }

// Eventually calls probe until it returns nil or ctx is done, with a short pause between. The error
// is that of the last probe.
func Eventually(ctx context.Context, probe func(context.Context) error) error {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := probe(ctx)
		var dead fatalError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &dead):
			return dead.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: last: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// WaitFor fails the test unless probe returns nil within limit.
func WaitFor(t testing.TB, limit time.Duration, what string, probe func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := Eventually(ctx, probe); err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}
