package app_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

func TestAuditFindsWhatIsWrongChangesNothingAndItsCommandsMend(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	state := t.TempDir()
	env := map[string]string{"STATE_DIR": state}
	service := w.Service(t, env)
	kim := workspaceOf(t, service.URL, "kim")
	workspaceOf(t, service.URL, "lee")
	world.Call(t, service.URL, "PUT", "/accounts/groups", `{"name":"team","members":["kim","lee"]}`, 201)

	if code, out, errs := byHand(t, w, env, "audit"); code != 0 || !strings.HasPrefix(out, "0 findings in ") {
		t.Fatalf("a whole farm: exit %d\n%s%s", code, out, errs)
	}

	// One fault of each part.
	appendTo(t, w.Share+"/shadow", "gone:!:1:0:99999:7:::\nhalf a line\n")
	replaceIn(t, w.Share+"/group", ":kim,lee", ":gone,kim,lee")
	if err := os.Remove(w.NAS.ShareDir + "/lee"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.NAS.ShareDir+"/gone", 0o700); err != nil {
		t.Fatal(err)
	}
	sqlExec(t, w, "DELETE FROM nodeport_allocations WHERE pod_name = ? AND internal_port = 8888", kim)
	sqlExec(t, w, "INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port) VALUES ('lee', 'ailab-lee-0000000d', 'farm5', 22, 30500)")
	var kimSSH, kimJupyter, leeJupyter corev1.Service
	for _, s := range w.Services(t) {
		switch {
		case s.Labels["pod_name"] == kim && s.Labels["purpose"] == "ssh":
			kimSSH = s
		case s.Labels["pod_name"] == kim:
			kimJupyter = s
		case s.Labels["purpose"] == "jupyter":
			leeJupyter = s
		}
	}
	sqlExec(t, w, "UPDATE nodeport_allocations SET internal_port = 2222 WHERE node_port = ?", kimSSH.Spec.Ports[0].NodePort)
	if err := w.Cluster.Admin(t).CoreV1().Services(w.Cluster.Namespace).Delete(t.Context(), leeJupyter.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("left"), 201)
	left := world.Call(t, service.URL, "POST", "/create-pod", `{"username":"left"}`, 201).Text("pod_name")
	world.Call(t, service.URL, "DELETE", "/accounts/users/left", "", 200)

	before := farmState(t, w)
	code, out, errs := byHand(t, w, env, "audit", "-o", "json", "--url", service.URL)
	wantSame(t, before, farmState(t, w))
	found := reported(t, out)
	leePort := leeJupyter.Spec.Ports[0].NodePort
	want := []string{
		"damaged-line shadow:" + lineOf(t, w.Share+"/shadow", "half a line"),
		"shadow-of-nobody gone", "member-without-account team", "no-home lee", "home-of-nobody gone",
		"row-without-pod ailab-lee-0000000d", "service-without-row " + kimJupyter.Name,
		"row-without-service " + strconv.Itoa(int(leePort)), "port-mismatch " + kimSSH.Name, "pod-of-nobody " + left,
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(found)); code != 1 || !slices.Equal(got, want) {
		t.Fatalf("exit %d, found\n%s\nwant\n%s\n%s", code, strings.Join(got, "\n"), strings.Join(want, "\n"), errs)
	}
	code, table, _ := byHand(t, w, env, "audit")
	for _, f := range found {
		remedy := strings.ReplaceAll(f["remedy"].(string), service.URL, "http://127.0.0.1:8000")
		if code != 1 || !strings.Contains(table, remedy) {
			t.Errorf("exit %d, the table lacks %s", code, remedy)
		}
	}
	if strings.Contains(table, "$6$") || strings.Contains(out, "$6$") {
		t.Error("the report shows a password hash")
	}

	// Every command that needs no person, no ssh and no mysql client is run as it stands.
	for _, name := range []string{"shadow-of-nobody", "member-without-account", "row-without-pod", "service-without-row", "pod-of-nobody"} {
		for key, f := range found {
			if strings.HasPrefix(key, name+" ") {
				runRemedy(t, w, env, f["remedy"].(string))
			}
		}
	}
	_, out, _ = byHand(t, w, env, "audit", "-o", "json")
	after := slices.Sorted(maps.Keys(reported(t, out)))
	stay := []string{"damaged-line", "home-of-nobody", "no-home", "port-mismatch", "row-without-service"}
	for i, key := range after {
		if len(after) != len(stay) || !strings.HasPrefix(key, stay[i]+" ") {
			t.Fatalf("after the commands: %v, want one each of %v", after, stay)
		}
	}
}

