// Package standin plays the two programs of the farm that are not made of Debian or Go modules:
// admin_be's answers about users, and the exporter of GPU loads.
package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
)

// maxBody bounds what is sent to a stand-in, in bytes.
const maxBody = 1 << 20

// kept is a map of JSON objects that is kept in a file.
type kept struct {
	mu    sync.Mutex
	path  string
	items map[string]json.RawMessage
}

func openKept(path string) (*kept, error) {
	k := &kept{path: path, items: map[string]json.RawMessage{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := json.Unmarshal(text, &k.items); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return k, nil
}

func (k *kept) get(name string) (json.RawMessage, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	item, found := k.items[name]
	return item, found
}

func (k *kept) names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.items))
}

// set keeps an item; nil removes it.
func (k *kept) set(name string, item json.RawMessage) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if item == nil {
		delete(k.items, name)
	} else {
		k.items[name] = item
	}
	text, err := json.MarshalIndent(k.items, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(k.path+".draft", text, 0o600); err != nil {
		return err
	}
	return os.Rename(k.path+".draft", k.path)
}

// AdminBE answers as admin_be does for the user configuration, and lets it be edited:
//
//	GET    /api/requests/config            the names of all users
//	GET    /api/requests/config/NAME       the configuration that the service asks for; 404 without one
//	PUT    /api/requests/config/NAME       sets it, whole, to the JSON object in the body
//	DELETE /api/requests/config/NAME       forgets it
//
// The users are kept in file.
func AdminBE(file string) (http.Handler, error) {
	users, err := openKept(file)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/requests/config", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"users": users.names()})
	})
	mux.HandleFunc("GET /api/requests/config/{name}", func(w http.ResponseWriter, r *http.Request) {
		config, found := users.get(r.PathValue("name"))
		if !found {
			answer(w, http.StatusNotFound, map[string]any{"status": http.StatusNotFound})
			return
		}
		answer(w, http.StatusOK, config)
	})
	editable(mux, "/api/requests/config/{name}", users, func(text []byte) error {
		var object map[string]any
		return json.Unmarshal(text, &object)
	})
	return mux, nil
}

// editable adds PUT and DELETE of one item.
func editable(mux *http.ServeMux, path string, items *kept, check func([]byte) error) {
	mux.HandleFunc("PUT "+path, func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			err = check(text)
		}
		if err != nil {
			answer(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
			return
		}
		if err := items.set(r.PathValue("name"), text); err != nil {
			answer(w, http.StatusInternalServerError, map[string]any{"error": err.Error()})
			return
		}
		answer(w, http.StatusOK, json.RawMessage(text))
	})
	mux.HandleFunc("DELETE "+path, func(w http.ResponseWriter, r *http.Request) {
		if err := items.set(r.PathValue("name"), nil); err != nil {
			answer(w, http.StatusInternalServerError, map[string]any{"error": err.Error()})
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
