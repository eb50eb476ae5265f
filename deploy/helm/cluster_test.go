package helm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"config-server/internal/testkit"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// secretNames are those that the chart refers to with everything on, and the keys that it reads.
var secretNames = map[string][]string{
	"config-server-db-secret":   {"password"},
	"config-server-krb5-secret": {"principal", "password"},
	"config-server-token":       {"token"},
	"nas-ssh-key":               {"id_ed25519"},
	"farm-ssh-key":              {"id_ed25519"},
}

// One API server of its own serves the whole walk, because NodePort 30082 and cluster-wide names are there once; each
// part has a namespace.
func TestOnACluster(t *testing.T) {
	t.Parallel()
	started := startCluster(t)
	for _, part := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"the API server accepts every manifest", acceptsEveryManifest},
		{"Pod Security is kept at the level that the guide tells", keepsPodSecurity},
		{"an installation says what is missing", saysWhatIsMissing},
		{"objects made by hand stay as they are", leavesObjectsMadeByHand},
		{"claims outlive the release", keepsTheClaims},
		{"helm test tells how the look has ended", testsTheRelease},
		{"the installation as the guide tells it", installsAsTheGuideTellsIt},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, started.fresh(t)) })
	}
}

func acceptsEveryManifest(t *testing.T, c *cluster) {
	c.makeSecrets(t)
	_, stderr, err := c.helm(t, "install", release, chart, "--values", valuesFile("everything"), "--dry-run=server")
	if err == nil || !strings.Contains(stderr, "the cluster has no kind PrometheusRule: install prometheus-operator first, or leave monitoring.prometheusRule off") {
		t.Errorf("an installation with kinds that the cluster does not know: %v\n%s", err, stderr)
	}
	c.addMonitoringKinds(t)
	for _, name := range valuesNames {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := c.helm(t, "install", release, chart, "--values", valuesFile(name), "--dry-run=server")
			if err != nil {
				t.Fatalf("helm install --dry-run=server: %v\n%s", err, stderr)
			}
			if !strings.Contains(stdout, "/usr/local/bin/config-server check") {
				t.Errorf("the notes do not say how to check the installation:\n%s", stdout)
			}
			for _, m := range manifests(t, render(t, name, "--set", "config.namespace="+c.namespace)) {
				if err := c.dryRun(t, m); err != nil {
					t.Errorf("the API server refuses %s: %v", m.Kind, err)
				}
				// The other way round: it does judge this kind.
				m.text = strings.Replace(m.text, "\nmetadata:\n", "\nunheardOf: true\nmetadata:\n", 1)
				if err := c.dryRun(t, m); err == nil || !strings.Contains(err.Error(), "unheardOf") {
					t.Errorf("a %s with a field that does not exist: %v", m.Kind, err)
				}
			}
		})
	}
}

// The pod of helm test is like the service's, and it is made as a pod, so the API server judges it at once.
func keepsPodSecurity(t *testing.T, c *cluster) {
	namespaces := c.client.CoreV1().Namespaces()
	namespace := must(namespaces.Get(t.Context(), c.namespace, metav1.GetOptions{}))(t)
	namespace.Labels["pod-security.kubernetes.io/enforce"] = "baseline"
	must(namespaces.Update(t.Context(), namespace, metav1.UpdateOptions{}))(t)
	for _, tc := range []struct{ name, values, set, refused string }{
		{name: "root with three capabilities", values: "farm"},
		{name: "an ordinary user", values: "nonroot"},
		{name: "everything but the node's own paths", values: "everything", set: "docker.socket="},
		{name: "the socket of the node's engine", values: "farm", set: "docker.socket=/var/run/docker.sock", refused: "hostPath"},
		{name: "a share that the node has mounted", values: "farm", set: "nfs.kubeShareHostPath=/mnt/kube", refused: "hostPath"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, m := range manifests(t, render(t, tc.values, "--set", "config.namespace="+c.namespace, "--set", tc.set)) {
				if m.Kind != "Pod" {
					continue
				}
				err := c.dryRun(t, m)
				if tc.refused == "" && err != nil {
					t.Errorf("refused: %v", err)
				}
				if tc.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.refused)) {
					t.Errorf("it ended with %v, want a refusal for %s", err, tc.refused)
				}
			}
		})
	}
}