func TestAuditTellsOfPartsThatItCannotRead(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{OwnMariaDB: true})
	env := map[string]string{"STATE_DIR": t.TempDir()}
	service := w.Service(t, env)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	service.Term()
	service.Wait(t, testLimit)
	if err := os.Remove(w.NAS.ShareDir + "/kim"); err != nil {
		t.Fatal(err)
	}
	w.MariaDB.Stop(t)
	code, out, errs := byHand(t, w, env, "audit", "-o", "json")
	found := slices.Sorted(maps.Keys(reported(t, out)))
	if want := []string{"no-home kim", "unreadable operations", "unreadable rows"}; code != 1 || !slices.Equal(found, want) {
		t.Errorf("without the database: exit %d, found %v, want %v\n%s", code, found, want, errs)
	}
	w.NAS.Stop()
	code, out, _ = byHand(t, w, env, "audit", "-o", "json")
	found = slices.Sorted(maps.Keys(reported(t, out)))
	if want := []string{"unreadable homes", "unreadable operations", "unreadable rows"}; code != 1 || !slices.Equal(found, want) {
		t.Errorf("without the NAS: exit %d, found %v, want %v", code, found, want)
	}
}

// A database in which the service never was is looked at as it is.
func TestAuditMakesNoTables(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	before := farmState(t, w)
	code, out, errs := byHand(t, w, map[string]string{"STATE_DIR": t.TempDir()}, "audit", "-o", "json")
	wantSame(t, before, farmState(t, w))
	found := slices.Sorted(maps.Keys(reported(t, out)))
	if want := []string{"unreadable operations", "unreadable rows"}; code != 1 || !slices.Equal(found, want) {
		t.Errorf("exit %d, found %v, want %v\n%s", code, found, want, errs)
	}
}

func TestAuditAndReconcileRefuseWrongCommandLines(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "service process", "golang", "go")
	w := &world.World{Env: map[string]string{"NAS_SSH_HOST": "nas"}}
	for _, args := range [][]string{
		{"audit", "-o", "xml"}, {"audit", "more"}, {"audit", "--dry-run"}, {"audit"},
		{"reconcile", "-o", ""}, {"reconcile", "now"}, {"reconcile", "--nonsense"}, {"reconcile"},
	} {
		if code, _, errs := byHand(t, w, map[string]string{"STATE_DIR": t.TempDir()}, args...); code != 2 || errs == "" {
			t.Errorf("%v: exit %d, %q", args, code, errs)
		}
	}
}

// runRemedy gives a report's command to a shell that finds config-server, and curl as a stand-in
// that sends the request by this process.
func runRemedy(t *testing.T, w *world.World, env map[string]string, remedy string) {
	t.Helper()
	binary, err := testkit.ServiceBinary(testkit.Build{})
	if err != nil {
		t.Fatal(err)
	}
	tools := t.TempDir()
	asked := filepath.Join(tools, "asked")
	if err := os.Symlink(binary, filepath.Join(tools, "config-server")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tools, "curl"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >"+asked+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "/bin/sh", "-c", remedy)
	command.Env = append(w.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "STATE_DIR="+env["STATE_DIR"])
	out, err := command.CombinedOutput()
	text, readErr := os.ReadFile(asked)
	if readErr == nil {
		words := strings.Split(strings.TrimSpace(string(text)), "\n")
		if len(words) != 6 || words[0] != "-sS" || words[1] != "-X" || words[4] != "-d" {
			t.Fatalf("curl was asked %q", words)
		}
		world.Call(t, words[3], words[2], "", words[5], 200)
		return
	}
	// reconcile tells by 1 that it found something.
	if err != nil && !(strings.HasPrefix(remedy, "config-server reconcile") && command.ProcessState.ExitCode() == 1) {
		t.Fatalf("%s: %v\n%s", remedy, err, out)
	}
}
