package httpapi

import (
	"net/http"

	"config-server/internal/farm"
)

// refuseWhenDraining takes no new work while the service shuts down. Reading stays possible as long
// as the listener is open: it holds nothing up, and other replicas may not be known yet.
func (a *api) refuseWhenDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reads(r) || !a.Draining() {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "5")
		a.fail(w, r, farm.Errorf(farm.Unavailable, "the service is shutting down"))
	})
}
