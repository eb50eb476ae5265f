package httpapi

import "net/http"

// limitBody ends the reading of a body that is over the limit; read answers it with 413.
func (a *api) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, a.BodyLimit)
		next.ServeHTTP(w, r)
	})
}
