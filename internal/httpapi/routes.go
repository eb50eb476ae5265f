package httpapi

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"config-server/internal/farm"
)

var errMethod = errors.New("method not allowed")

// unknownRoute answers 404 as JSON.
func (a *api) unknownRoute(http.ResponseWriter, *http.Request) error {
	return farm.Errorf(farm.NotFound, "no such route")
}

// unknownMethod answers 405 as JSON and names the methods of the route.
func (a *api) unknownMethod(w http.ResponseWriter, r *http.Request) error {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	var allowed, caught []string
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
		pattern := a.routes.Find(chi.NewRouteContext(), method, path)
		switch {
		case pattern == "", pattern == patternBadStatus, pattern == patternBadJoin && method == http.MethodPut:
		case strings.HasSuffix(pattern, "/*"):
			caught = append(caught, method)
		default:
			allowed = append(allowed, method)
		}
	}
	// What only catches bad names has methods of its own where no other route has the path.
	if len(allowed) == 0 {
		allowed = caught
	}
	if len(allowed) == 0 {
		return a.unknownRoute(w, r)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	e := farm.Errorf(farm.Invalid, "method not allowed")
	e.Cause = methodError{errMethod}
	return e
}

// patternBadJoin catches what is below /accounts/users/ and no {name}/groups; PUT is no method there.
const patternBadJoin = "/accounts/users/*"

// patternBadStatus catches what is below /pods/ and no {username}/status; nothing is a method there.
const patternBadStatus = "/pods/*"
