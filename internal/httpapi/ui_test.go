package httpapi_test

import (
	"encoding/base64"
	"io/fs"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"config-server/internal/audit"
	"config-server/internal/farm"
)

// uiSources are the files of the page, by name.
func uiSources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	err := fs.WalkDir(os.DirFS("ui"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path.Join("ui", name))
		sources[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

func TestUIFilesAreServedUnderAStrictPolicy(t *testing.T) {
	t.Parallel()
	s := newService()
	types := map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
	sources := uiSources(t)
	sources[""] = sources["index.html"]
	for name, content := range sources {
		got := s.call("GET", "/ui/"+name, "")
		if got.Status != 200 || got.Text != content {
			t.Errorf("/ui/%s: status %d, %d bytes", name, got.Status, len(got.Text))
		}
		kind := path.Ext(name)
		if name == "" {
			kind = ".html"
		}
		want := map[string]string{
			"Content-Type": types[kind], "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		}
		for header, value := range want {
			if got.Header.Get(header) != value {
				t.Errorf("/ui/%s: %s is %q", name, header, got.Header.Get(header))
			}
		}
		again := newRequest("GET", "/ui/"+name, "")
		again.Header.Set("If-None-Match", got.Header.Get("ETag"))
		if same := s.send(again); same.Status != http.StatusNotModified || same.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("/ui/%s again: status %d", name, same.Status)
		}
	}
	if got := s.call("GET", "/ui", ""); got.Status != http.StatusPermanentRedirect || got.Header.Get("Location") != "/ui/" {
		t.Errorf("/ui: %d to %q", got.Status, got.Header.Get("Location"))
	}
	s.described(t, "GET", "/ui/", "")
}

// What the policy would refuse, and what would read data as HTML, stands in no file of the page.
func TestUIHasNothingInlineAndNothingFromOutside(t *testing.T) {
	t.Parallel()
	forbidden := map[string]*regexp.Regexp{
		"a script in the page":           regexp.MustCompile(`<script(?:[^>]*)>[^<]`),
		"a handler or style in the page": regexp.MustCompile(`<[^>]*\s(?:on[a-z]+|style)\s*=`),
		"text read as HTML":              regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|\beval\(|new Function`),
		"an address outside":             regexp.MustCompile(`(?:https?:)?//[a-z0-9-]+\.|@import|url\(`),
	}
	for name, content := range uiSources(t) {
		content = strings.ReplaceAll(content, "http://www.w3.org/2000/svg", "")
		for what, pattern := range forbidden {
			if found := pattern.FindString(content); found != "" {
				t.Errorf("%s has %s: %s", name, what, found)
			}
		}
	}
}

// The page has words for everything that the service can tell, in both languages.
func TestUIKnowsEveryStageAndKind(t *testing.T) {
	t.Parallel()
	english, korean, found := strings.Cut(uiSources(t)["texts.js"], "\n  ko: {")
	if !found {
		t.Fatal("the texts have no Korean part")
	}
	var words []string
	for _, stage := range farm.Stages {
		words = append(words, " "+string(stage)+": '")
	}
	for _, kind := range audit.Kinds() {
		words = append(words, "'"+string(kind)+"': '")
	}
	for _, kind := range []farm.OperationKind{farm.OperationCreate, farm.OperationDelete, farm.OperationMigrate} {
		words = append(words, " "+string(kind)+": '")
	}
	for _, result := range []string{farm.ResultRunning, farm.ResultOK, farm.ResultError, farm.ResultUndone, farm.ResultNone} {
		words = append(words, " "+result+": '")
	}
	for _, what := range farm.Whats {
		words = append(words, " "+what+": '")
	}
	for language, texts := range map[string]string{"English": english, "Korean": korean} {
		for _, word := range words {
			if !strings.Contains(texts, word) {
				t.Errorf("no %s text for%s", language, word)
			}
		}
	}
}

// A browser may read with the token as password of HTTP Basic, and change nothing with it.
func TestBasicOpensReadingOnly(t *testing.T) {
	t.Parallel()
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	const challenge = `Basic realm="config-server", charset="UTF-8"`
	cases := []struct {
		name, method, path, authorization string
		status                            int
		asks                              string // WWW-Authenticate
	}{
		{"page", "GET", "/ui/", basic("operator", "s3cret-marker"), 200, ""},
		{"page, whoever", "GET", "/ui/", basic("", "s3cret-marker"), 200, ""},
		{"its files", "GET", "/ui/ui.js", basic("x", "s3cret-marker"), 200, ""},
		{"without a body", "HEAD", "/ui/", basic("x", "s3cret-marker"), 200, ""},
		{"what it reads", "GET", "/workspaces", basic("x", "s3cret-marker"), 200, ""},
		{"nodes", "GET", "/nodes", basic("x", "s3cret-marker"), 200, ""},
		{"findings", "GET", "/findings", basic("x", "s3cret-marker"), 200, ""},
		{"operations", "GET", "/operations", basic("x", "s3cret-marker"), 200, ""},
		{"status", "GET", "/pods/kim/status", basic("x", "s3cret-marker"), 200, ""},
		{"documentation", "GET", "/apidocs/", basic("x", "s3cret-marker"), 200, ""},
		{"nothing sent", "GET", "/ui/", "", 401, challenge},
		{"nothing sent, what it reads", "GET", "/workspaces", "", 401, challenge},
		{"wrong", "GET", "/ui/", basic("x", "s3cret-markeR"), 401, challenge},
		{"as user", "GET", "/ui/", basic("s3cret-marker", ""), 401, challenge},
		{"token of another scheme", "GET", "/ui/", "Bearer s3cret-marker", 401, challenge},
		{"not base64", "GET", "/ui/", "Basic s3cret-marker", 401, challenge},
		{"create", "POST", "/create-pod", basic("x", "s3cret-marker"), 401, "X-Internal-Token"},
		{"delete", "DELETE", "/accounts/users/kim", basic("x", "s3cret-marker"), 401, "X-Internal-Token"},
		{"put", "PUT", "/accounts/users", basic("x", "s3cret-marker"), 401, "X-Internal-Token"},
		{"odd methods", "OPTIONS", "/workspaces", basic("x", "s3cret-marker"), 401, "X-Internal-Token"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(withToken)
			req := newRequest(c.method, c.path, `{"username":"u"}`)
			req.Header.Set("Authorization", c.authorization)
			got := s.send(req)
			if got.Status != c.status || got.Header.Get("WWW-Authenticate") != c.asks {
				t.Errorf("status %d, asks for %q, want %d, %q", got.Status, got.Header.Get("WWW-Authenticate"), c.status, c.asks)
			}
			if worked := s.worked(); c.status == 401 && len(worked) > 0 {
				t.Errorf("a use case was asked: %v", worked)
			}
		})
	}
}

// The header opens everything beside a wrong Basic, as Swagger UI sends both.
func TestTokenHeaderBesideBasic(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "PUT"} {
		req := newRequest(method, "/accounts/users", `{"name":"kim","passwd_base64":"c2VjcmV0"}`)
		req.SetBasicAuth("x", "wrong")
		req.Header.Set("X-Internal-Token", "s3cret-marker")
		if got := newService(withToken).send(req); got.Status >= 300 {
			t.Errorf("%s: %d %s", method, got.Status, got.Text)
		}
	}
}
