package registry

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path"
	"slices"
	"strings"

	"config-server/internal/farm"
)

// Login is a name and a password at a registry. It is never printed.
type Login struct{ user, password string }

// String hides the login.
func (Login) String() string { return "(hidden)" }

// GoString hides the login.
func (Login) GoString() string { return "(hidden)" }

// LogValue hides the login.
func (Login) LogValue() slog.Value { return slog.StringValue("(hidden)") }

// Keyring has logins for registries, as Secrets of type kubernetes.io/dockerconfigjson hold them. The zero
// value has none.
type Keyring struct{ entries []entry }

// entry is a login and where it is good: at hosts that a pattern fits, for repositories below a path.
type entry struct {
	host  string // host or host:port; * stands for any one part of a host's name
	path  string // without slashes at its ends; empty = all repositories
	login Login
}

// Add adds the logins of a .dockerconfigjson. The error says what is wrong without any of its content;
// what can be read is added all the same.
func (k *Keyring) Add(config []byte) error {
	var read struct {
		Auths map[string]struct {
			Username string `json:"username"`
			Password string `json:"password"`
			Auth     string `json:"auth"`
		} `json:"auths"`
	}
	if json.Unmarshal(config, &read) != nil {
		return errors.New("it is no JSON object of registries' logins")
	}
	var faults []error
	for key, one := range read.Auths {
		login := Login{user: one.Username, password: one.Password}
		if login.isNone() && one.Auth != "" {
			plain, err := base64.StdEncoding.DecodeString(one.Auth)
			user, password, found := strings.Cut(string(plain), ":")
			if err != nil || !found {
				faults = append(faults, fmt.Errorf("the login for %q cannot be read", farm.CutText(key, 100)))
				continue
			}
			login = Login{user: user, password: password}
		}
		if login.isNone() {
			continue
		}
		host, below := place(key)
		k.entries = append(k.entries, entry{host: host, path: below, login: login})
	}
	// The closest first; a fixed order makes two questions ask the same.
	slices.SortStableFunc(k.entries, func(a, b entry) int {
		return cmp.Or(
			cmp.Compare(len(b.path), len(a.path)), cmp.Compare(strings.Count(a.host, "*"), strings.Count(b.host, "*")),
			strings.Compare(a.host, b.host), strings.Compare(a.path, b.path),
		)
	})
	return errors.Join(faults...)
}

// place takes the key of a login apart: it may be a host, a URL, or either with a path.
func place(key string) (host, below string) {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, below, _ = strings.Cut(key, "/")
	below = strings.Trim(below, "/")
	if below == "v1" || below == "v2" {
		below = ""
	}
	below = strings.TrimPrefix(strings.TrimPrefix(below, "v1/"), "v2/")
	switch host {
	case "index.docker.io", "www.docker.com", dockerHubAPI:
		host = dockerHub
	}
	return strings.ToLower(host), below
}

// For lists the logins for an image, the closest first.
func (k Keyring) For(image farm.Image) []Login {
	var logins []Login
	for _, one := range k.entries {
		if fits(one.host, strings.ToLower(image.Registry)) && (one.path == "" || image.Repository == one.path || strings.HasPrefix(image.Repository, one.path+"/")) {
			if !slices.Contains(logins, one.login) {
				logins = append(logins, one.login)
			}
		}
	}
	return logins
}

// fits compares a host with a pattern, part by part of its name. The ports have to be the same.
func fits(pattern, host string) bool {
	pattern, patternPort := apart(pattern)
	host, port := apart(host)
	wanted, parts := strings.Split(pattern, "."), strings.Split(host, ".")
	if patternPort != port || len(wanted) != len(parts) {
		return false
	}
	for i := range wanted {
		if ok, err := path.Match(wanted[i], parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func apart(host string) (name, port string) {
	if name, port, err := net.SplitHostPort(host); err == nil {
		return name, port
	}
	return host, ""
}