func saysWhatIsMissing(t *testing.T, c *cluster) {
	refused := func(want string, args ...string) {
		t.Helper()
		_, stderr, err := c.helm(t, append([]string{"install", release, chart}, args...)...)
		if err == nil {
			t.Fatal("it was installed")
		}
		if !strings.Contains(stderr, want) {
			t.Errorf("the refusal does not say %q:\n%s", want, stderr)
		}
	}
	refused("these values are needed and empty: nas.ssh.host, nas.ssh.user, nfs.kubeSharePath, nfs.server")
	refused("Secret config-server-db-secret (key password: the database user's password) is not in namespace "+c.namespace,
		"--values", valuesFile("farm"))
	for kind, err := range map[string]error{
		"Service":    c.get(t.Context(), "services", "containerssh-config-service"),
		"Deployment": c.get(t.Context(), "deployments", release),
	} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("the refused installation left a %s: %v", kind, err)
		}
	}
}

// Claims and ConfigMaps that somebody made by hand stay theirs.
func leavesObjectsMadeByHand(t *testing.T, c *cluster) {
	ctx := t.Context()
	c.makeSecrets(t)
	claims, configMaps := c.client.CoreV1().PersistentVolumeClaims(c.namespace), c.client.CoreV1().ConfigMaps(c.namespace)
	claim := must(claims.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-image-store"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("700Gi")}},
		},
	}, metav1.CreateOptions{}))(t)
	config := must(configMaps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "krb5-conf"},
		Data:       map[string]string{"krb5.conf": "by hand"},
	}, metav1.CreateOptions{}))(t)

	for _, verb := range []string{"install", "upgrade", "uninstall"} {
		args := []string{verb, release}
		if verb != "uninstall" {
			args = append(args, chart, "--values", valuesFile("everything"))
		}
		if _, stderr, err := c.helm(t, args...); err != nil {
			t.Fatalf("helm %s: %v\n%s", verb, err, stderr)
		}
		if diff := cmp.Diff(text(t, claim), text(t, must(claims.Get(ctx, claim.Name, metav1.GetOptions{}))(t))); diff != "" {
			t.Errorf("after %s the claim differs (-want +got):\n%s", verb, diff)
		}
		if diff := cmp.Diff(text(t, config), text(t, must(configMaps.Get(ctx, config.Name, metav1.GetOptions{}))(t))); diff != "" {
			t.Errorf("after %s the ConfigMap differs (-want +got):\n%s", verb, diff)
		}
	}
}

func keepsTheClaims(t *testing.T, c *cluster) {
	c.makeSecrets(t)
	install := []string{"install", release, chart, "--values", valuesFile("sqlite"), "--set", "imageStore.enabled=true"}
	for _, args := range [][]string{install, {"uninstall", release}} {
		if _, stderr, err := c.helm(t, args...); err != nil {
			t.Fatalf("helm %s: %v\n%s", args[0], err, stderr)
		}
	}
	for _, name := range []string{"pvc-image-store", release + "-state"} {
		claim, err := c.client.CoreV1().PersistentVolumeClaims(c.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || claim.DeletionTimestamp != nil {
			t.Errorf("claim %s is gone with the release: %v", name, err)
		}
	}
	if err := c.get(t.Context(), "deployments", release); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment stayed: %v", err)
	}
	// What was kept is taken up again by the next installation.
	if _, stderr, err := c.helm(t, install...); err != nil {
		t.Errorf("the second helm install: %v\n%s", err, stderr)
	}
	if _, stderr, err := c.helm(t, "uninstall", release); err != nil {
		t.Errorf("the second helm uninstall: %v\n%s", err, stderr)
	}
}

// helm test makes the pod that looks, waits for its end and passes it on.
func testsTheRelease(t *testing.T, c *cluster) {
	c.makeSecrets(t)
	if _, stderr, err := c.helm(t, "install", release, chart, "--values", valuesFile("farm")); err != nil {
		t.Fatalf("helm install: %v\n%s", err, stderr)
	}
	for _, end := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		ended := c.endTheLook(t, end)
		stdout, stderr, err := c.helm(t, "test", release, "--timeout", "2m")
		if err := <-ended; err != nil {
			t.Fatalf("end the pod of helm test: %v\n%s", err, stderr)
		}
		if (err == nil) != (end == corev1.PodSucceeded) || !strings.Contains(stdout, "Phase:          "+string(end)) {
			t.Errorf("helm test of a look that ends %s: %v\n%s%s", end, err, stdout, stderr)
		}
	}
	if _, stderr, err := c.helm(t, "uninstall", release); err != nil {
		t.Errorf("helm uninstall: %v\n%s", err, stderr)
	}
}

