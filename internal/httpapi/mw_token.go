package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"config-server/internal/farm"
)

const tokenHeader = "X-Internal-Token"

// basicChallenge has a browser ask for the token: the user's name may be anything.
const basicChallenge = `Basic realm="config-server", charset="UTF-8"`

// requireToken refuses requests without the shared token, if one is set: in its header or, from a
// browser that reads, as the password of HTTP Basic. A browser sends that password by itself, also on
// behalf of other sites' pages, so it opens nothing that changes anything.
func (a *api) requireToken(next http.Handler) http.Handler {
	if a.APIToken == "" {
		return next
	}
	// Digests have one length, and comparing them takes the same time wherever the tokens differ.
	want := sha256.Sum256([]byte(a.APIToken))
	isToken := func(text string) bool {
		got := sha256.Sum256([]byte(text))
		return subtle.ConstantTimeCompare(got[:], want[:]) == 1
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isOpen(r.URL.Path) || isToken(r.Header.Get(tokenHeader)) {
			next.ServeHTTP(w, r)
			return
		}
		if reads(r) {
			if _, password, given := r.BasicAuth(); given && isToken(password) {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set("WWW-Authenticate", basicChallenge)
		} else {
			w.Header().Set("WWW-Authenticate", tokenHeader)
		}
		a.fail(w, r, farm.Errorf(farm.Unauthorized, "header %s is missing or wrong", tokenHeader))
	})
}

// reads reports whether a request changes nothing.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// isOpen reports whether a path needs no token and is answered while shutting down.
func isOpen(path string) bool {
	return path == pathHealth || path == pathReady || path == pathMetrics
}
