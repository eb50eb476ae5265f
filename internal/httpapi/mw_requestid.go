package httpapi

import (
	"net/http"

	"config-server/internal/obs"
)

const requestIDHeader = "X-Request-Id"

// takeRequestID takes over the caller's X-Request-Id if it is sane, else makes one; it is returned
// in the answer and stands in every log line of the request.
func takeRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if !obs.SaneRequestID(id) {
			id = obs.NewRequestID()
		}
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r.WithContext(obs.WithRequestID(r.Context(), id)))
	})
}
