package app_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// logLine is one line of the service's log.
type logLine struct {
	Time      time.Time
	Level     string
	Msg       string
	RequestID string `json:"request_id"`
	Part      string
	Call      string
	UseCase   string `json:"use_case"`
	Step      string
}

// logLines parses everything that the service has printed. Every line has to be a JSON object with a
// time, a level and a text.
func logLines(t *testing.T, s *testkit.ServiceProcess) []logLine {
	t.Helper()
	var all []logLine
	for text := range strings.Lines(s.Log(t)) {
		var line logLine
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.Time.IsZero() || line.Level == "" || line.Msg == "" {
			t.Fatalf("not a line of the log: %q (%v)", text, err)
		}
		all = append(all, line)
	}
	return all
}

// journey sends requests one after the other, each with an id of its own.
type journey struct {
	world   *world.World
	service *testkit.ServiceProcess
}

// send sends one request and waits until its last line is in the log.
func (j *journey) send(t *testing.T, id, method, path, body string, want int) map[string]any {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, j.service.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Request-Id", id)
	request.Header.Set("X-Internal-Token", markToken)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	if response.StatusCode != want || response.Header.Get("X-Request-Id") != id {
		t.Fatalf("%s: %d with id %q, want %d: %s", id, response.StatusCode, response.Header.Get("X-Request-Id"), want, text)
	}
	eventually(t, "the last line of "+id, func() bool {
		return slices.ContainsFunc(logLines(t, j.service), func(l logLine) bool { return l.RequestID == id && l.Msg == "request" })
	})
	answer := map[string]any{}
	_ = json.Unmarshal(text, &answer) // some answers are lists
	return answer
}

// background are the lines that belong to no request: they tell of the process, or are written for many
// requests at once.
func background(l logLine) bool {
	switch l.Msg {
	case "starting", "listening":
		return true
	case "call":
		return l.Part == "database" && strings.HasSuffix(l.Call, "_progress")
	}
	return false
}

