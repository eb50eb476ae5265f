package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"config-server/internal/farm"
)

// longestPath is the number of characters of a path that the log shows.
const longestPath = 200

// failure is where a handler leaves the error that it answered with, for the one line of the log.
type failure struct {
	err  error
	code farm.Code
}

type failureKey struct{}

// noteFailure leaves an error for the access log.
func noteFailure(ctx context.Context, err error, code farm.Code) {
	if f, ok := ctx.Value(failureKey{}).(*failure); ok {
		f.err, f.code = err, code
	}
}

// logAccess writes one line a request: what was asked, how it was answered and, of a failure, the
// whole error with the causes that the caller is not told. It shows neither bodies nor the query.
// Failures of ours are errors, refusals warnings, scrapes and what pages ask again and again
// debug lines.
func (a *api) logAccess(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		noted := &failure{}
		seen := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		r = r.WithContext(context.WithValue(r.Context(), failureKey{}, noted))
		// Deferred, so that a request that is aborted by panic has its line too.
		defer func() { a.logLine(r, seen, noted, time.Since(begin)) }()
		next.ServeHTTP(seen, r)
	})
}

func (a *api) logLine(r *http.Request, seen middleware.WrapResponseWriter, noted *failure, took time.Duration) {
	status := statusSent(seen)
	attrs := []slog.Attr{
		slog.String("method", farm.CutText(r.Method, 16)),
		slog.String("path", farm.CutText(r.URL.Path, longestPath)),
		slog.Int("status", status),
		slog.Int("bytes", seen.BytesWritten()),
		slog.Float64("ms", milliseconds(took)),
		slog.String("remote", r.RemoteAddr),
	}
	if noted.code != "" {
		attrs = append(attrs, slog.String("code", string(noted.code)))
	}
	if noted.err != nil {
		attrs = append(attrs, slog.String("error", noted.err.Error()))
	}
	if cause := context.Cause(r.Context()); cause != nil {
		attrs = append(attrs, slog.String("caller", "gone"))
	}
	a.Log.LogAttrs(r.Context(), accessLevel(r.URL.Path, status), "request", attrs...)
}

// isPolled knows the paths that every open page asks again and again.
func isPolled(path string) bool {
	return path == "/workspaces" || path == "/nodes" || path == "/operations" || path == "/findings"
}

func accessLevel(path string, status int) slog.Level {
	switch {
	case path == pathReady || path == pathMetrics || isPolled(path) && status < http.StatusBadRequest:
		return slog.LevelDebug
	case status >= http.StatusInternalServerError:
		return slog.LevelError
	case status >= http.StatusBadRequest:
		return slog.LevelWarn
	default:
		return slog.LevelInfo
	}
}

// statusSent is the status that net/http sends: 200 if the handler named none.
func statusSent(w middleware.WrapResponseWriter) int {
	if status := w.Status(); status != 0 {
		return status
	}
	return http.StatusOK
}

// routePattern is the pattern that the request matched, for labels; "unmatched" if there is none.
func routePattern(r *http.Request) string {
	if route := chi.RouteContext(r.Context()); route != nil {
		if pattern := route.RoutePattern(); pattern != "" {
			return pattern
		}
	}
	return "unmatched"
}
