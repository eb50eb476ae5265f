package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	"/workspaces": `{"workspaces":[
		{"username":"kim","pod_name":"ailab-kim-0a1b2c3d","node":"farm6","stage":"ready","phase":"Running","ready":true,"created_at":"2026-11-30T08:15:00Z",
		 "ports":[{"internal_port":22,"node_port":30000,"purpose":"ssh"},{"internal_port":7860,"node_port":30003,"purpose":"시연 화면"}],"gpus":2,"gpu_option":"nvidia.com/gpu"},
		{"username":"lee","pod_name":"ailab-lee-00000001","node":"","stage":"waiting_ready","phase":"Pending","ready":false,"created_at":"2026-11-30T10:14:30Z","ports":[],"gpus":0},
		{"username":"park","pod_name":"ailab-park-00000002","node":"farm5","stage":"started","phase":"Terminating","ready":false,"created_at":"2026-11-27T10:15:00Z","ports":[],"gpus":2,"gpu_indexes":[1,3]}]}`,
	"/nodes": `{"nodes":[{"name":"farm6","ready":true,"schedulable":true,"score":11.3765625,"workspaces":3},{"name":"farm8","ready":false,"schedulable":false,"score":null,"workspaces":0}],
		"nodeports":{"all":{"used":6,"free":2762},"reachable":{"used":6,"free":92}},
		"gpus":[{"resource":"amd.com/gpu","model":"","used":0,"free":2},{"resource":"nvidia.com/gpu","model":"NVIDIA-L40S","used":5,"free":3}],"warnings":["the load of farm8 is not known"]}`,
	"/gpu-options": `{"options":[{"id":"gpu-radeon","driver":"amdgpu","resource":"","model":"","source":"template","free":null,"total":null},
		{"id":"nvidia.com/gpu/NVIDIA-L40S","driver":"nvidia","resource":"nvidia.com/gpu","model":"NVIDIA-L40S","source":"nodes","free":3,"total":8}],
		"warnings":["free counts less"]}`,
	"/projects": `{"projects":[{"name":"vision","members":[{"name":"alice","role":"manager"},{"name":"bob","role":"member"},{"name":"oidc:carol","role":"member"}],
		"nodes":["farm5","farm6"],"quota":{"requests.nvidia.com/gpu":"4","cpu":"64"}},{"name":"audio","members":[],"nodes":null,"quota":{}}],"warnings":["the nodes of projects are not known"]}`,
	"/projects/vision/check": `{"project":"vision","ok":true,"lines":[{"name":"name","result":"ok","text":"vision is a name that can be used","todo":""}]}`,
	"/projects/vision/queue": `{"project":"vision","priority":3,"policy":"FirstAllocating","nodes":["farm5","farm6"],"observed":false,
		"waiting":[{"position":1,"name":"train-0","namespace":"vision","uid":"1","since":"2026-11-30T08:15:00.000Z"},{"position":2,"name":"train-1","namespace":"vision","uid":"2","since":null}],
		"blocked":[{"type":"HeadBlocked","meaning":"the head waits","reason":"Unschedulable","message":"0/2\nnodes","since":null}]}`,
	"/projects/empty/queue":            `{"project":"empty","priority":1,"policy":"","nodes":[],"observed":true,"waiting":[],"blocked":[]}`,
	"/images":                          imagesAnswer,
	"/operations?limit=100":            `{"operations":[` + failedCreate + `]}`,
	"/operations?limit=5&username=lee": `{"operations":[]}`,
	"/pods/kim/status":                 failedStatus,
	"/pods/nobody/status": `{"username":"nobody","stage":"unknown","message":"there is no workspace","updated_at":null,"started_at":null,
		"pod_name":"","node":"","operation":"","operation_id":"","request_id":"","code":"","detail":""}`,
	"/accounts/groups": `{"groups":[{"name":"sudo","gid":27,"members":[]},{"name":"연구실","gid":20005,"members":["kim","user2100"]},{"name":"dev","gid":20300,"members":["kim"]}]}`,
}

const failedCreate = `{"id":"0b0f6d1e","operation":"create","username":"kim","pod_name":"ailab-kim-0a1b2c3d","node":"farm6","old_pod_name":"","old_node":"",
	"stage":"failed","message":"create-pod failed at WAIT_POD_READY","code":"POD_READY_TIMEOUT","detail":"ended with status 3","request_id":"4f6c2a1b",
	"started_at":"2026-11-30T02:11:07.900Z","updated_at":null,"done":true,"steps":[{"step":"WAIT_POD_READY","result":"error","seconds":3.1}],"undo":[{"step":"CREATE_POD","what":"pod","result":"undone"}]}`

const failedStatus = `{"username":"kim","stage":"failed","message":"create-pod failed at WAIT_POD_READY","updated_at":"2026-11-30T02:11:12.001Z",
	"started_at":"2026-11-30T02:11:07.904Z","pod_name":"ailab-kim-0a1b2c3d","node":"farm6","operation":"create","operation_id":"0b0f6d1e","request_id":"4f6c2a1b",
	"code":"POD_READY_TIMEOUT","detail":"container shell ended: 오류\nno\u0007user"}`

