package helm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"config-server/api"
	kube "config-server/internal/cluster"
	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/replay"
	"config-server/internal/testkit/world"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// What the original's Role had, other programs may have come to need; beside it stands what a feature needs.
func TestRights(t *testing.T) {
	t.Parallel()
	const all = "create delete get list patch update watch"
	original := map[string]string{
		"pods": all, "pods/exec": all, "pods/log": all, "services": all,
		"persistentvolumeclaims": "create delete get list patch update",
		"secrets":                "create delete get list",
		"events":                 "list", "podtemplates": "get list", "resourcequotas": "list",
	}
	least := map[string]string{
		"pods": "create delete get list watch", "pods/exec": "create get", "services": "create delete get list",
		"secrets": "delete",
		"events":  "list", "pods/log": "get", "podtemplates": "get list", "resourcequotas": "list",
	}
	const classes = "deviceclasses.resource.k8s.io"
	with := func(rights map[string]string, resource, verbs string) map[string]string {
		changed := maps.Clone(rights)
		changed[resource] = verbs
		return changed
	}
	without := func(rights map[string]string, resource string) map[string]string {
		changed := maps.Clone(rights)
		delete(changed, resource)
		return changed
	}
	for _, tc := range []struct {
		name, values string
		args         []string
		role         map[string]string
		cluster      map[string]string
	}{
		{
			name: "as the original", values: "farm",
			role: original, cluster: map[string]string{"nodes": "get list watch", "services": "list watch", "pods": "list", classes: "list"},
		},
		{
			name: "as the original, with Kerberos", values: "original",
			role: with(original, "secrets", "create delete get list update"), cluster: map[string]string{"nodes": "get list watch", "services": "list watch", "pods": "list", classes: "list"},
		},
		{
			name: "the least", values: "least",
			role: least, cluster: map[string]string{"nodes": "list watch", "services": "list watch", "pods": "list", classes: "list"},
		},
		{
			name: "the least with Kerberos and account Secrets", values: "everything",
			role: with(least, "secrets", "create delete get update"), cluster: map[string]string{"nodes": "list watch", "services": "list watch", "pods": "list", classes: "list"},
		},
		{
			name: "the least with account Secrets", values: "least", args: []string{"--set", "env.ACCOUNT_SECRET=true"},
			role: with(least, "secrets", "create delete get update"), cluster: map[string]string{"nodes": "list watch", "services": "list watch", "pods": "list", classes: "list"},
		},
		{
			name: "the least with homes on a volume of its own", values: "self",
			role: with(least, "persistentvolumeclaims", "get"), cluster: map[string]string{"nodes": "list watch", "services": "list watch", "pods": "list", classes: "list"},
		},
		{
			name: "as the original, with homes on a volume of its own", values: "self", args: []string{"--set", "rbac.originalRights=true"},
			role: original, cluster: map[string]string{"nodes": "get list watch", "services": "list watch", "pods": "list", classes: "list"},
		},
		{
			name: "the least with pull secrets", values: "least", args: []string{"--set", "env.POD_TEMPLATE=session"},
			role: with(least, "secrets", "delete get"), cluster: map[string]string{"nodes": "list watch", "services": "list watch", "pods": "list", classes: "list"},
		},
		{
			name: "as the original, with pull secrets", values: "farm", args: []string{"--set", "env.POD_TEMPLATE=session"},
			role: original, cluster: map[string]string{"nodes": "get list watch", "services": "list watch", "pods": "list", classes: "list"},
		},
		{
			name: "without Services and pods of other namespaces", values: "sqlite",
			role: least, cluster: map[string]string{"nodes": "list watch", classes: "list"},
		},
		{
			name: "without GPU options", values: "least", args: []string{"--set-string", "env.GPU_DISCOVERY=off"},
			role: without(with(least, "podtemplates", "get"), "resourcequotas"), cluster: map[string]string{"nodes": "list watch", "services": "list watch"},
		},
		{
			name: "with projects", values: "least", args: []string{"--set-string", "env.PROJECTS=on"},
			role: least, cluster: map[string]string{"nodes": "list watch", "services": "list watch", "pods": "list", classes: "list",
				"projects.ailab.io": "list", "nodegroups.ailab.io": "list", "namespaces": "get", "cueues.coaster.ten1010.io": "get"},
		},
		{
			name: "with projects of the ledger", values: "least", args: []string{"--set-string", "env.PROJECTS=on", "--set-string", "env.PROJECT_SOURCE=ledger"},
			role: least, cluster: map[string]string{"nodes": "list watch", "services": "list watch", "pods": "list", classes: "list",
				"nodegroups.ailab.io": "list", "namespaces": "get", "cueues.coaster.ten1010.io": "get"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			list := objects(t, render(t, tc.values, tc.args...))
			if diff := cmp.Diff(tc.role, rights(t, the[*rbacv1.Role](t, list).Rules)); diff != "" {
				t.Errorf("rights in the namespace (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.cluster, rights(t, the[*rbacv1.ClusterRole](t, list).Rules)); diff != "" {
				t.Errorf("rights in the cluster (-want +got):\n%s", diff)
			}
		})
	}
}

// rights maps each resource, with its API group if that is not the core's, to its verbs, sorted. A right that two rules give fails the test.
func rights(t *testing.T, rules []rbacv1.PolicyRule) map[string]string {
	t.Helper()
	verbs := map[string][]string{}
	for _, rule := range rules {
		if len(rule.APIGroups) != 1 {
			t.Errorf("a rule on API groups %q, not on one", rule.APIGroups)
		}
		if len(rule.ResourceNames)+len(rule.NonResourceURLs) > 0 {
			t.Errorf("a rule on names %q or URLs %q, which nothing here uses", rule.ResourceNames, rule.NonResourceURLs)
		}
		for _, resource := range rule.Resources {
			resource = strings.TrimSuffix(resource+"."+rule.APIGroups[0], ".")
			verbs[resource] = append(verbs[resource], rule.Verbs...)
		}
	}
	got := map[string]string{}
	for resource, list := range verbs {
		slices.Sort(list)
		if len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("%s: a verb is given twice: %q", resource, list)
		}
		got[resource] = strings.Join(list, " ")
	}
	return got
}

