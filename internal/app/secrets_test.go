package app_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"config-server/api/apitest"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// spy sends requests with the token and keeps every answer.
type spy struct {
	base, token string

	mu      sync.Mutex
	answers []string
}

func (s *spy) send(t *testing.T, method, path, body string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Internal-Token", s.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0 // the service was stopped in between
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, fmt.Sprint(method, " ", path, " ", response.StatusCode, " ", response.Header, " ", string(text)))
	return response.StatusCode
}

const (
	markPassword  = "Marker-Passw0rd-of-a-user"
	markToken     = "Marker-T0ken-of-callers"
	markWrong     = "Marker-Wr0ng-token"
	markAdminBE   = "Marker-Passw0rd-of-admin-be"
	markDatabase  = "Marker-Wr0ng-database-passw0rd"
	markUndecoded = "Marker-n0t-base64!"
)

// secrets lists every form in which a marker could come out.
func secrets(w *world.World) map[string]string {
	list := map[string]string{"the database's password": w.MariaDB.Password}
	for _, mark := range []string{markPassword, markToken, markWrong, markAdminBE, markDatabase, markUndecoded} {
		list[mark] = mark
		list[mark+" in base64"] = base64.StdEncoding.EncodeToString([]byte(mark))
	}
	return list
}

// checkSilent looks for secrets in a text.
func checkSilent(t *testing.T, where, text string, hidden map[string]string) {
	t.Helper()
	for name, secret := range hidden {
		if at := strings.Index(text, secret); secret != "" && at >= 0 {
			t.Errorf("%s has %s: ...%s...", where, name, text[max(0, at-120):min(len(text), at+len(secret)+20)])
		}
	}
	if strings.Contains(text, "$6$") {
		t.Errorf("%s has a password hash: ...%s", where, text[max(0, strings.Index(text, "$6$")-200):][:220])
	}
}

func newUserBody(name string) string {
	return fmt.Sprintf(`{"name":%q,"passwd_base64":%q}`, name, base64.StdEncoding.EncodeToString([]byte(markPassword)))
}

