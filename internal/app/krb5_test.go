package app_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// onNode makes create-pod choose a node.
func onNode(w *world.World, user, node string) {
	w.AdminBE.SetConfig(user, map[string]any{"gpu_nodes": []any{map[string]any{"node_name": node}}, "additional_ports": nil})
}

func createOn(t *testing.T, w *world.World, s *testkit.ServiceProcess, user, node string) string {
	t.Helper()
	onNode(w, user, node)
	return world.Call(t, s.URL, "POST", "/create-pod", fmt.Sprintf(`{"username":%q}`, user), 201).Text("pod_name")
}

func deletePod(t *testing.T, s *testkit.ServiceProcess, pod string) world.Answer {
	t.Helper()
	return world.Call(t, s.URL, "POST", "/delete-pod", fmt.Sprintf(`{"pod_name":%q}`, pod), 200)
}

func TestKerberosAccompaniesAUserFromPUTToDELETE(t *testing.T) {
	t.Parallel()
	w, k, s := krb5World(t, nil, "farm5", "farm6")
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	if got := k.kdc.Principals(t); !slices.Equal(got, []string{"kim"}) {
		t.Errorf("principals %q", got)
	}
	stored := secretOf(t, w, "krb5-keytab-kim")
	if stored == nil {
		t.Fatal("there is no keytab Secret")
	}
	first := createOn(t, w, s, "kim", "farm6")
	if err := k.kdc.Login(t, "kim@"+k.kdc.Realm, k.keytab(t, "kim")); err != nil {
		t.Errorf("the deployed keytab: %v", err)
	}
	checkKerberosPod(t, w, k, first)
	second := createOn(t, w, s, "kim", "farm6")
	deletePod(t, s, first)
	if got, _ := k.deployed(); !slices.Equal(got, []string{"kim"}) {
		t.Errorf("keytabs %q while a second workspace is on the node", got)
	}
	deletePod(t, s, second)
	if got, _ := k.deployed(); len(got) > 0 {
		t.Errorf("keytabs %q after the last workspace", got)
	}
	for _, pod := range []string{first, second} {
		if secretOf(t, w, pod+"-account") != nil {
			t.Errorf("the account Secret of %s stays", pod)
		}
	}
	world.Call(t, s.URL, "DELETE", "/accounts/users/kim", "", 200)
	if got := k.kdc.Principals(t); len(got) > 0 {
		t.Errorf("principals %q", got)
	}
	if secretOf(t, w, "krb5-keytab-kim") != nil {
		t.Error("the keytab Secret stays")
	}
	checkSilence(t, s, k, stored.Data["krb5.keytab"], "")
}

// checkKerberosPod looks at the fields of a pod with Kerberos and an account Secret.
func checkKerberosPod(t *testing.T, w *world.World, k *krb5Parts, name string) {
	t.Helper()
	for _, pod := range w.Pods(t) {
		if pod.Name != name {
			continue
		}
		env := map[string]string{}
		for _, variable := range pod.Spec.Containers[0].Env {
			env[variable.Name] = variable.Value
		}
		if env["KRB5_REALM"] != k.kdc.Realm || env["DECS_KRB5_PRINCIPAL"] != "kim@"+k.kdc.Realm {
			t.Errorf("env %v", env)
		}
		mounts := map[string]string{}
		for _, mount := range pod.Spec.Containers[0].VolumeMounts {
			mounts[mount.Name] = mount.MountPath
		}
		if mounts["krb5-ccache"] != "/run/user/"+env["UID"] || mounts["account"] != "/run/ailab/account" {
			t.Errorf("mounts %v", mounts)
		}
		checkAccountSecret(t, w, name, string(pod.UID), env)
		return
	}
	t.Errorf("there is no pod %s", name)
}

