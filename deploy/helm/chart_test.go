package helm_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"config-server/internal/config"
	"config-server/internal/testkit"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The values files of testdata, each of which is a way of running the service.
var valuesNames = []string{"farm", "original", "everything", "sqlite", "nonroot", "least", "self"}

func TestLintFindsNothing(t *testing.T) {
	t.Parallel()
	if stdout, stderr, err := helm(t, "lint", "--strict", chart); err != nil {
		t.Errorf("helm lint of the chart as it is: %v\n%s%s", err, stdout, stderr)
	}
	for _, name := range valuesNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, err := helm(t, "lint", "--strict", chart, "--values", valuesFile(name))
			if err != nil {
				t.Fatalf("helm lint: %v\n%s%s", err, stdout, stderr)
			}
		})
	}
}

func TestOldClustersAreRefused(t *testing.T) {
	t.Parallel()
	render(t, "everything", "--kube-version", "1.25.0")
	_, stderr, err := helm(t, "template", release, chart, "--values", valuesFile("farm"), "--kube-version", "1.24.17")
	if err == nil || !strings.Contains(stderr, "chart requires kubeVersion: >=1.25.0-0") {
		t.Errorf("Kubernetes 1.24: %v\n%s", err, stderr)
	}
}

func TestManifestsAreTheRecordedOnes(t *testing.T) {
	t.Parallel()
	for _, name := range valuesNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rendered := withoutFiles(render(t, name, "--kube-version", "1.35.0"))
			testkit.Golden(t, filepath.Join("testdata", "golden", name+".yaml"), []byte(rendered))
		})
	}
}

// withoutFiles leaves out what stands in the chart's files already: alerts and dashboard, which have tests of their own.
func withoutFiles(rendered string) string {
	documents := strings.Split(rendered, "\n---\n")
	for i, document := range documents {
		for mark, body := range map[string]string{"\nkind: PrometheusRule\n": "\nspec:\n", "\n  config-server.json: |-\n": "\ndata:\n"} {
			if head, _, found := strings.Cut(document, body); found && strings.Contains(document, mark) {
				documents[i] = head + body + "  # of the chart's files"
			}
		}
	}
	return strings.Join(documents, "\n---\n")
}

// Callers, operators and the release that is replaced know these names.
func TestNamesStay(t *testing.T) {
	t.Parallel()
	list := objects(t, render(t, "original"))
	want := []string{
		"*v1.ClusterRole /containerssh-config-server-node-reader",
		"*v1.ClusterRoleBinding /containerssh-config-server-node-reader-binding",
		"*v1.ConfigMap ailab-infra/krb5-conf",
		"*v1.Deployment ailab-infra/containerssh-config-server",
		"*v1.PersistentVolumeClaim ailab-infra/pvc-image-store",
		"*v1.Pod ailab-infra/containerssh-config-server-check",
		"*v1.Role ailab-infra/config-server-role",
		"*v1.RoleBinding ailab-infra/config-server-rolebinding",
		"*v1.Service ailab-infra/containerssh-config-service",
		"*v1.ServiceAccount ailab-infra/config-server",
	}
	var got []string
	for _, object := range list {
		got = append(got, fmt.Sprintf("%T %s/%s", object, object.GetNamespace(), object.GetName()))
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}

	deployment := the[*appsv1.Deployment](t, list)
	selector := map[string]string{"app": "containerssh-config-server"}
	if diff := cmp.Diff(selector, deployment.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("a Deployment's selector can never be changed (-want +got):\n%s", diff)
	}
	service := the[*corev1.Service](t, list)
	if diff := cmp.Diff(selector, service.Spec.Selector); diff != "" {
		t.Errorf("selector of the Service (-want +got):\n%s", diff)
	}
	port := service.Spec.Ports[0]
	if service.Spec.Type != corev1.ServiceTypeNodePort || port.Port != 80 || port.TargetPort.IntValue() != 8000 || port.NodePort != 30082 {
		t.Errorf("Service is %s %+v, want NodePort 80 to 8000 at 30082", service.Spec.Type, port)
	}
}

func TestObjectsFollowTheNamespaceAndTheRelease(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := helm(t, "template", "other", chart, "--namespace", "elsewhere",
		"--values", valuesFile("everything"), "--set", "config.namespace=farm")
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, stderr)
	}
	list := objects(t, stdout)
	for _, object := range list {
		_, role := object.(*rbacv1.ClusterRole)
		_, binding := object.(*rbacv1.ClusterRoleBinding)
		switch {
		case role || binding:
			if !strings.HasPrefix(object.GetName(), "other-") {
				t.Errorf("%T is called %s; two releases would share it", object, object.GetName())
			}
		case object.GetNamespace() != "farm":
			t.Errorf("%T %s is in namespace %q, want farm", object, object.GetName(), object.GetNamespace())
		}
	}
	if got := the[*rbacv1.ClusterRoleBinding](t, list).Subjects[0].Namespace; got != "farm" {
		t.Errorf("the cluster's rights go to a ServiceAccount of namespace %q, want farm", got)
	}
}

