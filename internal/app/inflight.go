package app

import (
	"net/http"
	"sync"
)

// inFlight counts the requests that change something. The zero value is ready for use.
type inFlight struct {
	mu    sync.Mutex
	n     int
	empty chan struct{} // closed when n is 0 again; nil while nobody waits
}

// track counts requests while next serves them. Looks are not counted: they hold nothing up.
func (f *inFlight) track(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			f.add(1)
			defer f.add(-1)
		}
		next.ServeHTTP(w, r)
	})
}

func (f *inFlight) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n += n
	if f.n == 0 && f.empty != nil {
		close(f.empty)
		f.empty = nil
	}
}

// idle returns a channel that is closed at the next moment without such a request.
func (f *inFlight) idle() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 {
		now := make(chan struct{})
		close(now)
		return now
	}
	if f.empty == nil {
		f.empty = make(chan struct{})
	}
	return f.empty
}