// TestEveryLineOfARequestHasItsID takes one user through everything that the service does, with every
// part switched on and at the most talkative level, well and failing, and reads the whole log.
func TestEveryLineOfARequestHasItsID(t *testing.T) {
	t.Parallel()
	k := newKrb5Parts(t)
	docker := filepath.Join(t.TempDir(), "docker")
	if err := os.WriteFile(docker, []byte("#!/bin/sh\necho no engine >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := k.env(t, "farm5", "farm6", "farm7")
	maps.Copy(env, map[string]string{
		"LOG_LEVEL": "debug", "API_TOKEN": markToken, "DOCKER_BIN": docker, "REDIS_HOST": "127.0.0.1", "REDIS_PORT": "1",
		"SUDO_ALLOWED_COMMANDS": "/usr/bin/apt", "RECONCILE_INTERVAL": "1s", "AUDIT_INTERVAL": "0", "POD_READY_TIMEOUT": "3s", "HTTP_TIMEOUT_SEC": "1",
	})
	w := world.New(t, world.Options{Env: env})
	w.Cluster.Grant(t, "everything")
	config := testkit.GoldenUserConfig("kim")
	config["passwd_base64"] = base64.StdEncoding.EncodeToString([]byte(markAdminBE))
	w.AdminBE.Set("", testkit.AdminBEAnswer{Body: config})
	j := &journey{w, w.Service(t, nil)}
	if err := os.WriteFile(filepath.Join(w.Images, "user-kim.tar"), []byte("no image"), 0o644); err != nil {
		t.Fatal(err)
	}

	j.send(t, "put", "PUT", "/accounts/users", newUserBody("kim"), 201)
	j.send(t, "put-again", "PUT", "/accounts/users", newUserBody("kim"), 409)
	j.send(t, "group", "PUT", "/accounts/groups", `{"name":"team","members":["kim"]}`, 201)
	created := j.send(t, "create", "POST", "/create-pod", `{"username":"kim"}`, 201)
	j.send(t, "migrate", "POST", "/migrate", `{"username":"kim","nodes":["farm5","farm6","farm7"]}`, 200)

	w.AdminBE.Set("kim", testkit.AdminBEAnswer{Status: 500, Body: config})
	j.send(t, "no-config", "POST", "/create-pod", `{"username":"kim"}`, 502)
	w.AdminBE.SetConfig("kim", map[string]any{"image": "x:" + testkit.ImageNeverPull, "passwd_base64": markAdminBE})
	j.send(t, "never-ready", "POST", "/create-pod", `{"username":"kim"}`, 500)
	w.NAS.Fail(t, testkit.SSHFault{Contains: "chown", Exit: 1, Stderr: "no"})
	j.send(t, "no-home", "PUT", "/accounts/users", newUserBody("lee"), 500)
	w.NAS.Fail(t)

	j.send(t, "delete-pod", "POST", "/delete-pod", fmt.Sprintf(`{"pod_name":%q}`, created["pod_name"]), 200)
	j.send(t, "delete-user", "DELETE", "/accounts/users/kim", "", 200)
	j.passes(t, 2)

	lines := logLines(t, j.service)
	j.checkIDs(t, lines)
	checkCalls(t, lines, map[string][]string{
		"put":         {"call nas", "call kdc", "call kubernetes", "step create-user"},
		"put-again":   {"request"},
		"group":       {"request"},
		"create":      {"call admin_be", "call prometheus", "call kubernetes", "call database", "call engine", "call farm", "call redis", "step create-pod", "saved image of user 'kim' is not used"},
		"migrate":     {"call prometheus", "call kubernetes"},
		"no-config":   {"call admin_be", "step failed create-pod"},
		"never-ready": {"call kubernetes", "step failed create-pod", "undone create-pod", "nothing to undo create-pod"},
		"no-home":     {"call nas", "step failed create-user", "undone create-user"},
		"delete-pod":  {"call kubernetes", "call database", "call farm", "step delete-pod"},
		"delete-user": {"call nas", "call kdc", "call kubernetes", "step delete-user"},
	})
	for _, id := range w.AdminBE.RequestIDs() {
		if !slices.Contains([]string{"create", "migrate", "no-config", "never-ready"}, id) {
			t.Errorf("admin_be was sent the id %q", id)
		}
	}
	if len(w.AdminBE.RequestIDs()) < 3 {
		t.Errorf("admin_be was asked %d times", len(w.AdminBE.RequestIDs()))
	}
	hidden := secrets(w)
	hidden["the KDC's password"] = k.kdc.AdminPassword
	checkSilent(t, "the log", j.service.Log(t), hidden)
}

// passes waits for so many passes of the reconciler, and returns the ids of those that there were.
func (j *journey) passes(t *testing.T, n int) []string {
	t.Helper()
	var ids []string
	testkit.WaitFor(t, testLimit, "passes of the reconciler", func(context.Context) error {
		ids = nil
		for _, l := range logLines(t, j.service) {
			if l.Part == "kubernetes" && l.Call == "list services" && !slices.Contains(ids, l.RequestID) && drawn.MatchString(l.RequestID) {
				ids = append(ids, l.RequestID)
			}
		}
		if len(ids) < n {
			return errors.New("too few yet")
		}
		return nil
	})
	return ids
}

// drawn is the form of an id that the service has made.
var drawn = regexp.MustCompile(`\A[0-9a-f]{32}\z`)

// checkIDs looks whether every line has an id: that of a request, between its first line and its last, or
// that of a pass.
func (j *journey) checkIDs(t *testing.T, lines []logLine) {
	t.Helper()
	over := map[string]bool{}
	for _, l := range lines {
		switch {
		case background(l):
		case l.RequestID == "":
			t.Errorf("a line of nobody: %+v", l)
		// The worker that writes to Redis is behind the requests that it writes for.
		case over[l.RequestID] && l.Part != "redis" && l.Msg != "image metadata is not written":
			t.Errorf("a line after the request's last: %+v", l)
		}
		if l.Msg == "request" {
			over[l.RequestID] = true
		}
	}
}

// checkCalls looks whether each request's lines tell of what it must have done.
func checkCalls(t *testing.T, lines []logLine, want map[string][]string) {
	t.Helper()
	told := map[string]map[string]bool{}
	for _, l := range lines {
		if told[l.RequestID] == nil {
			told[l.RequestID] = map[string]bool{}
		}
		text, _, _ := strings.Cut(l.Msg, ",") // reasons follow
		told[l.RequestID][strings.TrimSpace(text+" "+l.Part+l.UseCase)] = true
	}
	for id, all := range want {
		for _, one := range all {
			if !told[id][one] {
				t.Errorf("the lines of %s tell of no %q, only of %q", id, one, slices.Sorted(maps.Keys(told[id])))
			}
		}
	}
}