// What the chart sets has to be what the service reads, in a form that it accepts.
func TestTheServiceAcceptsItsSettings(t *testing.T) {
	t.Parallel()
	for _, name := range valuesNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var environ []string
			for _, variable := range container(t, objects(t, render(t, name))).Env {
				if slices.Contains([]string{"GOMEMLIMIT", "TZ"}, variable.Name) {
					continue // from extraEnv, for Go and not for the service
				}
				if !slices.Contains(config.Names(), variable.Name) {
					t.Errorf("the service reads no %s", variable.Name)
				}
				value := variable.Value
				if variable.ValueFrom != nil {
					value = "from-a-secret"
					if variable.ValueFrom.FieldRef != nil {
						value = "192.0.2.7" // the pod's address, and a pod's name as well
					}
				}
				if value == "" {
					t.Errorf("%s is set to nothing; leave it out, so that its default can be seen", variable.Name)
				}
				environ = append(environ, variable.Name+"="+value)
			}
			if _, err := config.Load(environ); err != nil {
				t.Errorf("the service would not start:\n%v", err)
			}
		})
	}
}

func TestSettingsReachTheService(t *testing.T) {
	t.Parallel()
	read := func(t *testing.T, values string) config.Config {
		var environ []string
		for _, variable := range container(t, objects(t, render(t, values))).Env {
			environ = append(environ, variable.Name+"="+variable.Value)
		}
		// The secrets are missing here, which is a fault; everything else is read all the same.
		settings, _ := config.Load(environ)
		return settings
	}

	t.Run("a values file of the original", func(t *testing.T) {
		t.Parallel()
		got := read(t, "original")
		if len(got.Farm.Nodes) != 1 || got.Farm.Nodes[0].Host != "192.0.2.11" {
			t.Errorf("farm nodes are %+v", got.Farm.Nodes)
		}
		if diff := cmp.Diff([]string{"/usr/bin/apt", "/usr/bin/dpkg"}, []string(got.Share.SudoCommands)); diff != "" {
			t.Errorf("sudo commands (-want +got):\n%s", diff)
		}
		if got.Database.Host != "infra-mysql" || got.Database.Name != "pod_port_db" || got.Database.User != "pod_port_user" || got.Database.Port != 3306 {
			t.Errorf("database is %+v", got.Database)
		}
		if got.Redis.Host != "" {
			t.Errorf("a cache on %q that nobody asked for", got.Redis.Host)
		}
	})
	t.Run("lists, ports as text, and settings by name", func(t *testing.T) {
		t.Parallel()
		got := read(t, "everything")
		if len(got.Farm.Nodes) != 1 || got.Farm.Nodes[0].Port != 22 {
			t.Errorf("farm nodes are %+v", got.Farm.Nodes)
		}
		if len(got.Share.SudoCommands) != 2 {
			t.Errorf("sudo commands are %q", got.Share.SudoCommands)
		}
		if got.NAS.Port != 2022 || got.ListenAddr != ":8080" || got.Share.Lock != "mysql" {
			t.Errorf("NAS port %d, listening on %s, locks %s", got.NAS.Port, got.ListenAddr, got.Share.Lock)
		}
		if got.NodePorts.Max != 30097 || got.LogLevel != "debug" || !got.Pods.AccountSecret {
			t.Errorf("env: NODEPORT_MAX %d, LOG_LEVEL %s, ACCOUNT_SECRET %v", got.NodePorts.Max, got.LogLevel, got.Pods.AccountSecret)
		}
	})
	t.Run("no database means the embedded one, on a claim", func(t *testing.T) {
		t.Parallel()
		got := read(t, "sqlite")
		if got.Database.Host != "" || !strings.HasPrefix(got.DatabasePath(), "/var/lib/config-server/") {
			t.Errorf("database on %q, file %s", got.Database.Host, got.DatabasePath())
		}
	})
}

// Secrets are referred to by the names that they have in production, and never written.
func TestSecretsAreReferredToOnly(t *testing.T) {
	t.Parallel()
	deployment := the[*appsv1.Deployment](t, objects(t, render(t, "everything")))
	got := map[string]string{}
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.Secret != nil {
			got[volume.Secret.SecretName] = fmt.Sprintf("mode %04o", *volume.Secret.DefaultMode)
		}
	}
	for _, variable := range container(t, []metav1.Object{deployment}).Env {
		if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
			ref := variable.ValueFrom.SecretKeyRef
			got[ref.Name+"/"+ref.Key] = variable.Name
		}
	}
	want := map[string]string{
		"config-server-db-secret/password":    "DB_PASSWORD",
		"config-server-krb5-secret/principal": "KRB5_ADMIN_PRINCIPAL",
		"config-server-krb5-secret/password":  "KRB5_ADMIN_PASSWORD",
		"config-server-token/token":           "API_TOKEN",
		"nas-ssh-key":                         "mode 0400",
		"farm-ssh-key":                        "mode 0400",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Secrets (-want +got):\n%s", diff)
	}
}

