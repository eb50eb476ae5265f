package helm_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The way from the original's release, by the very commands of docs/operations.md: what would be lost or run side by side
// is refused with the command that helps; afterwards every object that others know is the same one, and the service that
// the new release describes goes on with the original's table, share and workspaces. The way back is walked too.
func TestTheUpgradeFromTheOriginalAsTheGuideTellsIt(t *testing.T) {
	t.Parallel()
	own := testkit.OwnCluster(t)
	w := world.New(t, world.Options{Cluster: own})
	c := &cluster{kubeconfig: own.AdminKubeconfig(t), config: own.AdminConfig(), client: own.Admin(t), namespace: own.Namespace}
	c.takeRoles(t)
	c.playDeployments(t)
	shell := newShell(t, c)
	blocks := guideBlocks(t, "sh", "Upgrade from the original")

	if _, stderr, err := c.helm(t, "install", release, "testdata/original", "--values", valuesFile("original")); err != nil {
		t.Fatalf("install the original: %v\n%s", err, stderr)
	}
	c.waitForPods(t, 1)
	left := leaveOriginalsData(t, w)
	before, shared := c.known(t), c.sharedThings(t)

	shell.must(t, blocks.with(t, "get values"))
	shell.setTag(t, "1.0.0")
	// helm upgrade, and the look afterwards.
	upgrade := blocks.with(t, "helm -n ailab-infra upgrade ")
	again, _, _ := strings.Cut(upgrade, "\n")
	if out, err := shell.run(t, upgrade); err == nil || !strings.Contains(out, "kubectl -n ailab-infra annotate secret ") {
		t.Fatalf("an upgrade that would delete Secrets: %v\n%s", err, out)
	}
	shell.must(t, blocks.with(t, "annotate secret config-server-db-secret"))
	c.keepOtherSecrets(t, shell, upgrade)

	if out, err := shell.run(t, upgrade); err == nil || !strings.Contains(out, "kubectl -n ailab-infra scale deployment "+release+" --replicas=0") {
		t.Fatalf("an upgrade beside the running original: %v\n%s", err, out)
	}
	stop := blocks.with(t, "--replicas=0")
	shell.must(t, stop)
	c.waitForPods(t, 0)

	if out, err := shell.run(t, upgrade); err == nil || !strings.Contains(out, `ServiceAccount "config-server" in namespace "ailab-infra" exists and cannot be imported`) {
		t.Fatalf("an upgrade over a ServiceAccount made by hand: %v\n%s", err, out)
	}
	shell.must(t, blocks.with(t, "label serviceaccount config-server"))
	shell.must(t, upgrade)

	if diff := cmp.Diff(before, c.known(t)); diff != "" {
		t.Errorf("objects that others know changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(shared, c.sharedThings(t)); diff != "" {
		t.Errorf("share, table or store changed (-before +after):\n%s", diff)
	}
	c.looksLikeOurs(t)
	if calls := own.Execs(t); len(calls) != 1 || strings.Join(calls[0].Command, " ") != "/usr/local/bin/config-server check" {
		t.Errorf("the guide's look afterwards ran %+v", calls)
	}
	goesOn(t, w, c, left)

	// With the service's own release in place, an upgrade needs no stop, unless the kind of lock changes.
	shell.must(t, again)
	if out, err := shell.run(t, again+" --set ledgerLock=mysql"); err == nil || !strings.Contains(out, "do not share locks") {
		t.Errorf("another kind of lock beside running pods: %v\n%s", err, out)
	}

	shell.must(t, stop)
	shell.must(t, blocks.with(t, "helm -n ailab-infra rollback"))
	if diff := cmp.Diff(before, c.known(t)); diff != "" {
		t.Errorf("the way back changed objects that others know (-before +after):\n%s", diff)
	}
	if image := c.deployment(t).Spec.Template.Spec.Containers[0].Image; image != "dguailab/config-server:2024" {
		t.Errorf("after the way back the image is %s", image)
	}
	c.waitForPods(t, 1)
}

// original is what the original leaves behind: one user's lines on the share, rows and workspace.
type original struct {
	files map[string]string
	rows  map[int]string
	pod   string
}

// leaveOriginalsData plays a farm on which the original ran: its table made by hand, a user, and a workspace with a port.
func leaveOriginalsData(t *testing.T, w *world.World) original {
	t.Helper()
	const user, pod, port = "kim", "ailab-kim-0a1b2c3d", 30000
	left := original{rows: map[int]string{port: pod}, pod: pod, files: map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\nkim:x:20001:20001:Kim:/home/kim:/bin/bash\n",
		"group":  "root:x:0:\nkim:x:20001:\nailab:x:20005:kim\n",
		"shadow": "root:*:19000:0:99999:7:::\nkim:$6$0123456789abcdef$x:19000:0:99999:7:::\n",
	}}
	for name, content := range left.files {
		if err := os.WriteFile(filepath.Join(w.Share, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db := w.MariaDB.Open(t, w.Database)
	for _, statement := range []string{
		`CREATE TABLE nodeport_allocations (id INT AUTO_INCREMENT PRIMARY KEY, username VARCHAR(255), pod_name VARCHAR(255),
			node_name VARCHAR(255), internal_port INT, node_port INT UNIQUE, purpose VARCHAR(255) NULL,
			created_at DATETIME DEFAULT CURRENT_TIMESTAMP, KEY (pod_name), KEY (username))`,
		fmt.Sprintf(`INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port, purpose, created_at)
			VALUES ('%s', '%s', 'farm6', 22, %d, 'ssh', NOW() - INTERVAL 40 DAY)`, user, pod, port),
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	core := w.Cluster.Admin(t).CoreV1()
	must(core.Pods(w.Cluster.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Labels: map[string]string{
			farm.LabelApp: farm.AppGuest, farm.LabelManagedBy: farm.ManagedBy, farm.LabelUser: user, farm.LabelPod: pod,
		}},
		Spec: corev1.PodSpec{NodeName: "farm6", Containers: []corev1.Container{{Name: "shell", Image: "dguailab/decs:1.0"}}},
	}, metav1.CreateOptions{}))(t)
	must(core.Services(w.Cluster.Namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "ailab-kim-ssh-30000", Labels: map[string]string{
			farm.LabelApp: farm.AppNodePort, farm.LabelUser: user, farm.LabelPod: pod, "purpose": "ssh",
		}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: map[string]string{farm.LabelPod: pod},
			Ports: []corev1.ServicePort{{Name: "ssh", Port: 22, NodePort: port}}},
	}, metav1.CreateOptions{}))(t)
	return left
}

