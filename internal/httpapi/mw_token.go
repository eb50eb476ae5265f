package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"config-server/internal/farm"
)

const tokenHeader = "X-Internal-Token"

// requireToken refuses requests without the shared token, if one is set. The comparison takes the
// same time wherever the tokens differ; hashing first hides the length as well.
func (a *api) requireToken(next http.Handler) http.Handler {
	if a.APIToken == "" {
		return next
	}
	want := sha256.Sum256([]byte(a.APIToken))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get(tokenHeader)))
		if isOpen(r.URL.Path) || subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			next.ServeHTTP(w, r)
			return
		}
		a.fail(w, r, farm.Errorf(farm.Unauthorized, "header %s is missing or wrong", tokenHeader))
	})
}

// isOpen reports whether a path needs no token and is answered while shutting down.
func isOpen(path string) bool {
	return path == pathHealth || path == pathReady || path == pathMetrics
}