// Lock files in one pod do not keep another one out, so two such pods must never overlap.
func TestRolloutFollowsTheLocks(t *testing.T) {
	t.Parallel()
	local := the[*appsv1.Deployment](t, objects(t, render(t, "farm"))).Spec
	if local.Strategy.Type != appsv1.RecreateDeploymentStrategyType || *local.Replicas != 1 {
		t.Errorf("with lock files: %s, %d replicas", local.Strategy.Type, *local.Replicas)
	}
	mysql := the[*appsv1.Deployment](t, objects(t, render(t, "everything"))).Spec
	if mysql.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || *mysql.Replicas != 2 || mysql.Strategy.RollingUpdate.MaxUnavailable.IntValue() != 0 {
		t.Errorf("with named locks: %+v, %d replicas", mysql.Strategy, *mysql.Replicas)
	}
}

func TestTheGracePeriodHoldsTheDrain(t *testing.T) {
	t.Parallel()
	settings, _ := config.Load(nil)
	pod := the[*appsv1.Deployment](t, objects(t, render(t, "farm", "--kube-version", "1.35.0"))).Spec.Template.Spec
	sleep := pod.Containers[0].Lifecycle.PreStop.Sleep.Seconds
	need := time.Duration(settings.Drain.Timeout+settings.Drain.UndoReserve).Seconds() + float64(sleep)
	if grace := float64(*pod.TerminationGracePeriodSeconds); grace <= need {
		t.Errorf("the pod is killed after %v s, but the drain with its undo may take %v s", grace, need)
	}
	old := the[*appsv1.Deployment](t, objects(t, render(t, "farm", "--kube-version", "1.29.0"))).Spec.Template.Spec
	if old.Containers[0].Lifecycle != nil {
		t.Error("Kubernetes 1.29 does not know the sleep before SIGTERM")
	}
}

func TestRightsOfTheProcess(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		values string
		uid    int64
		added  []corev1.Capability
	}{
		{values: "farm", uid: 0, added: []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER"}},
		{values: "nonroot", uid: 1026},
	} {
		t.Run(tc.values, func(t *testing.T) {
			t.Parallel()
			list := objects(t, render(t, tc.values))
			pod := the[*appsv1.Deployment](t, list).Spec.Template.Spec
			own := container(t, list).SecurityContext
			if *pod.SecurityContext.RunAsUser != tc.uid {
				t.Errorf("uid %d, want %d", *pod.SecurityContext.RunAsUser, tc.uid)
			}
			if (pod.SecurityContext.RunAsNonRoot != nil) != (tc.uid != 0) {
				t.Errorf("runAsNonRoot is %v for uid %d", pod.SecurityContext.RunAsNonRoot, tc.uid)
			}
			if !*own.ReadOnlyRootFilesystem || *own.AllowPrivilegeEscalation || *own.Privileged {
				t.Errorf("security context is %+v", own)
			}
			want := &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: tc.added}
			if diff := cmp.Diff(want, own.Capabilities); diff != "" {
				t.Errorf("capabilities (-want +got):\n%s", diff)
			}
		})
	}
}

// A root file system that is read-only leaves these places to write to, and every mount has its volume.
func TestMounts(t *testing.T) {
	t.Parallel()
	list := objects(t, render(t, "everything"))
	volumes := map[string]bool{}
	for _, volume := range the[*appsv1.Deployment](t, list).Spec.Template.Spec.Volumes {
		volumes[volume.Name] = true
	}
	got := map[string]bool{}
	for _, mount := range container(t, list).VolumeMounts {
		if !volumes[mount.Name] {
			t.Errorf("%s is mounted from a volume %s that does not exist", mount.MountPath, mount.Name)
		}
		got[mount.MountPath] = !mount.ReadOnly
	}
	want := map[string]bool{ // path -> writable
		"/kube_share": true, "/image-store": true, "/var/lib/config-server": true, "/tmp": true, "/var/run/docker.sock": true,
		"/etc/nas-ssh": false, "/etc/farm-ssh": false, "/etc/krb5.conf": false, "/etc/config-server": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

// container is the service's one.
func container(t *testing.T, list []metav1.Object) corev1.Container {
	t.Helper()
	containers := the[*appsv1.Deployment](t, list).Spec.Template.Spec.Containers
	if len(containers) != 1 {
		t.Fatalf("%d containers, want one", len(containers))
	}
	return containers[0]
}