// unasked are rights that no request of the day shows, each with its reason. Every other right has to be asked for.
var unasked = map[string]string{
	"namespace create pods/exec": "for a command, beside get, since Kubernetes 1.35",
	"namespace get services":     "when a Service that is to go was made anew under the same name meanwhile",
	"namespace delete secrets":   "the account Secret of a workspace that was made while ACCOUNT_SECRET was on",
}

// The service's whole day, recorded by the API server: each right that the chart grants is asked for, and nothing that
// is asked for is denied.
func TestEveryRightIsNeededAndNoneIsMissing(t *testing.T) {
	t.Parallel()
	t.Run("least", func(t *testing.T) {
		t.Parallel()
		audited := testkit.Audited(t)
		withGPU(t, audited)
		w := world.New(t, world.Options{Cluster: audited.KubeCluster, Env: map[string]string{"LEDGER_LOCK": "mysql"}})
		service := w.Service(t, nil)
		replayRecording(t, service.URL)
		walk(t, w, service, "amy")
		compareRights(t, "least", audited, nil)
	})
	t.Run("everything", func(t *testing.T) {
		t.Parallel()
		audited := testkit.Audited(t)
		audited.Grant(t, "everything")
		withGPU(t, audited)
		kdc := testkit.KDC(t)
		w := world.New(t, world.Options{Cluster: audited.KubeCluster, Env: kerberosEnv(t, kdc)})
		service := w.Service(t, nil)
		// A Secret of that name from an earlier life of the account is replaced.
		leftSecret(t, w, "krb5-keytab-amy")
		walk(t, w, service, "amy")
		compareRights(t, "everything", audited, []string{"namespace delete secrets"})
	})
	t.Run("without Services of other namespaces", func(t *testing.T) {
		t.Parallel()
		audited := testkit.Audited(t)
		admin := audited.Admin(t).RbacV1().ClusterRoles()
		role := must(admin.Get(t.Context(), release+"-node-reader-"+audited.Namespace, metav1.GetOptions{}))(t)
		role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "services") })
		must(admin.Update(t.Context(), role, metav1.UpdateOptions{}))(t)
		w := world.New(t, world.Options{Cluster: audited.KubeCluster, Env: map[string]string{"LEDGER_LOCK": "mysql"}})
		walk(t, w, w.Service(t, nil), "amy")
		for _, request := range audited.Requests(t) {
			if request.Code == http.StatusForbidden && !strings.HasSuffix(rightOf(request), " services") {
				t.Errorf("denied: %s %s: %s", request.Verb, request.Path, request.Reason)
			}
		}
	})
}

