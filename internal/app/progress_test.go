package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
	"config-server/internal/testkit/kubelet"
	"config-server/internal/testkit/world"
)

// statusOf is what a service says of kim's workspace.
func statusOf(t *testing.T, service *testkit.ServiceProcess) world.Answer {
	t.Helper()
	return world.Call(t, service.URL, "GET", "/pods/kim/status", "", 200)
}

// becomes waits for a status that has these parts, and returns it.
func becomes(t *testing.T, service *testkit.ServiceProcess, stage, message string) (status world.Answer) {
	t.Helper()
	eventually(t, fmt.Sprintf("stage %s, %q", stage, message), func() bool {
		status = statusOf(t, service)
		return status.Text("stage") == stage && strings.Contains(status.Text("message"), message)
	})
	return status
}

// operationsOf are kim's operations as a service lists them.
func operationsOf(t *testing.T, service *testkit.ServiceProcess) []map[string]any {
	t.Helper()
	answer := world.Call(t, service.URL, "GET", "/operations?username=kim", "", 200)
	var list struct{ Operations []map[string]any }
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		t.Fatal(err)
	}
	return list.Operations
}

// follow reads the stages of a stream, each once, until it ends.
func follow(t *testing.T, service *testkit.ServiceProcess) <-chan []string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", service.URL+"/pods/kim/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan []string, 1)
	go func() {
		defer func() { _ = response.Body.Close() }()
		var stages []string
		lines := bufio.NewScanner(response.Body)
		for lines.Scan() {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				var status struct{ Stage string }
				_ = json.Unmarshal([]byte(data), &status)
				stages = append(stages, status.Stage)
			}
		}
		seen <- slices.Compact(stages)
	}()
	return seen
}

// TestProgressOverTwoReplicas makes a workspace on one replica and watches it on the other, from the
// first word to the last, with kubelet's words in between.
func TestProgressOverTwoReplicas(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Env: map[string]string{"LEDGER_LOCK": "mysql"}})
	one, two := w.Service(t, map[string]string{"STATE_DIR": t.TempDir()}), w.Service(t, map[string]string{"STATE_DIR": t.TempDir()})
	world.Call(t, one.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	if status := statusOf(t, two); status.Text("stage") != "unknown" || status.Text("message") != "there is no workspace" {
		t.Errorf("before: %s", status.Body)
	}
	near, far := follow(t, one), follow(t, two)
	done := pendingCreate(t, w, one, "kim")
	pod := w.Pods(t)[0]

	for _, replica := range []*testkit.ServiceProcess{one, two} {
		var status world.Answer
		eventually(t, "the operation", func() bool {
			status = statusOf(t, replica)
			return status.Text("operation") == "create" && status.Text("stage") == "waiting_ready"
		})
		if status.Text("message") != "farm6: waiting until the node takes the pod up" || status.Text("pod_name") != pod.Name || status.Text("node") != "farm6" || status.Text("started_at") == "" {
			t.Errorf("under way: %s", status.Body)
		}
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + ".1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Type:           corev1.EventTypeNormal, Reason: "Pulling", Message: `Pulling image "decs:1"`, LastTimestamp: metav1.Now(),
	}
	if _, err := w.Cluster.Admin(t).CoreV1().Events(pod.Namespace).Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, replica := range []*testkit.ServiceProcess{one, two} {
		becomes(t, replica, "waiting_ready", `farm6: pulling image "decs:1"`)
	}

	makeReady(t, w, pod.Name)
	if got := <-done; got.err != nil || got.answer.Status != 201 {
		t.Fatalf("create-pod: %v %d %s", got.err, got.answer.Status, got.answer.Body)
	}
	// Who has the answer finds it at once where it was given.
	if status := statusOf(t, one); status.Text("stage") != "ready" || status.Text("message") != "the workspace stands on farm6" {
		t.Errorf("right after the answer: %s", status.Body)
	}
	becomes(t, two, "ready", "the workspace stands on farm6")
	for where, stages := range map[string][]string{"near": <-near, "far": <-far} {
		if len(stages) < 3 || stages[0] != "unknown" || !slices.Contains(stages, "waiting_ready") || stages[len(stages)-1] != "ready" {
			t.Errorf("stages of the %s stream: %v", where, stages)
		}
	}
	steps := operationsOf(t, two)[0]["steps"].([]any)
	if first, last := steps[0].(map[string]any), steps[len(steps)-1].(map[string]any); first["step"] != "FETCH_USER_CONFIG" || last["step"] != "CLOSE" || last["result"] != "ok" {
		t.Errorf("steps: %v", steps)
	}

	world.Call(t, two.URL, "POST", "/delete-pod", `{"pod_name":"`+pod.Name+`"}`, 200)
	becomes(t, one, "unknown", "workspace "+pod.Name+" was deleted")
	if last := operationsOf(t, two)[0]; last["operation"] != "delete" || last["stage"] != "ready" || last["done"] != true {
		t.Errorf("the delete: %v", last)
	}
}