// goesOn runs the service with the settings of the upgraded Deployment, the addresses being those of the test's parts, and
// with the rights that the release has given its ServiceAccount.
func goesOn(t *testing.T, w *world.World, c *cluster, left original) {
	t.Helper()
	env := map[string]string{}
	for _, variable := range c.deployment(t).Spec.Template.Spec.Containers[0].Env {
		env[variable.Name] = variable.Value
	}
	// Kerberos has tests of its own. A variable that is empty is not set.
	for name := range env {
		if strings.HasPrefix(name, "KRB5_") || strings.HasPrefix(name, "FARM_") {
			env[name] = ""
		}
	}
	delete(env, "STATE_DIR") // the folder that the pod mounts
	maps.Copy(env, w.Env)
	service := testkit.Service(t, env)
	defer service.Term()

	user := world.Call(t, service.URL, "GET", "/accounts/users/kim", "", 200)
	if !strings.Contains(string(user.Body), `"uid":20001`) || !strings.Contains(string(user.Body), `"ailab"`) {
		t.Errorf("the original's user is %s", user.Body)
	}
	if diff := cmp.Diff(left.rows, w.Rows(t)); diff != "" {
		t.Errorf("rows of the table (-before +after):\n%s", diff)
	}
	// The next workspace gets the next port, the original's stays whose it is.
	made := world.Call(t, service.URL, "POST", "/create-pod", `{"username":"kim"}`, 201)
	if port := made.JSON["ports"].([]any)[0].(map[string]any)["external_port"]; fmt.Sprint(port) != "30001" {
		t.Errorf("the first port of a new workspace is %v, want 30001", port)
	}
	files := w.ShareFiles(t)
	for name, content := range left.files {
		if diff := cmp.Diff(content, files[name]); diff != "" {
			t.Errorf("%s on the share (-before +after):\n%s", name, diff)
		}
	}
	for _, pod := range []string{left.pod, made.Text("pod_name")} {
		world.Call(t, service.URL, "POST", "/delete-pod", fmt.Sprintf(`{"pod_name":%q}`, pod), 200)
	}
	if rows, services := w.Rows(t), w.Services(t); len(rows)+len(services) > 0 {
		t.Errorf("after both deletions there are rows %v and %d Services", rows, len(services))
	}
	service.Term()
	if end := service.Wait(t, time.Minute); end != "exit status 0" {
		t.Errorf("the service ended with %s", end)
	}
}