func checkAccountSecret(t *testing.T, w *world.World, pod, uid string, env map[string]string) {
	t.Helper()
	secret := secretOf(t, w, pod+"-account")
	if secret == nil {
		t.Error("there is no account Secret")
		return
	}
	hash := string(secret.Data["shadow"])
	if !strings.Contains(w.ShareFiles(t)["shadow"], "\nkim:"+hash+":") || !strings.HasPrefix(hash, "$6$") {
		t.Error("the Secret does not hold the shadow hash")
	}
	if len(secret.OwnerReferences) != 1 || string(secret.OwnerReferences[0].UID) != uid {
		t.Errorf("owners %v, want the pod", secret.OwnerReferences)
	}
	for name, value := range env {
		if strings.Contains(value, hash) {
			t.Errorf("%s has the hash", name)
		}
	}
}

// checkSilence looks for secrets in what the service logged.
func checkSilence(t *testing.T, s *testkit.ServiceProcess, k *krb5Parts, keytab []byte, hash string) {
	t.Helper()
	log := s.Log(t)
	for what, secret := range map[string]string{
		"the administrator's password": k.kdc.AdminPassword, "a keytab": base64.StdEncoding.EncodeToString(keytab)[:24], "a hash": hash, "any hash": "$6$",
	} {
		if secret != "" && strings.Contains(log, secret) {
			t.Errorf("the log shows %s", what)
		}
	}
}

// A workspace whose pod somebody removed by hand leaves its keytab on the node. Its rows still say which
// node that is.
func TestDeletingAPodThatIsGoneTakesItsKeytab(t *testing.T) {
	t.Parallel()
	w, k, s := krb5World(t, map[string]string{"RECONCILE_INTERVAL": "0"}, "farm5", "farm6")
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	first, second := createOn(t, w, s, "kim", "farm6"), createOn(t, w, s, "kim", "farm6")
	for i, pod := range []string{first, second} {
		at := int64(0)
		if err := w.Cluster.Admin(t).CoreV1().Pods(w.Cluster.Namespace).Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: &at}); err != nil {
			t.Fatal(err)
		}
		if answer := deletePod(t, s, pod); !strings.Contains(string(answer.Body), `"already_absent":true`) {
			t.Errorf("%s", answer.Body)
		}
		// While the second workspace is there it needs the keytab.
		if got, err := k.deployed(); len(got) != 1-i || err != nil {
			t.Errorf("keytabs %q after %d of 2 workspaces, %v", got, i+1, err)
		}
	}
	if secretOf(t, w, "krb5-keytab-kim") == nil {
		t.Error("the keytab's Secret is gone with the workspace; it is the account's")
	}
}

func TestKDCDownRefusesAUserAndLeavesLedgerAndHomesAsTheyWere(t *testing.T) {
	t.Parallel()
	w, k, s := krb5World(t, nil, "farm5")
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	files, homes := w.ShareFiles(t), w.Homes(t)
	for name, fault := range map[string]func(){"stopped": k.kdc.Stop, "frozen": func() { k.kdc.Start(t); k.kdc.Freeze(t) }} {
		fault()
		began := time.Now()
		answer := world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("lee"), 500)
		if answer.Text("error") != "KDC_FAILED" || answer.Text("step") != "CREATE_KRB5_PRINCIPAL" {
			t.Errorf("%s: %s", name, answer.Body)
		}
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
		if !maps.Equal(files, w.ShareFiles(t)) || !slices.Equal(homes, w.Homes(t)) {
			t.Errorf("%s: something changed: homes %q", name, w.Homes(t))
		}
		k.kdc.Thaw(t)
	}
	k.kdc.Start(t)
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("lee"), 201)
}

func TestADeletionWhileTheKDCIsDownIsFinishedByTheReconciler(t *testing.T) {
	t.Parallel()
	w, k, s := krb5World(t, map[string]string{"RECONCILE_INTERVAL": "1s"}, "farm5")
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	k.kdc.Stop()
	world.Call(t, s.URL, "DELETE", "/accounts/users/kim", "", 200)
	if homes := w.Homes(t); len(homes) > 0 {
		t.Errorf("homes %q", homes)
	}
	k.kdc.Start(t)
	testkit.WaitFor(t, time.Minute, "the end of the principal", func(context.Context) error {
		if got := k.kdc.Principals(t); len(got) > 0 {
			return fmt.Errorf("principals %q", got)
		}
		return nil
	})
}