// withGPU gives the farm a GPU: where there is none, nobody has to look who uses it.
func withGPU(t *testing.T, audited *testkit.AuditedCluster) {
	t.Helper()
	audited.AddNode(t, testkit.Node{Name: "gpu", Cordoned: true, Resources: map[string]string{"nvidia.com/gpu": "1"}})
}

// replayRecording plays the recorded main journey.
func replayRecording(t *testing.T, url string) {
	t.Helper()
	exchanges := must(replay.Load("../../testdata/golden/transcript.json"))(t)
	report := must(replay.Run(t.Context(), http.DefaultClient, url, exchanges, func(replay.Answer) error { return nil }))(t)
	if len(report.Failures) > 0 || report.Passed != len(exchanges) {
		t.Fatalf("the recording: %s", report)
	}
}

// walk goes through what the recording leaves out: a workspace that does not start, one that moves, the subcommands that
// look and mend, and the end of an account.
func walk(t *testing.T, w *world.World, service *testkit.ServiceProcess, user string) {
	t.Helper()
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody(user), 201)
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
	template.Template.Spec.Containers = []corev1.Container{{Name: "shell", Image: "image"}}
	must(w.Cluster.Admin(t).CoreV1().PodTemplates(w.Cluster.Namespace).Create(t.Context(), template, metav1.CreateOptions{}))(t)
	on := func(node, image string) {
		w.AdminBE.SetConfig(user, map[string]any{"gpu_nodes": []any{map[string]any{"node_name": node}}, "image": image, "pod_template": template.Name})
	}
	create, nodes := fmt.Sprintf(`{"username":%q}`, user), fmt.Sprintf(`{"username":%q,"nodes":["farm5","farm6"]}`, user)
	on("farm5", "dguailab/decs:"+testkit.ImageConfigError)
	world.Call(t, service.URL, "POST", "/create-pod", create, 500)
	on("farm5", "dguailab/decs:"+testkit.ImageFails)
	world.Call(t, service.URL, "POST", "/create-pod", create, 500)
	on("farm5", "dguailab/decs:1.0")
	world.Call(t, service.URL, "POST", "/create-pod", create, 201)
	moved := world.Call(t, service.URL, "POST", "/migrate", nodes, 200)
	if moved.Text("status") != "migrated" {
		t.Fatalf("migrate: %s", moved.Body)
	}
	for _, args := range [][]string{{"check"}, {"audit"}, {"reconcile"}} {
		byHand(t, w, args...)
	}
	readEverything(t, service, user)
	world.Call(t, service.URL, "POST", "/delete-pod", fmt.Sprintf(`{"pod_name":%q}`, moved.Text("new_pod")), 200)
	world.Call(t, service.URL, "DELETE", "/accounts/users/"+user, "", 200)
}