// endTheLook plays scheduler and kubelet for the next pod of helm test: it ends so.
func (c *cluster) endTheLook(t *testing.T, end corev1.PodPhase) <-chan error {
	pods := c.client.CoreV1().Pods(c.namespace)
	ended := make(chan error, 1)
	go func() {
		ended <- testkit.Eventually(t.Context(), func(ctx context.Context) error {
			pod, err := pods.Get(ctx, release+"-check", metav1.GetOptions{})
			if err == nil && pod.Status.Phase != corev1.PodPending {
				err = fmt.Errorf("it is the one of the last test, %s", pod.Status.Phase)
			}
			if err == nil {
				pod.Status.Phase = end
				_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			}
			return err
		})
	}()
	return ended
}

// makeSecrets makes what an operator makes before the installation.
func (c *cluster) makeSecrets(t *testing.T) {
	t.Helper()
	for name, keys := range secretNames {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{}}
		for _, key := range keys {
			secret.Data[key] = []byte("by hand")
		}
		must(c.client.CoreV1().Secrets(c.namespace).Create(t.Context(), secret, metav1.CreateOptions{}))(t)
	}
}

// text is a value as JSON, to compare and to print.
func text(t *testing.T, value any) string {
	t.Helper()
	return string(must(json.Marshal(value))(t))
}

// must fails the test on an error.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// cluster is an API server of the test's own, and one namespace in it.
type cluster struct {
	kubeconfig string
	config     *rest.Config
	client     kubernetes.Interface
	namespace  string
}

// fresh is the same cluster with an empty namespace.
func (c *cluster) fresh(t *testing.T) *cluster {
	t.Helper()
	made := must(c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "farm-"},
	}, metav1.CreateOptions{}))(t)
	next := *c
	next.namespace = made.Name
	return &next
}

// helm runs a command against the cluster, for the namespace.
func (c *cluster) helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	args = append(args, "--kubeconfig", c.kubeconfig, "--namespace", c.namespace)
	if slices.Contains([]string{"install", "upgrade"}, args[0]) {
		args = append(args, "--set", "config.namespace="+c.namespace)
	}
	return helm(t, args...)
}

// dryRun asks the API server to make the object without keeping it. A field that it does not know is an error.
func (c *cluster) dryRun(t *testing.T, m manifest) error {
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(m.text), &object.Object); err != nil {
		t.Fatal(err)
	}
	all := must(dynamic.NewForConfig(c.config))(t).Resource(object.GroupVersionKind().GroupVersion().WithResource(m.resource))
	var api dynamic.ResourceInterface = all
	if m.namespaced {
		api = all.Namespace(c.namespace)
	}
	_, err := api.Create(t.Context(), &object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	return err
}

// get tells whether an object exists.
func (c *cluster) get(ctx context.Context, resource, name string) error {
	return c.rest(resource).Get().Namespace(c.namespace).Resource(resource).Name(name).Do(ctx).Error()
}

func (c *cluster) rest(resource string) rest.Interface {
	if resource == "deployments" {
		return c.client.AppsV1().RESTClient()
	}
	return c.client.CoreV1().RESTClient()
}

// startCluster starts the API server.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	own := testkit.OwnCluster(t)
	return &cluster{kubeconfig: own.AdminKubeconfig(t), config: own.AdminConfig(), client: own.Admin(t)}
}

// addMonitoringKinds teaches the API server the kinds of prometheus-operator, and waits until it serves them.
func (c *cluster) addMonitoringKinds(t *testing.T) {
	t.Helper()
	definitions := must(dynamic.NewForConfig(c.config))(t).Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	folder := testkit.Built(t, "prometheus-operator-crds")
	for _, kind := range []string{"servicemonitors", "prometheusrules"} {
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(must(os.ReadFile(filepath.Join(folder, kind+".yaml")))(t), &object.Object); err != nil {
			t.Fatal(err)
		}
		must(definitions.Create(t.Context(), &object, metav1.CreateOptions{}))(t)
	}
	testkit.WaitFor(t, time.Minute, "the kinds of prometheus-operator", func(context.Context) error {
		served, err := c.client.Discovery().ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
		if err == nil && len(served.APIResources) < 2 {
			err = fmt.Errorf("it serves %d of 2", len(served.APIResources))
		}
		return err
	})
}