const podsTable = `USER  POD                  NODE   STAGE          AGE   GPUS  DEVICES  PORTS
kim   ailab-kim-0a1b2c3d   farm6  ready          120m     2  -        ssh:30000,시연 화면:30003
lee   ailab-lee-00000001   -      waiting_ready  30s      0  -        -
park  ailab-park-00000002  farm5  terminating    3d       2  1,3      -
`

const nodesTable = `NAME   READY  SCHEDULABLE  SCORE  WORKSPACES
farm6  true   true         11.38           3
farm8  false  false            -           0

NodePorts: 6 used, 2762 free; of those that callers outside the farm reach 6 used, 92 free
GPUs amd.com/gpu: 0 used, 2 free
GPUs nvidia.com/gpu NVIDIA-L40S: 5 used, 3 free
warning: the load of farm8 is not known
`

const gpuOptionsTable = `ID                          DRIVER  RESOURCE        MODEL        SOURCE    FREE  TOTAL
gpu-radeon                  amdgpu  -               -            template     -      -
nvidia.com/gpu/NVIDIA-L40S  nvidia  nvidia.com/gpu  NVIDIA-L40S  nodes        3      8
warning: free counts less
`

const projectsTable = `NAME    MANAGERS  MEMBERS         NODES  QUOTA
vision  alice     bob,oidc:carol      2  cpu=64,requests.nvidia.com/gpu=4
audio   -         -                   -  -
warning: the nodes of projects are not known
`

const checkTable = `CHECK  RESULT  WHAT IS SO                         WHAT TO DO
name   ok      vision is a name that can be used  -
`

const queueTable = `POSITION  POD      NAMESPACE  SINCE
       1  train-0  vision     2026-11-30T08:15:00Z
       2  train-1  vision     -

priority 3, policy FirstAllocating, nodes farm5,farm6
HeadBlocked: the head waits (Unschedulable: "0/2\nnodes")
what runs the queue has not seen its present form yet
`

const operationsTable = `STARTED               OPERATION  USER  POD                 NODE   STAGE   CODE               MESSAGE
2026-11-30T02:11:07Z  create     kim   ailab-kim-0a1b2c3d  farm6  failed  POD_READY_TIMEOUT  create-pod failed at WAIT_POD_READY
`

const statusTable = `USER  STAGE   OPERATION  POD                 NODE   UPDATED               MESSAGE
kim   failed  create     ailab-kim-0a1b2c3d  farm6  2026-11-30T02:11:12Z  create-pod failed at WAIT_POD_READY

code: POD_READY_TIMEOUT (docs/CODES.md tells what to do)
detail: container shell ended: 오류
    "no\auser"
request id: 4f6c2a1b
`

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

// noon is when the tests look.
func noon() time.Time { return time.Date(2026, 11, 30, 10, 15, 0, 0, time.UTC) }

// looks are the subcommands that ask once: what they ask for, and the table that they print.
var looks = []struct {
	args        []string
	path, table string
}{
	{[]string{"users", "list"}, "/accounts/users", usersTable},
	{[]string{"groups", "list"}, "/accounts/groups", groupsTable},
	{[]string{"pods", "list"}, "/workspaces", podsTable},
	{[]string{"pods", "status", "kim"}, "/pods/kim/status", statusTable},
	{[]string{"pods", "status", "nobody"}, "/pods/nobody/status",
		"USER    STAGE    OPERATION  POD  NODE  UPDATED  MESSAGE\nnobody  unknown  -          -    -     -        there is no workspace\n"},
	{[]string{"operations", "list"}, "/operations?limit=100", operationsTable},
	{[]string{"operations", "list", "--user", "lee", "--limit", "5"}, "/operations?limit=5&username=lee",
		"STARTED  OPERATION  USER  POD  NODE  STAGE  CODE  MESSAGE\n"},
	{[]string{"nodes", "list"}, "/nodes", nodesTable},
	{[]string{"gpu-options", "list"}, "/gpu-options", gpuOptionsTable},
	{[]string{"projects", "list"}, "/projects", projectsTable},
	{[]string{"projects", "check", "vision"}, "/projects/vision/check", checkTable},
	{[]string{"projects", "queue", "vision"}, "/projects/vision/queue", queueTable},
	{[]string{"projects", "queue", "empty"}, "/projects/empty/queue", "POSITION  POD  NAMESPACE  SINCE\n\npriority 1, policy -, nodes -\n"},
	{[]string{"images", "list"}, "/images", imagesTable},
}

func TestTablesAreAlignedAlsoWithKoreanText(t *testing.T) {
	t.Parallel()
	url := farmOf(t, "", answered)
	for _, look := range looks {
		var out, said bytes.Buffer
		code := run(t.Context(), invocation{args: look.args, environ: []string{"CONFIG_SERVER_URL=" + url}, out: &out, errors: &said, now: noon})
		if diff := cmp.Diff(look.table, out.String()); code != exitOK || said.Len() > 0 || diff != "" {
			t.Errorf("%v: exit %d %s (-want +got):\n%s", look.args, code, said.String(), diff)
		}
	}
}