// readEverything asks for all that the service's description lets callers read. Projects are switched off here.
func readEverything(t *testing.T, service *testkit.ServiceProcess, user string) {
	t.Helper()
	var description struct{ Paths map[string]map[string]any }
	if err := yaml.Unmarshal(api.YAML(), &description); err != nil {
		t.Fatal(err)
	}
	parameter := regexp.MustCompile(`\{\w+\}`)
	read := 0
	for path, methods := range description.Paths {
		if methods["get"] == nil {
			continue
		}
		read++
		answer := must(world.Send(t.Context(), service.URL, "GET", parameter.ReplaceAllString(path, user), ""))(t)
		want := http.StatusOK
		if strings.HasPrefix(path, "/projects") {
			want = http.StatusNotFound
		}
		if answer.Status != want {
			t.Errorf("GET %s: %d %s", path, answer.Status, answer.Body)
		}
	}
	if read < 4 {
		t.Errorf("the description has %d paths to read", read)
	}
}

// byHand runs a subcommand beside the service. It has to find nothing and to reach every part.
func byHand(t *testing.T, w *world.World, args ...string) {
	t.Helper()
	binary := must(testkit.ServiceBinary(testkit.Build{}))(t)
	command := exec.CommandContext(t.Context(), binary, args...)
	command.Env = append(w.Environ(), "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir(), "STATE_DIR="+t.TempDir())
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("config-server %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// compareRights holds what the values grant against what was asked for. The reasons in unasked do not count for the rights
// in seen.
func compareRights(t *testing.T, values string, audited *testkit.AuditedCluster, seen []string) {
	t.Helper()
	asked := map[string]bool{}
	for _, request := range audited.Requests(t) {
		if request.Code == http.StatusForbidden || request.Code == http.StatusUnauthorized {
			t.Errorf("denied: %s %s: %s", request.Verb, request.Path, request.Reason)
		}
		asked[rightOf(request)] = true
	}
	list := objects(t, render(t, values))
	for scope, rules := range map[string][]rbacv1.PolicyRule{
		"namespace": the[*rbacv1.Role](t, list).Rules, "cluster": the[*rbacv1.ClusterRole](t, list).Rules,
	} {
		for resource, verbs := range rights(t, rules) {
			for verb := range strings.FieldsSeq(verbs) {
				right := scope + " " + verb + " " + resource
				_, excused := unasked[right]
				if !asked[right] && (!excused || slices.Contains(seen, right)) {
					t.Errorf("nobody asks for %s", right)
				}
			}
		}
	}
	t.Logf("%s: asked for %s", values, strings.Join(slices.Sorted(maps.Keys(asked)), ", "))
}

// rightOf is the right that a request takes, as compareRights names rights.
func rightOf(request testkit.APIRequest) string {
	scope := "cluster"
	if request.Namespace != "" {
		scope = "namespace"
	}
	resource := strings.TrimSuffix(request.Resource+"."+request.Group, ".")
	return strings.TrimSpace(scope + " " + request.Verb + " " + resource)
}

// kerberosEnv switches on what takes further rights: Kerberos, with one sshd that plays the farm nodes, and account
// Secrets.
func kerberosEnv(t *testing.T, kdc *testkit.KDCServer) map[string]string {
	t.Helper()
	node := testkit.SSHD(t, testkit.SSHDOptions{User: "farm", Script: "cat >/dev/null"})
	var nodes []map[string]any
	for _, name := range []string{"farm5", "farm6"} {
		nodes = append(nodes, map[string]any{"name": name, "host": node.Host, "port": node.Port})
	}
	list := must(json.Marshal(nodes))(t)
	return map[string]string{
		"KRB5_REALM": kdc.Realm, "KRB5_KDC_HOST": "127.0.0.1:" + strconv.Itoa(kdc.KDCPort), "KRB5_CONFIG": kdc.ConfigFile,
		"KRB5_ADMIN_PRINCIPAL": kdc.AdminPrincipal, "KRB5_ADMIN_PASSWORD": kdc.AdminPassword,
		"FARM_SSH_USER": node.User, "FARM_SSH_KEY_PATH": node.KeyPath, "FARM_SSH_KNOWN_HOSTS": node.KnownHosts, "FARM_NODES_JSON": string(list),
		"ACCOUNT_SECRET": "true", "LEDGER_LOCK": "mysql",
	}
}

// leftSecret makes a Secret by hand.
func leftSecret(t *testing.T, w *world.World, name string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
	must(w.Cluster.Admin(t).CoreV1().Secrets(w.Cluster.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}))(t)
}

// The rights of unasked are needed all the same: what takes them works with them, and is denied without.
func TestRightsThatNoRequestOfTheDayShows(t *testing.T) {
	t.Parallel()
	for right, use := range map[string]func(ctx context.Context, t *testing.T, k *testkit.KubeCluster) error{
		"namespace create pods/exec": runCommand,
		"namespace get services":     deleteServiceOfAnotherLife,
		"namespace delete secrets":   deleteAccountSecret,
	} {
		if _, ok := unasked[right]; !ok {
			t.Errorf("%s is not among those that need a reason", right)
		}
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			k := testkit.Cluster(t)
			testkit.WaitFor(t, time.Minute, "the use of the right", func(ctx context.Context) error { return use(ctx, t, k) })
			words := strings.Fields(right)
			takeRight(t, k, words[1], words[2])
			denial := fmt.Sprintf("cannot %s resource %q", words[1], words[2])
			testkit.WaitFor(t, time.Minute, "the denial", func(ctx context.Context) error {
				if err := use(ctx, t, k); err == nil || !strings.Contains(err.Error(), denial) {
					return fmt.Errorf("without the right it ended otherwise: %v", err)
				}
				return nil
			})
		})
	}
}

