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
func (a *api) unknownMethod(routes chi.Routes) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		path := r.URL.RawPath
		if path == "" {
			path = r.URL.Path
		}
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
			if routes.Match(chi.NewRouteContext(), method, path) {
				allowed = append(allowed, method)
			}
		}
		if path == pathHealth {
			allowed = []string{http.MethodGet}
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return a.wrongMethod(r)
	}
}

func (a *api) wrongMethod(*http.Request) error {
	e := farm.Errorf(farm.Invalid, "method not allowed")
	e.Cause = methodError{errMethod}
	return e
}
