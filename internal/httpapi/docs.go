package httpapi

import (
	"io/fs"
	"net/http"
	"path"
	"sync"

	"github.com/go-chi/chi/v5"
	swaggerfiles "github.com/swaggo/files/v2"

	description "config-server/api"
)

// documentation serves Swagger UI and the description, all from the binary.
type documentation struct {
	spec func() ([]byte, error)
}

func newDocumentation() *documentation {
	// The YAML becomes JSON at the first request for it, not at start.
	return &documentation{spec: sync.OnceValues(description.JSON)}
}

const docsPage = `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>config-server API</title>
  <link rel="icon" type="image/png" sizes="32x32" href="./favicon-32x32.png">
  <link rel="icon" type="image/png" sizes="16x16" href="./favicon-16x16.png">
  <link rel="stylesheet" href="./swagger-ui.css">
  <link rel="stylesheet" href="./index.css">
</head>
<body>
  <div id="swagger-ui"></div>
  <script src="./swagger-ui-bundle.js"></script>
  <script src="./swagger-initializer.js"></script>
</body>
</html>
`

// docsStart opens the description. Its address is relative, so that the page also works behind a
// proxy that puts the service under a prefix. No validator is asked: that would leave the farm.
const docsStart = `window.onload = function () {
  window.ui = SwaggerUIBundle({
    url: "../apispec_1.json",
    dom_id: "#swagger-ui",
    deepLinking: true,
    validatorUrl: null,
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout"
  });
};
`

// docsAssets are the files of Swagger UI that the page needs; its source maps and other builds stay out.
var docsAssets = []string{"swagger-ui.css", "index.css", "swagger-ui-bundle.js", "favicon-16x16.png", "favicon-32x32.png"}

func (d *documentation) mount(r chi.Router) {
	r.Get("/apidocs", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/apidocs/", http.StatusPermanentRedirect)
	})
	r.Get("/apidocs/", text("text/html; charset=utf-8", docsPage))
	r.Get("/apidocs/index.html", text("text/html; charset=utf-8", docsPage))
	r.Get("/apidocs/swagger-initializer.js", text("text/javascript; charset=utf-8", docsStart))
	for _, name := range docsAssets {
		r.Get(path.Join("/apidocs", name), asset(name))
	}
	r.Get("/apispec_1.json", d.serveSpec)
}

func (d *documentation) serveSpec(w http.ResponseWriter, _ *http.Request) {
	spec, err := d.spec()
	if err != nil {
		panic(err) // a test reads the description, so a binary that was tested has a good one
	}
	w.Header().Set("Content-Type", contentJSON)
	_, _ = w.Write(spec)
}

func text(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write([]byte(body))
	}
}

// asset serves one file of Swagger UI. Its type is told by us: the system's table of types may lack it.
func asset(name string) http.HandlerFunc {
	types := map[string]string{
		".css": "text/css; charset=utf-8",
		".js":  "text/javascript; charset=utf-8",
		".png": "image/png",
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		content, err := fs.ReadFile(swaggerfiles.FS, name)
		if err != nil {
			panic(err) // the list names files that are compiled in; a test fetches each
		}
		w.Header().Set("Content-Type", types[path.Ext(name)])
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = w.Write(content)
	}
}