func TestAFarmNodeThatIsDownIsCleanedLater(t *testing.T) {
	t.Parallel()
	w, k, s := krb5World(t, map[string]string{"RECONCILE_INTERVAL": "1s"}, "farm5", "farm6")
	for _, user := range []string{"kim", "lee"} {
		world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody(user), 201)
	}
	pod := createOn(t, w, s, "kim", "farm6")
	createOn(t, w, s, "lee", "farm5")
	k.node.Stop()
	if answer := deletePod(t, s, pod); !strings.Contains(string(answer.Body), "keytab of kim stays on node farm6") {
		t.Errorf("no warning: %s", answer.Body)
	}
	world.Call(t, s.URL, "DELETE", "/accounts/users/lee", "", 200)
	left, err := pendingKeytabs(t.Context(), w.MariaDB.Open(t, w.Database))
	if err != nil || len(left) < 3 {
		t.Errorf("noted %v, %v: want kim on farm6 and lee on both", left, err)
	}
	// A workspace that cannot get its keytab is not made.
	onNode(w, "kim", "farm6")
	answer := world.Call(t, s.URL, "POST", "/create-pod", `{"username":"kim"}`, 500)
	if answer.Text("step") != "BUILD_POD_SPEC" || answer.Text("error") != "POD_SPEC_BUILD_FAILED" || len(w.Pods(t)) != 1 {
		t.Errorf("%s, %d pods", answer.Body, len(w.Pods(t)))
	}
	k.node.Start(t)
	db := w.MariaDB.Open(t, w.Database)
	testkit.WaitFor(t, time.Minute, "the removal of keytabs", func(ctx context.Context) error {
		left, err := pendingKeytabs(ctx, db)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("noted %v", left)
		}
		return err
	})
	// lee's workspace stands although the account is gone: its node is struck from the list, and the
	// keytab goes with the workspace.
	if got, _ := k.deployed(); slices.Contains(got, "kim") {
		t.Errorf("keytabs %q", got)
	}
}

func TestANodeThatIsNotListedGetsNoWorkspace(t *testing.T) {
	t.Parallel()
	w, _, s := krb5World(t, nil, "farm5")
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	onNode(w, "kim", "farm7")
	answer := world.Call(t, s.URL, "POST", "/create-pod", `{"username":"kim"}`, 500)
	if answer.Text("error") != "POD_SPEC_BUILD_FAILED" || !strings.Contains(answer.Text("detail"), "FARM_NODES_JSON") {
		t.Errorf("%s", answer.Body)
	}
	left, err := pendingKeytabs(t.Context(), w.MariaDB.Open(t, w.Database))
	if len(w.Pods(t)) > 0 || len(w.Rows(t)) > 0 || w.Operations(t) > 0 || len(left) > 0 || err != nil {
		t.Errorf("left: %d pods, rows %v, %d records, notes %v, %v", len(w.Pods(t)), w.Rows(t), w.Operations(t), left, err)
	}
}

func TestMigrateTakesTheKeytabAlong(t *testing.T) {
	t.Parallel()
	w, k, s := krb5World(t, nil, "farm5", "farm6")
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	old := createOn(t, w, s, "kim", "farm5")
	answer := world.Call(t, s.URL, "POST", "/migrate", `{"username":"kim","nodes":["farm5","farm6"]}`, 200)
	if answer.Text("status") != "migrated" {
		t.Fatalf("%s", answer.Body)
	}
	// Both nodes are the same sshd here: what counts is who was told what, and in which order.
	var told []string
	for _, command := range k.node.Commands(t) {
		told = append(told, strings.Fields(command)[0])
	}
	if !slices.Equal(told, []string{"deploy", "deploy", "remove"}) {
		t.Errorf("the nodes were told %q", told)
	}
	if secretOf(t, w, old+"-account") != nil || secretOf(t, w, answer.Text("new_pod")+"-account") == nil {
		t.Error("the account Secrets did not move along")
	}
}

