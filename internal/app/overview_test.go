package app_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"config-server/api/apitest"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// looked asks one of the read-only calls and compares the answer with the API description.
func looked(t *testing.T, base, path string, status int) world.Answer {
	t.Helper()
	answer := world.Call(t, base, "GET", path, "", status)
	v, err := apitest.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), "GET", base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response := &http.Response{StatusCode: answer.Status, Header: answer.Header, Body: io.NopCloser(bytes.NewReader(answer.Body))}
	if err := v.ValidateAnswer(request, response); err != nil {
		t.Error(err)
	}
	return answer
}

func TestOverviewShowsWhatStandsAndSaysWhenItCannot(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{OwnMariaDB: true})
	service := w.Service(t, nil)
	kim := workspaceOf(t, service.URL, "kim")

	got := looked(t, service.URL, "/workspaces", 200)
	list := got.JSON["workspaces"].([]any)
	if len(list) != 1 {
		t.Fatalf("workspaces: %s", got.Body)
	}
	one := list[0].(map[string]any)
	if fmt.Sprint(one["username"], one["pod_name"], one["node"], one["stage"], one["phase"], one["ready"]) != "kim"+kim+"farm6readyRunningtrue" {
		t.Errorf("workspace %v", one)
	}
	if age := time.Since(parseTime(t, one["created_at"])); age < -time.Minute || age > 5*time.Minute {
		t.Errorf("created at %v", one["created_at"])
	}
	if ports := fmt.Sprint(one["ports"]); ports != "[map[internal_port:22 node_port:30000 purpose:ssh] map[internal_port:8888 node_port:30001 purpose:jupyter]]" {
		t.Errorf("ports %s", ports)
	}

	nodes := looked(t, service.URL, "/nodes", 200)
	var lines []string
	for _, node := range nodes.JSON["nodes"].([]any) {
		lines = append(lines, fmt.Sprint(node))
	}
	want := []string{"name:farm5 ready:true", "name:farm6 ready:true", "name:farm7 ready:true", "name:farm8 ready:true"}
	for i, text := range want {
		if len(lines) != len(want) || !strings.Contains(lines[i], text) {
			t.Fatalf("nodes %v", lines)
		}
	}
	if !strings.Contains(lines[1], "score:11.3765625 workspaces:1") || !strings.Contains(lines[3], "score:<nil> workspaces:0") {
		t.Errorf("nodes %v", lines)
	}
	if ports := fmt.Sprint(nodes.JSON["nodeports"]); ports != "map[all:map[free:2766 used:2] reachable:map[free:96 used:2]]" {
		t.Errorf("NodePorts %s", ports)
	}

	w.Prom.Stop()
	w.MariaDB.Stop(t)
	testkit.WaitFor(t, testLimit, "warnings of what is down", func(context.Context) error {
		if answer := looked(t, service.URL, "/nodes", 200); answer.JSON["nodeports"] != nil || len(answer.JSON["warnings"].([]any)) != 2 {
			return fmt.Errorf("%s", answer.Body)
		}
		return nil
	})
	for _, path := range []string{"/workspaces", "/findings"} {
		if answer := looked(t, service.URL, path, 503); answer.Text("error") == "" {
			t.Errorf("%s without the database: %s", path, answer.Body)
		}
	}
	w.MariaDB.Start(t)
	w.Cluster.Stop(t, testkit.PartAPIServer)
	for _, path := range []string{"/workspaces", "/nodes"} {
		testkit.WaitFor(t, testLimit, path+" to see that the API server is down", func(ctx context.Context) error {
			answer, err := world.Send(ctx, service.URL, "GET", path, "")
			if err == nil && (answer.Status != 503 || !strings.HasPrefix(answer.Text("error"), "read the ")) {
				err = fmt.Errorf("%d %s", answer.Status, answer.Body)
			}
			return err
		})
	}
	w.Cluster.Start(t, testkit.PartAPIServer)
	testkit.WaitFor(t, testLimit, "the workspace to be seen again", func(ctx context.Context) error {
		answer, err := world.Send(ctx, service.URL, "GET", "/workspaces", "")
		if err == nil && (answer.Status != 200 || !strings.Contains(string(answer.Body), kim)) {
			err = fmt.Errorf("%d %s", answer.Status, answer.Body)
		}
		return err
	})
}

func parseTime(t *testing.T, text any) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, fmt.Sprint(text))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// The service audits itself, one replica at a time; each shows the outcome, and so does an audit by
// hand.
func TestServiceAuditsItself(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Env: map[string]string{"LEDGER_LOCK": "mysql"}})
	one := w.Service(t, map[string]string{"AUDIT_INTERVAL": "1s"})
	two := w.Service(t, map[string]string{"AUDIT_INTERVAL": "0"})
	world.Call(t, one.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)

	findings := func(base, want string) func(context.Context) error {
		return func(ctx context.Context) error {
			answer, err := world.Send(ctx, base, "GET", "/findings", "")
			if err == nil && (answer.Status != 200 || answer.JSON["checked_at"] == nil || !strings.Contains(string(answer.Body), want)) {
				err = fmt.Errorf("%d %s", answer.Status, answer.Body)
			}
			return err
		}
	}
	testkit.WaitFor(t, testLimit, "a first audit that finds nothing", findings(two.URL, `"findings":[]`))
	sqlExec(t, w, "INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port) VALUES ('kim', 'ailab-kim-0000000d', 'farm5', 22, 30500)")
	testkit.WaitFor(t, testLimit, "an audit that finds the row", findings(two.URL, `"kind":"row-without-pod","object":"ailab-kim-0000000d"`))
	looked(t, two.URL, "/findings", 200)
	metrics := string(world.Call(t, two.URL, "GET", "/metrics", "", 200).Body)
	for _, line := range []string{`config_server_audit_findings{kind="row-without-pod"} 1`, `config_server_audit_findings{kind="no-home"} 0`, "config_server_audit_timestamp_seconds "} {
		if !strings.Contains(metrics, "\n"+line) {
			t.Errorf("the metrics lack %s", line)
		}
	}

	one.Term()
	one.Wait(t, testLimit)
	sqlExec(t, w, "DELETE FROM nodeport_allocations")
	if code, out, errs := byHand(t, w, map[string]string{"STATE_DIR": t.TempDir()}, "audit"); code != 0 {
		t.Fatalf("by hand: exit %d\n%s%s", code, out, errs)
	}
	if err := findings(two.URL, `"findings":[]`)(t.Context()); err != nil {
		t.Errorf("after the audit by hand: %v", err)
	}
}