// known is the identity of what callers, people and data depend on: kind and name to uid and what is fixed in it.
func (c *cluster) known(t *testing.T) map[string]string {
	t.Helper()
	ctx := t.Context()
	got := map[string]string{"Deployment": string(c.deployment(t).UID)}
	service := must(c.client.CoreV1().Services(c.namespace).Get(ctx, "containerssh-config-service", metav1.GetOptions{}))(t)
	got["Service"] = string(service.UID) + " " + service.Spec.ClusterIP + " " + text(t, service.Spec.Ports[0].NodePort)
	claim := must(c.client.CoreV1().PersistentVolumeClaims(c.namespace).Get(ctx, "pvc-image-store", metav1.GetOptions{}))(t)
	got["PersistentVolumeClaim"] = string(claim.UID) + " " + text(t, claim.Spec)
	account := must(c.client.CoreV1().ServiceAccounts(c.namespace).Get(ctx, "config-server", metav1.GetOptions{}))(t)
	got["ServiceAccount"] = string(account.UID)
	for name := range secretNames {
		secret, err := c.client.CoreV1().Secrets(c.namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got["Secret "+name] = string(secret.UID) + " " + text(t, secret.Data)
	}
	return got
}

// sharedThings are the share, the table and the store that the Deployment names, and the Secrets that it reads.
func (c *cluster) sharedThings(t *testing.T) map[string]string {
	t.Helper()
	pod := c.deployment(t).Spec.Template.Spec
	got := map[string]string{}
	for _, volume := range pod.Volumes {
		if slices.Contains([]string{"kube-share", "image-store"}, volume.Name) {
			got["volume "+volume.Name] = text(t, volume.VolumeSource)
		}
	}
	for _, mount := range pod.Containers[0].VolumeMounts {
		if slices.Contains([]string{"kube-share", "image-store"}, mount.Name) {
			got["mount "+mount.Name] = mount.MountPath
		}
	}
	for _, variable := range pod.Containers[0].Env {
		if slices.Contains([]string{"NAMESPACE", "NFS_SERVER", "NFS_USER_SHARE_PATH", "DB_HOST", "DB_NAME", "DB_USER", "DB_PASSWORD"}, variable.Name) {
			got[variable.Name] = variable.Value + text(t, variable.ValueFrom)
		}
	}
	return got
}

// looksLikeOurs holds what the Deployment has become against the chart.
func (c *cluster) looksLikeOurs(t *testing.T) {
	t.Helper()
	spec := c.deployment(t).Spec
	if *spec.Replicas != 1 || spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || spec.Strategy.RollingUpdate != nil {
		t.Errorf("%d replicas, strategy %+v; want 1, Recreate", *spec.Replicas, spec.Strategy)
	}
	containers := spec.Template.Spec.Containers
	if len(containers) != 1 || containers[0].SecurityContext == nil || containers[0].Image != "dguailab/config-server:1.0.0" {
		t.Errorf("the pod's containers are %+v; want one, the chart's", containers)
	}
}

// takeRoles removes the Role that the test kit grants beforehand, so that the release grants its own. The ServiceAccount
// stays, as one that somebody made by hand.
func (c *cluster) takeRoles(t *testing.T) {
	t.Helper()
	rbac := c.client.RbacV1()
	err := errors.Join(
		rbac.RoleBindings(c.namespace).Delete(t.Context(), "config-server-rolebinding", metav1.DeleteOptions{}),
		rbac.Roles(c.namespace).Delete(t.Context(), "config-server-role", metav1.DeleteOptions{}),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// keepOtherSecrets does what each refusal of the upgrade says, until it refuses for another reason.
func (c *cluster) keepOtherSecrets(t *testing.T, s *shell, upgrade string) {
	t.Helper()
	command := regexp.MustCompile(`kubectl -n ailab-infra annotate secret \S+ helm\.sh/resource-policy=keep`)
	kept := 0
	for ; kept < len(secretNames); kept++ {
		out, _ := s.run(t, upgrade)
		say := command.FindString(out)
		if say == "" {
			break
		}
		s.must(t, say)
	}
	if kept != 3 {
		t.Errorf("%d further Secrets had to be kept, want krb5, NAS and farm keys", kept)
	}
}

func (c *cluster) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return must(c.client.AppsV1().Deployments(c.namespace).Get(t.Context(), release, metav1.GetOptions{}))(t)
}
