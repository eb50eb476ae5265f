package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A check tells by its exit code whether every line is ok, and a queue whether there is one.
func TestCheckExitCodes(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/projects/good/check":
			_, _ = w.Write([]byte(`{"project":"good","ok":true,"lines":[{"name":"name","result":"ok","text":"t","todo":""}]}`))
		case "/projects/bad/check":
			_, _ = w.Write([]byte(`{"project":"bad","ok":false,"lines":[{"name":"gated","result":"partly","text":"1 of 2","todo":"label it"}]}`))
		case "/projects/good/queue":
			_, _ = w.Write([]byte(`{"project":"good","priority":1,"policy":"","nodes":[],"observed":true,"waiting":[],"blocked":[]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":"project bad has no queue: bound: no node is bound to the project"}`))
		}
	}))
	t.Cleanup(server.Close)
	for name, tc := range map[string]struct {
		args      []string
		code      int
		out, says string
	}{
		"all is ok":                 {[]string{"check", "good"}, exitOK, "name", ""},
		"a line that is not":        {[]string{"check", "bad"}, exitFailed, "label it", ""},
		"a line that is not, JSON":  {[]string{"check", "bad", "-o", "json"}, exitFailed, `"result": "partly"`, ""},
		"no such project":           {[]string{"check", "none"}, exitFailed, "", "answered 404"},
		"a queue":                   {[]string{"queue", "good"}, exitOK, "POSITION", ""},
		"no queue":                  {[]string{"queue", "bad"}, exitFailed, "", "no node is bound"},
		"no name":                   {[]string{"check"}, exitUsage, "", "the name of one project"},
		"two names":                 {[]string{"queue", "a", "b"}, exitUsage, "", "the name of one project"},
		"a name that cannot be one": {[]string{"check", "a/b"}, exitUsage, "", "bad name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, said := typed(t.Context(), nil, append([]string{"projects"}, append(tc.args, "--server", server.URL)...)...)
			if code != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(said, tc.says) {
				t.Errorf("exit %d\n%s\n%s", code, out, said)
			}
		})
	}
}
