package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"
)

// readiness asks all parts at once. A part that hangs is asked once, not once a request: callers
// that come meanwhile wait for the same answer, each for at most the limit.
type readiness struct {
	checks []Check
	limit  time.Duration
	flight singleflight.Group
}

// checked is the outcome of one check as /readyz tells it.
type checked struct {
	Name  string  `json:"name"`
	OK    bool    `json:"ok"`
	MS    float64 `json:"ms"` // milliseconds that the check took
	Error string  `json:"error,omitempty"`
}

func newReadiness(checks []Check, limit time.Duration) *readiness {
	return &readiness{checks: checks, limit: limit}
}

var errSlow = errors.New("no answer in time")

// readyz answers GET /readyz: 200 if every part answered and the service is not shutting down, else 503.
func (a *api) readyz(w http.ResponseWriter, r *http.Request) {
	results := a.askParts(r.Context())
	status, text := http.StatusOK, "ready"
	for _, result := range results {
		if !result.OK {
			status, text = http.StatusServiceUnavailable, "not ready"
		}
	}
	if a.Draining() {
		status, text = http.StatusServiceUnavailable, "shutting down"
	}
	if err := write(w, status, object{"status": text, "checks": results}); err != nil {
		panic(err) // texts, numbers and booleans always encode
	}
}

func (a *api) askParts(ctx context.Context) []checked {
	results := a.ready.all(ctx)
	if ctx.Err() != nil {
		return results // nobody waited for them
	}
	for _, result := range results {
		a.Metrics.PartReady(result.Name, result.OK)
	}
	return results
}

func (r *readiness) all(ctx context.Context) []checked {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, errSlow)
	defer cancel()
	pending := make([]<-chan singleflight.Result, len(r.checks))
	for i, check := range r.checks {
		pending[i] = r.flight.DoChan(check.Name, func() (any, error) { return r.run(ctx, check), nil })
	}
	results := make([]checked, len(r.checks))
	for i, check := range r.checks {
		select {
		case result := <-pending[i]:
			results[i] = result.Val.(checked)
		case <-ctx.Done():
			results[i] = checked{Name: check.Name, MS: milliseconds(r.limit), Error: context.Cause(ctx).Error()}
		}
	}
	return results
}

// run asks one part. The check's context is not the request's: others may wait for the same answer.
func (r *readiness) run(ctx context.Context, check Check) checked {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), r.limit, errSlow)
	defer cancel()
	begin := time.Now()
	err := guardCheck(ctx, check)
	result := checked{Name: check.Name, OK: err == nil, MS: milliseconds(time.Since(begin))}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}

// guardCheck keeps a check that panics from ending the process: it runs in a goroutine of its own,
// where no middleware could catch it.
func guardCheck(ctx context.Context, check Check) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return check.Run(ctx)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
