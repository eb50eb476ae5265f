package httpapi

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5/middleware"
)

// measure counts requests and their time by route pattern, method and status.
func (a *api) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		seen := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		end := a.Metrics.Begin()
		defer func() {
			end()
			a.Metrics.Request(routePattern(r), r.Method, statusSent(seen), time.Since(begin))
		}()
		next.ServeHTTP(seen, r)
	})
}