func TestJSONIsTheServicesAnswer(t *testing.T) {
	t.Parallel()
	url := farmOf(t, "", answered)
	for _, look := range looks {
		code, out, errors := typed(t.Context(), nil, append(look.args, "--server", url, "-o", "json")...)
		if diff := cmp.Diff(decoded(t, answered[look.path]), decoded(t, out)); code != exitOK || errors != "" || diff != "" {
			t.Errorf("%v: exit %d %s (-want +got):\n%s", look.args, code, errors, diff)
		}
	}
}

func TestWatchTellsEachChangeUntilTheOutcome(t *testing.T) {
	t.Parallel()
	event := func(stage, more string) string {
		return `event: status` + "\n" + `data: {"username":"kim","stage":"` + stage + `","message":"` + stage + ` 중","updated_at":"2026-11-30T02:11:12.001Z"` + more + `}` + "\n\n"
	}
	const head = "UPDATED               STAGE                 MESSAGE\n"
	line := func(stage string) string {
		return fmt.Sprintf("2026-11-30T02:11:12Z  %-20s  %s 중\n", stage, stage)
	}
	for name, tc := range map[string]struct {
		stream string
		code   int
		out    string
		says   string
	}{
		"ready": {": hello\n\n" + event("waiting_ready", "") + ": still here\n\n" + event("ready", "") + event("failed", ""),
			exitOK, head + line("waiting_ready") + line("ready"), ""},
		"failed": {event("creating_pod", "") + event("failed", `,"code":"POD_CREATE_FAILED","detail":"quota","request_id":"R"`),
			exitFailed, head + line("creating_pod") + line("failed") + "\ncode: POD_CREATE_FAILED (docs/CODES.md tells what to do)\ndetail: quota\nrequest id: R\n", ""},
		"gone after it was there": {event("unknown", "") + event("started", "") + event("unknown", ""),
			exitOK, head + line("unknown") + line("started") + line("unknown"), ""},
		"cut off":        {event("creating_pod", ""), exitFailed, head + line("creating_pod"), "ended before there was an outcome"},
		"no JSON":        {"data: {\n\n", exitFailed, "", "read an event"},
		"nothing at all": {"", exitFailed, "", "ended before there was an outcome"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept") != "text/event-stream" || r.URL.Path != "/pods/kim/status" {
					t.Errorf("asked %s %v", r.URL, r.Header)
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write([]byte(tc.stream))
			}))
			defer server.Close()
			code, out, errors := typed(t.Context(), nil, "pods", "status", "kim", "--watch", "--server", server.URL)
			if diff := cmp.Diff(tc.out, out); code != tc.code || diff != "" || !strings.Contains(errors, tc.says) {
				t.Errorf("exit %d %s (-want +got):\n%s", code, errors, diff)
			}
			code, out, _ = typed(t.Context(), nil, "pods", "status", "kim", "-w", "-o", "json", "--server", server.URL)
			lines := strings.Count(tc.out, " 중\n")
			if code != tc.code || strings.Count(out, "\n") != lines {
				t.Errorf("in JSON: exit %d, not %d lines:\n%s", code, lines, out)
			}
			for text := range strings.Lines(out) {
				decoded(t, text)
			}
		})
	}
}

func TestNamesAreCompleted(t *testing.T) {
	t.Parallel()
	url := farmOf(t, "", answered)
	const users, teams, images = "kim\nuser2100\nodd\n:4\n", "vision\naudio\n:4\n", "dguailab/decs:1.0\nuser-kim:latest\n:4\n"
	for args, want := range map[string]string{
		"pods status ": users, "operations list --user ": users, "pods status kim ": ":4\n",
		"projects check ": teams, "projects queue ": teams, "images pin ": images, "images unpin ": images, "check-image ": images,
	} {
		code, out, _ := typed(t.Context(), []string{"CONFIG_SERVER_URL=" + url}, append([]string{"__complete"}, strings.Split(args, " ")...)...)
		if code != exitOK || !strings.HasPrefix(out, want) {
			t.Errorf("%q: exit %d\n%s", args, code, out)
		}
	}
	if code, out, _ := typed(t.Context(), []string{"CONFIG_SERVER_URL=http://127.0.0.1:1"}, "__complete", "pods", "status", ""); code != exitOK || !strings.HasPrefix(out, ":1") {
		t.Errorf("without a service: exit %d\n%s", code, out)
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
		"an address with a query":       {nil, []string{"--server", url + "/?"}, exitUsage, "no question mark"},
		"an address with a fragment":    {nil, []string{"--server", url + "/#"}, exitUsage, "no number sign"},
		"a port that is none":           {nil, []string{"--server", "http://127.0.0.1:65536"}, exitUsage, "65536 is no port"},
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
