package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// ErrBudget is the cause of a request's context that ended by the service's own budget. It is a
// context.DeadlineExceeded, as those who know nothing of requests look for.
var ErrBudget = fmt.Errorf("the request's time budget is spent: %w", context.DeadlineExceeded)

// budget gives a request a deadline below its caller's time-out, so that the caller still hears how
// it ended. What must outlive it, undo and deletions, takes a context of its own.
func budget(limit time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeoutCause(r.Context(), limit, ErrBudget)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}