// TestSecretsStayInside plants markers in every place where a secret enters and takes the service
// through success and through the failure of each part, at the most talkative log level. Nothing of
// them may come out: not in logs, answers, metrics, commands, argument lists, journals or objects.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{OwnMariaDB: true})
	redis := testkit.Redis(t)
	children := filepath.Join(t.TempDir(), "children")
	docker := filepath.Join(t.TempDir(), "docker")
	script := "#!/bin/sh\n{ tr '\\0' ' ' </proc/$$/cmdline; tr '\\0' '\\n' </proc/$$/environ; } >>" + children + "\necho no engine >&2\nexit 1\n"
	if err := os.WriteFile(docker, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	config := testkit.GoldenUserConfig("kim")
	config["passwd_base64"] = base64.StdEncoding.EncodeToString([]byte(markAdminBE))
	config["password"] = markAdminBE
	w.AdminBE.Set("", testkit.AdminBEAnswer{Body: config})
	env := map[string]string{
		"LOG_LEVEL": "debug", "API_TOKEN": markToken, "DOCKER_BIN": docker, "STATE_DIR": t.TempDir(),
		"REDIS_HOST": redis.Host, "REDIS_PORT": strconv.Itoa(redis.Port), "SUDO_ALLOWED_COMMANDS": "/usr/bin/apt",
		"POD_READY_TIMEOUT": "3s", "POD_DELETE_TIMEOUT": "3s", "RECONCILE_INTERVAL": "1s", "HTTP_TIMEOUT_SEC": "1", "UNDO_RESERVE": "10s",
		"ACCOUNT_REQUEST_BUDGET": "20s", "POD_REQUEST_BUDGET": "20s", "DRAIN_TIMEOUT": "5s",
	}
	service := w.Service(t, env)
	caller := &spy{base: service.URL, token: markToken}
	if err := os.WriteFile(filepath.Join(w.Images, "user-kim.tar"), []byte("no image"), 0o644); err != nil {
		t.Fatal(err)
	}
	round := func(user string) {
		caller.send(t, "PUT", "/accounts/users", newUserBody(user))
		caller.send(t, "PUT", "/accounts/users", newUserBody(user))
		caller.send(t, "POST", "/create-pod", `{"username":"`+user+`"}`)
		caller.send(t, "POST", "/migrate", `{"username":"`+user+`","nodes":["farm5","farm6","farm7"]}`)
		for _, pod := range w.Pods(t) {
			if pod.Labels["username"] == user {
				caller.send(t, "POST", "/delete-pod", `{"pod_name":"`+pod.Name+`"}`)
			}
		}
		caller.send(t, "DELETE", "/accounts/users/"+user, "")
	}

	// All is well; kim stays, with a hash in shadow.
	round("well")
	if caller.send(t, "PUT", "/accounts/users", newUserBody("kim")) != 201 || caller.send(t, "POST", "/create-pod", `{"username":"kim"}`) != 201 {
		t.Fatalf("kim could not be made: %s", caller.answers)
	}
	hidden := secrets(w)
	shadow := w.ShareFiles(t)["shadow"]
	_, rest, found := strings.Cut(shadow, "kim:$6$")
	if !found {
		t.Fatalf("kim has no hash in shadow")
	}
	hash, _, _ := strings.Cut(rest, ":")
	salt, digest, _ := strings.Cut(hash, "$")
	hidden["kim's salt"], hidden["kim's hash"] = salt, digest

	// Requests that are wrong around a secret.
	mark := base64.StdEncoding.EncodeToString([]byte(markPassword))
	for _, body := range []string{
		`{"name":"a","passwd_base64":"` + markUndecoded + `"}`, `{"name":"a","passwd_base64":["` + mark + `"]}`, `{"name":"a","passwd_base64":{"x":"` + mark + `"}}`,
		`{"passwd_base64":"` + mark + `"`, `{"passwd_base64":"` + mark + `"}`, `{"name":"a","passwd_base64":"` + mark + `" "x"}`, mark, `"` + mark + `"`,
		`{"name":"a","passwd_base64":"` + mark + `\n"}`, `{"name":"a","passwd_base64":"` + mark + `","supplementary_groups":"x"}`, `{"name":"root","passwd_base64":"` + mark + `"}`,
	} {
		if status := caller.send(t, "PUT", "/accounts/users", body); status < 400 || status >= 500 {
			t.Errorf("%s: status %d", body, status)
		}
	}
	stranger := &spy{base: service.URL, token: markWrong}
	if stranger.send(t, "GET", "/accounts/users", "") != 401 {
		t.Error("a wrong token was let in")
	}

	// admin_be answers a password in every wrong way.
	for _, answer := range []testkit.AdminBEAnswer{
		{Status: 500, Body: config}, {Status: 404, Body: config}, {Status: 302, Body: config}, {Body: `{"passwd_base64":"` + hidden[markAdminBE+" in base64"] + `"`},
		{Body: "<html>" + markAdminBE}, {Body: []string{markAdminBE}}, {Body: map[string]any{"image": map[string]any{"x": markAdminBE}}},
		{Body: map[string]any{"image": "x", "additional_ports": []any{map[string]any{"internal_port": markAdminBE}}, "passwd_base64": markAdminBE}}, {Reset: true}, {Hang: true},
	} {
		w.AdminBE.Set("kim", answer)
		if status := caller.send(t, "POST", "/create-pod", `{"username":"kim"}`); status < 400 {
			t.Errorf("create-pod with a wrong config: %d", status)
		}
	}
	w.AdminBE.Set("kim", testkit.AdminBEAnswer{Body: config})

	// Each part is away once.
	for i, part := range []struct {
		name      string
		off, back func()
	}{
		{"Redis", redis.Stop, func() { redis.Start(t) }},
		{"the NAS", w.NAS.Stop, func() { w.NAS.Start(t) }},
		{"a NAS that says no", func() { w.NAS.Fail(t, testkit.SSHFault{Contains: "chown", Exit: 1, Stderr: "no"}) }, func() { w.NAS.Fail(t) }},
		{"Prometheus", func() { w.Prom.Stop() }, func() {}},
		{"MariaDB", func() { w.MariaDB.Stop(t) }, func() { w.MariaDB.Start(t) }},
		{"the API server", func() { w.Cluster.Stop(t, testkit.PartAPIServer) }, func() { w.Cluster.Start(t, testkit.PartAPIServer) }},
		{"pods that fail", func() {
			w.AdminBE.SetConfig("", map[string]any{"image": "x:" + testkit.ImageFails, "passwd_base64": markAdminBE})
		}, func() { w.AdminBE.Set("", testkit.AdminBEAnswer{Body: config}) }},
		{"shadow", func() { rename(t, w.Share+"/shadow", w.Share+"/shadow.away") }, func() { rename(t, w.Share+"/shadow.away", w.Share+"/shadow") }},
		{"shadow, as a folder", func() { rename(t, w.Share+"/shadow", w.Share+"/shadow.away"); mkdir(t, w.Share+"/shadow") },
			func() {
				rename(t, w.Share+"/shadow", w.Share+"/nothing")
				rename(t, w.Share+"/shadow.away", w.Share+"/shadow")
			}},
	} {
		part.off()
		user := "u" + strconv.Itoa(i)
		caller.send(t, "PUT", "/accounts/users", newUserBody(user))
		caller.send(t, "PUT", "/accounts/users/kim/groups", `{"groups":["kim"]}`)
		caller.send(t, "POST", "/create-pod", `{"username":"kim"}`)
		caller.send(t, "DELETE", "/accounts/users/"+user, "")
		caller.send(t, "GET", "/readyz", "")
		for _, words := range [][]string{{"check"}, {"audit"}, {"reconcile", "--dry-run", "-v"}} {
			_, out, errs := byHand(t, w, env, words...)
			checkSilent(t, part.name+" away: "+words[0], out+errs, hidden)
		}
		part.back()
	}

	if caller.send(t, "GET", "/metrics", "") != 200 {
		t.Error("no metrics")
	}

	// While an account is in the making its journal entry stands on the share.
	w.NAS.Fail(t, testkit.SSHFault{Contains: "mkdir", Hang: true})
	making := make(chan struct{})
	go func() {
		defer close(making)
		caller.send(t, "PUT", "/accounts/users", newUserBody("making"))
	}()
	eventually(t, "the journal entry", func() bool {
		for name := range w.ShareFiles(t) {
			if strings.Contains(name, "journal/") {
				return true
			}
		}
		return false
	})
	for name, text := range w.ShareFiles(t) {
		if name != "shadow" {
			checkSilent(t, "the share's "+name, text, hidden)
		}
	}
	service.Term()
	<-making
	service.Wait(t, testLimit)

	// A database that refuses the password.
	wrong := map[string]string{"DB_PASSWORD": markDatabase, "STATE_DIR": t.TempDir()}
	for name, value := range env {
		if wrong[name] == "" {
			wrong[name] = value
		}
	}
	refused := w.Service(t, wrong)
	caller.base = refused.URL
	if status := caller.send(t, "POST", "/create-pod", `{"username":"kim"}`); status < 500 {
		t.Errorf("create-pod with a wrong password of the database: %d", status)
	}
	caller.send(t, "GET", "/readyz", "")
	caller.send(t, "GET", "/metrics", "")
	_, out, errs := byHand(t, w, wrong, "check")
	checkSilent(t, "check", out+errs, hidden)

	for _, answer := range append(caller.answers, stranger.answers...) {
		checkSilent(t, "an answer", answer, hidden)
	}
	checkSilent(t, "the log", service.Log(t)+refused.Log(t), hidden)
	checkSilent(t, "the NAS's commands", strings.Join(w.NAS.Commands(t), "\n"), hidden)
	text, err := os.ReadFile(children)
	if err != nil {
		t.Errorf("docker was never run: %v", err)
	}
	checkSilent(t, "docker's arguments and environment", string(text), hidden)
	for _, pod := range w.Pods(t) {
		checkSilent(t, "pod "+pod.Name, pod.String(), hidden)
	}
	for _, s := range w.Services(t) {
		checkSilent(t, "Service "+s.Name, s.String(), hidden)
	}
	levels := service.Log(t)
	if !strings.Contains(levels, `"level":"WARN"`) || len(caller.answers) < 60 {
		t.Errorf("the journey was too quiet to prove anything: %d answers", len(caller.answers))
	}
	t.Logf("secrets: %d answers, %d bytes of logs, %d commands looked at for %d secrets", len(caller.answers)+len(stranger.answers), len(levels), len(w.NAS.Commands(t)), len(hidden))
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestTokenGuardsEveryEndpoint asks each endpoint of the description and some that are none.
func TestTokenGuardsEveryEndpoint(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Env: map[string]string{"API_TOKEN": markToken}})
	service := w.Service(t, nil)
	before := farmState(t, w)
	type call struct{ method, path, body string }
	guarded := []call{
		{"POST", "/create-pod", `{"username":"kim"}`}, {"POST", "/delete-pod", `{"pod_name":"ailab-kim-00000000"}`}, {"POST", "/migrate", `{"username":"kim","nodes":["farm5"]}`},
		{"GET", "/accounts/users", ""}, {"HEAD", "/accounts/users", ""}, {"GET", "/accounts/users/root", ""}, {"PUT", "/accounts/users", world.UserBody("kim")}, {"DELETE", "/accounts/users/kim", ""},
		{"PUT", "/accounts/users/kim/groups", `{"groups":["a"]}`}, {"PUT", "/accounts/groups", `{"name":"team"}`}, {"DELETE", "/accounts/groups/team", ""},
		{"GET", "/apidocs/", ""}, {"GET", "/apidocs", ""}, {"GET", "/apispec_1.json", ""}, {"GET", "/nowhere", ""}, {"PATCH", "/accounts/users", ""}, {"POST", "/metrics/../create-pod", "{}"},
		{"GET", "//health", ""}, {"GET", "/health/", ""}, {"GET", "/HEALTH", ""}, {"GET", "/metrics/x", ""},
	}
	open := []string{"/health", "/readyz", "/metrics"}
	validator, err := apitest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for template, item := range validator.Document.Paths.Map() {
		for method := range item.Operations() {
			if !slices.Contains(open, template) {
				guarded = append(guarded, call{method, regexp.MustCompile(`\{\w+\}`).ReplaceAllString(template, "kim"), ""})
			}
		}
	}
	for _, g := range guarded {
		for name, token := range map[string]string{
			"none": "", "wrong": markWrong, "a part of it": markToken[:len(markToken)-1], "more than it": markToken + "x", "in other case": strings.ToUpper(markToken), "in base64": base64.StdEncoding.EncodeToString([]byte(markToken)),
		} {
			caller := &spy{base: service.URL, token: token}
			if status := caller.send(t, g.method, g.path, g.body); status != 401 {
				t.Errorf("%s %s with token %s: %d", g.method, g.path, name, status)
			}
			answer := caller.answers[0]
			if !strings.Contains(answer, "application/json") || g.method != "HEAD" && !strings.Contains(answer, `"error"`) {
				t.Errorf("%s %s with token %s: %s", g.method, g.path, name, answer)
			}
		}
	}
	after := farmState(t, w)
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range after {
			if !strings.HasPrefix(name, "table ") && !yield(name) {
				return
			}
		}
	}) {
		if before[name] != after[name] {
			t.Errorf("%s was changed", name)
		}
	}
	for _, path := range open {
		caller := &spy{base: service.URL}
		if status := caller.send(t, "GET", path, ""); status != 200 {
			t.Errorf("GET %s without a token: %d", path, status)
		}
	}
	caller := &spy{base: service.URL, token: markToken}
	for path, want := range map[string]int{"/accounts/users": 200, "/apispec_1.json": 200, "/nowhere": 404} {
		if status := caller.send(t, "GET", path, ""); status != want {
			t.Errorf("GET %s with the token: %d, want %d", path, status, want)
		}
	}
}
