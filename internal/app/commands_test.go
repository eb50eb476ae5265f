package app_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// maxBinary is what the program may weigh as make build links it, in bytes: 53 MB, and some room. It
// is 93 MB when something looks methods up by name, because the linker then keeps them all.
const maxBinary = 64 << 20

func TestTheBinaryIsNotBigWithoutNeed(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "service process", "golang", "go")
	path, err := testkit.ServiceBinary(testkit.Build{NoRace: true, Release: true})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxBinary {
		t.Errorf("it weighs %d bytes, more than %d", info.Size(), maxBinary)
	}
}

func TestSubcommandsThatLookAtARunningService(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	service := w.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", `{"name":"kim","passwd_base64":"ZGVtbw==","gecos":"김민수, 석사과정"}`, 201)
	pod := world.Call(t, service.URL, "POST", "/create-pod", `{"username":"kim"}`, 201)
	world.Call(t, service.URL, "PUT", "/accounts/groups", `{"name":"team","gid":20300,"members":["kim"]}`, 201)
	env := map[string]string{"CONFIG_SERVER_URL": service.URL}
	for _, tc := range []struct {
		args []string
		path string
		line string // words that stand in the table like this, blanks between cells taken together
	}{
		{[]string{"users", "list"}, "/accounts/users", "kim 20000 20000 김민수, 석사과정 /home/kim /bin/bash"},
		{[]string{"groups", "list"}, "/accounts/groups", "team 20300 kim"},
		{[]string{"pods", "list"}, "/workspaces", "kim " + pod.Text("pod_name") + " " + pod.Text("node") + " ready "},
		{[]string{"pods", "status", "kim"}, "/pods/kim/status", "kim ready create " + pod.Text("pod_name")},
		{[]string{"operations", "list"}, "/operations?limit=100", " create kim " + pod.Text("pod_name") + " " + pod.Text("node") + " ready"},
		{[]string{"nodes", "list"}, "/nodes", pod.Text("node") + " true true "},
	} {
		code, out, errs := byHand(t, w, env, tc.args...)
		if code != 0 || !strings.Contains(squeezed(out), tc.line) {
			t.Errorf("%v: exit %d, no %q in\n%s%s", tc.args, code, tc.line, out, errs)
		}
		code, out, errs = byHand(t, w, env, append(tc.args, "-o", "json")...)
		var got, want any
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatalf("%v: exit %d: %v\n%s%s", tc.args, code, err, out, errs)
		}
		if err := json.Unmarshal(world.Call(t, service.URL, "GET", tc.path, "", 200).Body, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); code != 0 || diff != "" {
			t.Errorf("%v: exit %d, differs from the answer (-want +got):\n%s", tc.args, code, diff)
		}
	}

	// A watch waits for a workspace and follows it to its end.
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("lee"), 201)
	made := make(chan answered, 1)
	go func() {
		answer, err := world.Send(t.Context(), service.URL, "POST", "/create-pod", `{"username":"lee"}`)
		made <- answered{answer, err}
	}()
	code, out, errs := byHand(t, w, env, "pods", "status", "lee", "--watch")
	if got := <-made; got.err != nil || got.answer.Status != 201 || code != 0 || !strings.Contains(squeezed(out), "Z ready ") {
		t.Errorf("create-pod: %v %s; watch: exit %d\n%s%s", got.err, got.answer.Body, code, out, errs)
	}
}

// squeezed has one blank where a table has several.
func squeezed(table string) string {
	var b strings.Builder
	for line := range strings.Lines(table) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

// Without its parts every subcommand says what is missing, and tells no figures of what it did not see.
func TestSubcommandsWithoutTheirParts(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "service process", "golang", "go")
	folder := t.TempDir()
	w := &world.World{Env: map[string]string{
		"NAS_SSH_HOST": "127.0.0.1", "NAS_SSH_PORT": "1", "NAS_SSH_USER": "ops", "NAS_SSH_KEY_PATH": folder + "/key", "NFS_SERVER": "192.0.2.30",
		"PROM_URL": "http://127.0.0.1:1", "WAS_URL_TEMPLATE": "http://127.0.0.1:1/{username}", "KUBECONFIG": folder + "/kubeconfig",
		"BASE_ETC_DIR": folder + "/share", "IMAGE_STORE_DIR": folder + "/images",
	}}
	for _, tc := range []struct {
		args      []string
		says      []string // on either output
		saysNever []string
	}{
		{[]string{"check"}, []string{"FAILED share ", folder + "/share cannot be opened; mount the share"}, []string{"damaged"}},
		{[]string{"reconcile", "--dry-run"}, []string{"config-server reconcile: "}, []string{" failed", "findings"}},
		{[]string{"users", "list", "--server", "http://127.0.0.1:1"}, []string{"does the service run there?"}, nil},
	} {
		code, out, errs := byHand(t, w, map[string]string{"STATE_DIR": t.TempDir()}, tc.args...)
		out = squeezed(out)
		for _, text := range tc.says {
			if code != 1 || !strings.Contains(out+errs, text) {
				t.Errorf("%v: exit %d, no %q in\n%s%s", tc.args, code, text, out, errs)
			}
		}
		for _, text := range tc.saysNever {
			if strings.Contains(out, text) {
				t.Errorf("%v says %q:\n%s%s", tc.args, text, out, errs)
			}
		}
	}
}