// TestWhyACreateFailed looks for what the container wrote: in the answer, and afterwards, when the
// pod and even the process are gone.
func TestWhyACreateFailed(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	hash, found := shadowOf(w.ShareFiles(t)["shadow"], "kim")
	if !found {
		t.Fatal("kim has no password hash")
	}
	w.Cluster.OnLogs(t, kubelet.Log{Contains: "kim", Text: "\x1b[31mno home for kim\x1b[0m\nshadow says kim:" + hash + ":20000\nPASSWD_BASE64=cGFzc3dvcmQ=\n"})
	w.AdminBE.SetConfig("kim", map[string]any{"image": "decs:" + testkit.ImageFails})
	answer := world.Call(t, service.URL, "POST", "/create-pod", `{"username":"kim"}`, 500)
	const log = "; log of container shell:\nno home for kim\nshadow says kim:***:20000\nPASSWD_BASE64=***"
	detail := answer.Text("detail")
	if answer.Text("error") != "POD_READY_TIMEOUT" || !strings.Contains(detail, "ended with status 1") || !strings.HasSuffix(detail, log) {
		t.Errorf("the answer: %s", answer.Body)
	}
	nothingLeft(t, w)
	check := func(when string) {
		t.Helper()
		status := statusOf(t, service)
		if status.Text("stage") != "failed" || status.Text("code") != "POD_READY_TIMEOUT" || status.Text("detail") != detail {
			t.Errorf("%s: %s", when, status.Body)
		}
		if got := status.Text("message"); got != "create-pod failed at WAIT_POD_READY; everything was taken back" {
			t.Errorf("%s: message %q", when, got)
		}
	}
	check("afterwards")
	service.Term()
	service.Wait(t, testLimit)
	service.Start(t)
	check("after a restart")
	if text := service.Log(t); strings.Contains(text, hash) {
		t.Error("the hash stands in the service's log")
	}
}

// shadowOf is a user's password hash.
func shadowOf(file, user string) (string, bool) {
	for line := range strings.Lines(file) {
		if fields := strings.Split(line, ":"); fields[0] == user && len(fields) > 2 {
			return fields[1], true
		}
	}
	return "", false
}

// TestWhyAMigrationFailed: the new pod's container tells why, and the old workspace stands.
func TestWhyAMigrationFailed(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	old := workspaceOf(t, service.URL, "kim")
	loads := testkit.GoldenLoads()
	loads["farm5"], loads["farm6"] = loads["farm6"], loads["farm5"] // the least loaded node is another now
	w.Prom.SetLoads(t, loads)
	w.Cluster.OnLogs(t, kubelet.Log{Text: "no home for kim\n"})
	w.AdminBE.SetConfig("kim", map[string]any{"image": "decs:" + testkit.ImageFails})
	answer := world.Call(t, service.URL, "POST", "/migrate", `{"username":"kim","nodes":["farm5","farm6"]}`, 500)
	if answer.Text("error") != "new pod failed to start" || !strings.HasSuffix(answer.Text("detail"), "; log of container shell:\nno home for kim") {
		t.Errorf("the answer: %s", answer.Body)
	}
	status := statusOf(t, service)
	if status.Text("stage") != "failed" || status.Text("operation") != "migrate" || !strings.Contains(status.Text("detail"), "no home for kim") ||
		!strings.Contains(status.Text("message"), "workspace "+old+" on farm6 is still there") {
		t.Errorf("the status: %s", status.Body)
	}
	if last := operationsOf(t, service)[0]; last["old_pod_name"] != old || last["old_node"] != "farm6" || last["node"] != "farm5" {
		t.Errorf("the operation: %v", last)
	}
}

