package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/go-chi/chi/v5/middleware"
)

// recoverPanic answers a panic with 500 in the family's shape and logs its stack. Where the answer
// has begun already the connection is cut instead, so that the caller does not take half an answer
// for a whole one.
func (a *api) recoverPanic(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			a.Metrics.Panicked()
			a.Log.LogAttrs(r.Context(), slog.LevelError, "panic",
				slog.Any("value", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
			if seen.Status() != 0 {
				panic(http.ErrAbortHandler)
			}
			a.fail(seen, r, fmt.Errorf("panic: %v", v))
		}()
		next.ServeHTTP(seen, r)
	})
}
