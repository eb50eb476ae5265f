package httpapi

import (
	"io"
	"net/http"
	"time"
)

// Paths that stay open without a token.
const (
	pathHealth  = "/health"
	pathReady   = "/readyz"
	pathMetrics = "/metrics"
)

// health answers GET /health before any middleware: nothing that hangs elsewhere can hold it up.
func (a *api) health(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != pathHealth || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
			next.ServeHTTP(w, r)
			return
		}
		if r.ContentLength != 0 {
			setReadDeadline(w, time.Now().Add(a.BodyWait))
			answerFirst(w)
		}
		answerHealth(w, r)
	})
}

func answerHealth(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", "2")
	_, _ = io.WriteString(w, "OK")
}