// TestProgressOfAProcessThatWasKilled: the next one closes what was told, whether there was anything
// to mend or not.
func TestProgressOfAProcessThatWasKilled(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)

	// Before it had made anything.
	w.AdminBE.Set("kim", testkit.AdminBEAnswer{Hang: true})
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = world.Send(t.Context(), service.URL, "POST", "/create-pod", `{"username":"kim"}`)
	}()
	hasRows(t, w, "stage = 'started' AND done = 0", 1)
	service.Kill()
	<-asked
	service.Start(t)
	becomes(t, service, "failed", "the service was stopped in the midst of it; nothing of it is left")

	// While its pod was waited for.
	done := pendingCreate(t, w, service, "kim")
	hasRows(t, w, "stage = 'waiting_ready' AND done = 0", 1)
	service.Kill()
	<-done
	service.Start(t)
	status := becomes(t, service, "failed", "the service was stopped in the midst of it; everything was taken back")
	if status.Text("pod_name") == "" || status.Text("detail") != status.Text("message") {
		t.Errorf("%s", status.Body)
	}
	nothingLeft(t, w)
	operations := operationsOf(t, service)
	text := fmt.Sprint(operations[0]["steps"])
	if len(operations) != 2 || !strings.Contains(text, "RECOVER:DELETE_POD") || !strings.Contains(text, "CREATE_POD") || operations[0]["done"] != true {
		t.Errorf("the operations: %v", operations)
	}
}

// TestStreamsDoNotHoldUpTheEnd: a service with watchers and without work ends at once.
func TestStreamsDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Env: map[string]string{"DRAIN_TIMEOUT": "50s"}})
	service := w.Service(t, nil)
	var streams []<-chan []string
	for range 5 {
		streams = append(streams, follow(t, service))
	}
	begin := time.Now()
	service.Term()
	if ending := service.Wait(t, testLimit); ending != "exit status 0" {
		t.Errorf("the service ended with %s", ending)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	for _, stream := range streams {
		if diff := cmp.Diff([]string{"unknown"}, <-stream); diff != "" {
			t.Errorf("stages (-want +got):\n%s", diff)
		}
	}
}

// TestProgressThatCannotBeWrittenChangesNothing: every statement on the table of progress fails or
// hangs, and all calls come out as ever, none of them slower.
func TestProgressThatCannotBeWrittenChangesNothing(t *testing.T) {
	t.Parallel()
	const table = "config_server_progress"
	w := world.New(t, world.Options{})
	proxy := faultproxy.NewMySQL(t, net.JoinHostPort(w.MariaDB.Host, strconv.Itoa(w.MariaDB.Port)))
	service := w.Service(t, map[string]string{"DB_HOST": proxy.Host, "DB_PORT": strconv.Itoa(proxy.Port)})
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	for i, c := range []struct {
		name  string
		fault faultproxy.SQLFault
	}{
		{"refused", faultproxy.SQLFault{Match: table, Errno: 1142}}, // the right to this table is missing
		{"cut", faultproxy.SQLFault{Match: table, Cut: true}},
		{"hangs", faultproxy.SQLFault{Match: table, Hang: true}},
	} {
		w.AdminBE.SetConfig("kim", nil)
		proxy.Fail(c.fault)
		begin := time.Now()
		pod := world.Call(t, service.URL, "POST", "/create-pod", `{"username":"kim"}`, 201).Text("pod_name")
		w.AdminBE.SetConfig("kim", map[string]any{"image": "decs:" + testkit.ImageFails})
		world.Call(t, service.URL, "POST", "/create-pod", `{"username":"kim"}`, 500)
		world.Call(t, service.URL, "POST", "/delete-pod", `{"pod_name":"`+pod+`"}`, 200)
		if took := time.Since(begin); took > 8*time.Second { // a statement that hangs is given up after 10 s
			t.Errorf("%s: the calls took %v", c.name, took)
		}
		nothingLeft(t, w)
		proxy.Fail()
		// What was told meanwhile was kept and is written now.
		hasRows(t, w, "done = 1", 3*(i+1))
	}
}

// TestProgressIsTidied: what ended long ago goes, what is open and what is young stays.
func TestProgressIsTidied(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	workspaceOf(t, service.URL, "kim")
	hasRows(t, w, "stage = 'ready'", 1)
	sqlExec(t, w, `INSERT INTO config_server_progress SELECT UUID(), kind, username, pod_name, node_name, old_pod_name, old_node_name, stage, message, code,
		detail, steps, request_id, instance, started_at - INTERVAL 25 HOUR, updated_at - INTERVAL 25 HOUR, done FROM config_server_progress`)
	service.Term()
	service.Wait(t, testLimit)
	service.Start(t)
	hasRows(t, w, "TRUE", 1)
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	if answer, err := world.Send(ctx, service.URL, "GET", "/pods/kim/status", ""); err != nil || answer.Text("stage") != "ready" {
		t.Errorf("%v %s", err, answer.Body)
	}
}

// hasRows waits until the table of progress has so many rows of a kind.
func hasRows(t *testing.T, w *world.World, where string, want int) {
	t.Helper()
	db := w.MariaDB.Open(t, w.Database)
	eventually(t, fmt.Sprintf("%d rows with %s", want, where), func() bool {
		n := 0
		err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM config_server_progress WHERE "+where).Scan(&n)
		return err == nil && n == want
	})
}
