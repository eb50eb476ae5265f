package httpapi

import (
	"net/http"
	"time"
)

// limitBody bounds a request's body in size (read answers a longer one with 413) and in the time
// that it may take to arrive. The time counts for requests whose body nobody reads as well, because
// net/http reads it before it sends the answer.
func (a *api) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			setReadDeadline(w, time.Now().Add(a.BodyWait))
			r.Body = http.MaxBytesReader(w, r.Body, a.BodyLimit)
		}
		next.ServeHTTP(w, r)
	})
}

// setReadDeadline bounds reading from the caller's connection; the zero time lifts the bound.
func setReadDeadline(w http.ResponseWriter, until time.Time) {
	// A recorder in tests has no deadlines; a real connection has.
	_ = http.NewResponseController(w).SetReadDeadline(until)
}
