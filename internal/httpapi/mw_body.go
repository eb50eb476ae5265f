package httpapi

import (
	"net/http"
	"time"

	"config-server/internal/farm"
)

// limitBody bounds a request's body in size (refuseLongBody and read answer a longer one with 413) and
// in the time that it may take to arrive. A body that no handler reads is not waited for: the answer goes out
// at once, and the connection ends with it.
func (a *api) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			setReadDeadline(w, time.Now().Add(a.BodyWait))
			r.Body = http.MaxBytesReader(w, r.Body, a.BodyLimit)
			if !bodyIsRead(r.Method) {
				answerFirst(w)
			}
		}
		next.ServeHTTP(w, r)
	})
}

// refuseLongBody answers 413 where no handler would find out: to a body that says itself that it is too
// long, and to one that does not say how long it is, of a method whose handlers read none: that is read
// here.
func (a *api) refuseLongBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > a.BodyLimit {
			a.fail(w, r, tooLarge(a.BodyLimit))
			return
		}
		if !bodyIsRead(r.Method) && r.ContentLength < 0 {
			if _, err := a.readAll(w, r); err != nil {
				a.fail(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// bodyIsRead tells whether requests of a method have a body that handlers read.
func bodyIsRead(method string) bool { return method == http.MethodPut || method == http.MethodPost }

// answerFirst keeps net/http from reading the request's body before it sends the answer. What comes of the
// body afterwards must not be taken for another request, so the connection is not used again.
func answerFirst(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

func tooLarge(limit int64) error {
	return farm.Errorf(farm.TooLarge, "request body is larger than %d bytes", limit)
}

// setReadDeadline bounds reading from the caller's connection; the zero time lifts the bound.
func setReadDeadline(w http.ResponseWriter, until time.Time) {
	// A recorder in tests has no deadlines; a real connection has.
	_ = http.NewResponseController(w).SetReadDeadline(until)
}