// takeRight takes a verb on a resource from the Role of the namespace.
func takeRight(t *testing.T, k *testkit.KubeCluster, verb, resource string) {
	t.Helper()
	roles := k.Admin(t).RbacV1().Roles(k.Namespace)
	role := must(roles.Get(t.Context(), "config-server-role", metav1.GetOptions{}))(t)
	for i, rule := range role.Rules {
		if slices.Contains(rule.Resources, resource) {
			role.Rules[i].Verbs = slices.DeleteFunc(rule.Verbs, func(v string) bool { return v == verb })
		}
	}
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Verbs) == 0 })
	must(roles.Update(t.Context(), role, metav1.UpdateOptions{}))(t)
}

// asService is the service's own client, with the rights of its ServiceAccount.
func asService(k *testkit.KubeCluster) *kube.Cluster {
	return kube.FromREST(k.ServiceConfig(), kube.Options{Namespace: k.Namespace})
}

// runCommand runs one in a pod, as a migration does. It is one GET, for which the API server asks for create too.
func runCommand(ctx context.Context, t *testing.T, k *testkit.KubeCluster) error {
	pods := k.Admin(t).CoreV1().Pods(k.Namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"},
		Spec:       corev1.PodSpec{NodeName: "farm5", Containers: []corev1.Container{{Name: "shell", Image: "image"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	service := asService(k)
	if err := service.WaitReady(ctx, farm.Pod{Name: farm.PodName(pod.Name), UID: string(pod.UID)}, farm.ReadyLimits{Total: time.Minute}); err != nil {
		return err
	}
	_, err = service.Exec(ctx, farm.PodName(pod.Name), "shell", []string{"true"})
	return err
}

// deleteServiceOfAnotherLife asks for the end of a Service that was made anew under its name meanwhile.
func deleteServiceOfAnotherLife(ctx context.Context, t *testing.T, k *testkit.KubeCluster) error {
	made, err := k.Admin(t).CoreV1().Services(k.Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 22}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	existed, err := asService(k).DeleteService(ctx, made.Name, "of-another-life")
	if existed {
		t.Error("it deleted a Service that is another one's")
	}
	return err
}

// deleteAccountSecret removes the Secret of a workspace that was made while ACCOUNT_SECRET was on.
func deleteAccountSecret(ctx context.Context, t *testing.T, k *testkit.KubeCluster) error {
	secret, err := k.Admin(t).CoreV1().Secrets(k.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = asService(k).DeleteSecret(ctx, secret.Name)
	return err
}
