package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// farmOf plays a service that knows some paths and wants a token.
func farmOf(t *testing.T, token string, bodies map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, known := bodies[r.URL.RequestURI()]
		switch {
		case r.Header.Get("X-Internal-Token") != token:
			w.WriteHeader(http.StatusUnauthorized)
			body = `{"error":"header X-Internal-Token is missing or wrong"}`
		case !known:
			w.WriteHeader(http.StatusNotFound)
			body = `{"error":"no such route"}`
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// answered are answers of a small farm.
var answered = map[string]string{
	"/accounts/users": `{"users":[
		{"name":"root","uid":0,"gid":0,"gecos":"","home":"/root","shell":"/bin/bash"},
		{"name":"kim","uid":20000,"gid":20000,"gecos":"김민수, 석사과정","home":"/home/kim","shell":"/bin/bash"},
		{"name":"user2100","uid":20001,"gid":20001,"gecos":"GPU User","home":"/home/user2100","shell":"/bin/bash"},
		{"name":"odd","uid":20002,"gid":20002,"gecos":"bell\u0007","home":"/home/odd","shell":""}]}`,
	"/accounts/groups": `{"groups":[{"name":"sudo","gid":27,"members":[]},{"name":"연구실","gid":20005,"members":["kim","user2100"]},{"name":"dev","gid":20300,"members":["kim"]}]}`,
}

const usersTable = `NAME        UID    GID  GECOS             HOME            SHELL
root          0      0  -                 /root           /bin/bash
kim       20000  20000  김민수, 석사과정  /home/kim       /bin/bash
user2100  20001  20001  GPU User          /home/user2100  /bin/bash
odd       20002  20002  "bell\a"          /home/odd       -
`

const groupsTable = `NAME      GID  MEMBERS
sudo       27  -
연구실  20005  kim,user2100
dev     20300  kim
`

func TestTablesAreAlignedAlsoWithKoreanText(t *testing.T) {
	t.Parallel()
	url := farmOf(t, "", answered)
	for name, want := range map[string]string{"users": usersTable, "groups": groupsTable} {
		code, out, errors := typed(t.Context(), []string{"CONFIG_SERVER_URL=" + url}, name, "list")
		if diff := cmp.Diff(want, out); code != exitOK || errors != "" || diff != "" {
			t.Errorf("%s: exit %d %s (-want +got):\n%s", name, code, errors, diff)
		}
	}
}

func TestJSONIsTheServicesAnswer(t *testing.T) {
	t.Parallel()
	url := farmOf(t, "", answered)
	for name, path := range map[string]string{"users": "/accounts/users", "groups": "/accounts/groups"} {
		code, out, errors := typed(t.Context(), nil, name, "list", "--server", url, "-o", "json")
		if diff := cmp.Diff(decoded(t, answered[path]), decoded(t, out)); code != exitOK || errors != "" || diff != "" {
			t.Errorf("%s: exit %d %s (-want +got):\n%s", name, code, errors, diff)
		}
	}
}

func TestWhereAddressAndTokenComeFrom(t *testing.T) {
	t.Parallel()
	url := farmOf(t, "marker", answered)
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	right, wrong, empty := file("right", "marker\n"), file("wrong", "other"), file("empty", "\n")
	for name, tc := range map[string]struct {
		environ, args []string
		code          int
		says          string
	}{
		"token of the environment":      {[]string{"API_TOKEN=marker"}, []string{"--server", url}, exitOK, ""},
		"token of a file":               {nil, []string{"--server", url, "--token-file", right}, exitOK, ""},
		"the file before the variable":  {[]string{"API_TOKEN=other"}, []string{"--server", url, "--token-file", right}, exitOK, ""},
		"the flag before the variable":  {[]string{"API_TOKEN=marker", "CONFIG_SERVER_URL=http://127.0.0.1:1"}, []string{"--server", url}, exitOK, ""},
		"no token":                      {nil, []string{"--server", url}, exitFailed, "set API_TOKEN"},
		"another token":                 {nil, []string{"--server", url, "--token-file", wrong}, exitFailed, "not the service's"},
		"a file without a token":        {nil, []string{"--server", url, "--token-file", empty}, exitUsage, "is empty"},
		"a file that is not there":      {nil, []string{"--server", url, "--token-file", folder + "/none"}, exitUsage, "read the token"},
		"an address that is none":       {nil, []string{"--server", "config.example"}, exitUsage, "is no address of a service"},
		"an address that nobody has":    {[]string{"CONFIG_SERVER_URL=http://127.0.0.1:1"}, nil, exitFailed, "does the service run there?"},
		"a service that knows no lists": {[]string{"API_TOKEN=marker"}, []string{"--server", url + "/elsewhere"}, exitFailed, "does not know this call"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errors := typed(t.Context(), tc.environ, append([]string{"users", "list"}, tc.args...)...)
			if code != tc.code || !strings.Contains(errors, tc.says) || strings.Contains(errors, "marker") {
				t.Errorf("exit %d: %s", code, errors)
			}
			if (out == "") != (code != exitOK) {
				t.Errorf("printed %q", out)
			}
		})
	}
}
