package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"

	"config-server/internal/farm"
)

// pathName is the name in the path.
func pathName(r *http.Request) (string, error) { return pathParam(r, "name") }

// pathParam is a name in the path, unescaped once. A name that can stand in no ledger is
// farm.Invalid and never farm.NotFound: callers read 404 on DELETE as "already gone".
func pathParam(r *http.Request, key string) (string, error) {
	name := chi.URLParam(r, key)
	// The router matches the path as it was sent only where that differs from its plain form;
	// else the parameter is unescaped already.
	if r.URL.RawPath != "" {
		plain, err := url.PathUnescape(name)
		if err != nil {
			return "", farm.Errorf(farm.Invalid, "bad name in the path")
		}
		name = plain
	}
	if err := farm.CheckPossible(name); err != nil {
		return "", farm.Errorf(farm.Invalid, "%v", err)
	}
	return name, nil
}

// badPathName answers paths whose name is empty or has a slash.
func (a *api) badPathName(http.ResponseWriter, *http.Request) error {
	return farm.Errorf(farm.Invalid, "bad name: it is empty or has a slash")
}

// badJoinPath answers PUT below /accounts/users/ that is no well-formed .../{name}/groups.
func (a *api) badJoinPath(w http.ResponseWriter, r *http.Request) error {
	rest := strings.TrimPrefix(r.URL.Path, "/accounts/users/")
	if strings.HasSuffix(rest, "/groups") || rest == "groups" {
		return a.badPathName(w, r)
	}
	return a.unknownMethod(w, r)
}