func TestAnAccountOlderThanKerberosGetsItsKeytabWithItsWorkspace(t *testing.T) {
	t.Parallel()
	w, k, s := krb5World(t, map[string]string{"KRB5_REALM": ""}, "farm6")
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	if got := k.kdc.Principals(t); len(got) > 0 {
		t.Fatalf("principals %q without a realm", got)
	}
	on := w.Service(t, map[string]string{"KRB5_REALM": k.kdc.Realm})
	createOn(t, w, on, "kim", "farm6")
	if err := k.kdc.Login(t, "kim@"+k.kdc.Realm, k.keytab(t, "kim")); err != nil {
		t.Error(err)
	}
}

func TestAFailedCreateLeavesNeitherKeytabNorSecret(t *testing.T) {
	t.Parallel()
	w, k, s := krb5World(t, nil, "farm6")
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	w.AdminBE.SetConfig("kim", map[string]any{"gpu_nodes": []any{map[string]any{"node_name": "farm6"}}, "image": "dguailab/decs:" + testkit.ImageNeverPull})
	answer := world.Call(t, s.URL, "POST", "/create-pod", `{"username":"kim"}`, 500)
	if answer.Text("error") != "POD_READY_TIMEOUT" {
		t.Errorf("%s", answer.Body)
	}
	if got, _ := k.deployed(); len(got) > 0 {
		t.Errorf("keytabs %q", got)
	}
	secrets, err := krb5Secrets(t.Context(), w, t)
	if err != nil || !slices.Equal(secrets, []string{"krb5-keytab-kim"}) {
		t.Errorf("Secrets %q, %v", secrets, err)
	}
	var undone []string
	for _, one := range operationsOf(t, s)[0]["undo"].([]any) {
		undo := one.(map[string]any)
		undone = append(undone, fmt.Sprint(undo["what"], " ", undo["result"]))
	}
	if want := []string{"secret undone", "services none", "pod undone", "keytab undone", "ports undone", "record undone"}; !slices.Equal(undone, want) {
		t.Errorf("told of undo %q, want %q", undone, want)
	}
}

func TestWithoutTheRightToWriteSecretsNothingIsLeft(t *testing.T) {
	t.Parallel()
	k := newKrb5Parts(t)
	env := k.env(t, "farm6")
	env["KRB5_REALM"] = ""
	w := world.New(t, world.Options{Env: env})
	s := w.Service(t, nil)
	world.Call(t, s.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	refuseSecrets(t, w)
	onNode(w, "kim", "farm6")
	answer := world.Call(t, s.URL, "POST", "/create-pod", `{"username":"kim"}`, 500)
	if answer.Text("step") != "CREATE_POD" || answer.Text("error") != "POD_CREATE_FAILED" || answer.Text("k8s_status") != "403" {
		t.Errorf("%s", answer.Body)
	}
	if len(w.Pods(t)) > 0 || len(w.Rows(t)) > 0 {
		t.Errorf("left: %d pods, rows %v", len(w.Pods(t)), w.Rows(t))
	}
}

func TestCheckHasALineForTheKDCAndEachFarmNode(t *testing.T) {
	t.Parallel()
	w, k, _ := krb5World(t, nil, "farm5", "farm6")
	binary, err := testkit.ServiceBinary(testkit.Build{})
	if err != nil {
		t.Fatal(err)
	}
	check := func() (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary, "check")
		cmd.Env = append(w.Environ(), "PATH="+os.Getenv("PATH"), "STATE_DIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, _ := check()
	for _, part := range []string{"KDC", "farm node"} {
		if !strings.Contains(out, part) {
			t.Errorf("no line of %s:\n%s", part, out)
		}
	}
	if strings.Contains(out, "Can FARM_SSH_USER") || strings.Contains(out, "Are kadmind") {
		t.Errorf("a part that is well gets a remedy:\n%s", out)
	}
	k.kdc.Stop()
	k.node.Stop()
	out, err = check()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(out, "Are kadmind") || !strings.Contains(out, "may FARM_SSH_USER log in") {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Contains(out, k.kdc.AdminPassword) {
		t.Error("check shows the password")
	}
}
