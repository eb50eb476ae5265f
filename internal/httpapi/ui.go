package httpapi

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"

	"github.com/go-chi/chi/v5"
)

// uiFiles is the page /ui as it stands in the folder ui: written by hand, built by nothing.
//
//go:embed ui
var uiFiles embed.FS

// uiPolicy lets the page load and ask nothing but this service, and run nothing but its own files:
// whatever names, purposes and details say, they stay text.
const uiPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// uiTypes are told by us: the system's table of types may lack them.
var uiTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// mountUI serves the page under /ui/. Its own addresses are relative, so that it also works behind a
// proxy that puts the service under a prefix.
func mountUI(r chi.Router, projects bool) {
	r.Get("/ui", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/ui/", http.StatusPermanentRedirect)
	})
	entries, err := uiFiles.ReadDir("ui")
	if err != nil {
		panic(err) // compiled in
	}
	for _, entry := range entries {
		content, err := fs.ReadFile(uiFiles, path.Join("ui", entry.Name()))
		if err != nil {
			panic(err) // compiled in
		}
		serve := uiFile(entry.Name(), content)
		r.Get("/ui/"+entry.Name(), serve)
		if entry.Name() == "index.html" {
			r.Get("/ui/", serve)
		}
	}
	// What there is to show: a page that tried would have its browser note each 404 as a failure.
	r.Get("/ui/features.js", uiFile("features.js", fmt.Appendf(nil, "export const features = { projects: %t };\n", projects)))
}

// uiFile serves one file. A browser asks again each time whether it is still the same, so that a page
// is never made of two versions for long.
func uiFile(name string, content []byte) http.HandlerFunc {
	sum := sha256.Sum256(content)
	encoded := zipped(content)
	version, contentType := hex.EncodeToString(sum[:12]), uiTypes[path.Ext(name)]
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", uiPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		// Files that are compiled in can be zipped, so there is no error.
		_ = answerTagged(w, r, contentType, version, func() *encodedList { return encoded })
	}
}
