package helm_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"config-server/internal/testkit"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	chart   = "config-server"
	release = "containerssh-config-server"
)

// helm runs one helm command and returns what it prints on each stream. Its own folders are the test's.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	testkit.Need(t, "helm", "golang")
	folder := t.TempDir()
	cmd := exec.CommandContext(context.Background(), testkit.Built(t, "helm"), args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+folder, "HELM_CONFIG_HOME="+folder, "HELM_DATA_HOME="+folder)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// render is helm template with the file testdata/values/<values>.yaml.
func render(t *testing.T, values string, args ...string) string {
	t.Helper()
	args = append([]string{"template", release, chart, "--values", valuesFile(values)}, args...)
	stdout, stderr, err := helm(t, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return stdout
}

func valuesFile(name string) string { return filepath.Join("testdata", "values", name+".yaml") }

// kind is what the tests know of a kind of object.
type kind struct {
	object     func() runtime.Object
	resource   string
	namespaced bool
}

// kinds are those that the chart may render, by API version and kind.
var kinds = map[string]kind{
	"apps/v1 Deployment":                              {func() runtime.Object { return new(appsv1.Deployment) }, "deployments", true},
	"v1 Service":                                      {func() runtime.Object { return new(corev1.Service) }, "services", true},
	"v1 ServiceAccount":                               {func() runtime.Object { return new(corev1.ServiceAccount) }, "serviceaccounts", true},
	"v1 ConfigMap":                                    {func() runtime.Object { return new(corev1.ConfigMap) }, "configmaps", true},
	"v1 PersistentVolumeClaim":                        {func() runtime.Object { return new(corev1.PersistentVolumeClaim) }, "persistentvolumeclaims", true},
	"rbac.authorization.k8s.io/v1 Role":               {func() runtime.Object { return new(rbacv1.Role) }, "roles", true},
	"rbac.authorization.k8s.io/v1 RoleBinding":        {func() runtime.Object { return new(rbacv1.RoleBinding) }, "rolebindings", true},
	"rbac.authorization.k8s.io/v1 ClusterRole":        {func() runtime.Object { return new(rbacv1.ClusterRole) }, "clusterroles", false},
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding": {func() runtime.Object { return new(rbacv1.ClusterRoleBinding) }, "clusterrolebindings", false},
	"networking.k8s.io/v1 NetworkPolicy":              {func() runtime.Object { return new(networkingv1.NetworkPolicy) }, "networkpolicies", true},
	"policy/v1 PodDisruptionBudget":                   {func() runtime.Object { return new(policyv1.PodDisruptionBudget) }, "poddisruptionbudgets", true},
	"v1 Pod":                                          {func() runtime.Object { return new(corev1.Pod) }, "pods", true},
	// These two are judged by the definitions in the API server alone.
	"monitoring.coreos.com/v1 ServiceMonitor": {func() runtime.Object { return new(unstructured.Unstructured) }, "servicemonitors", true},
	"monitoring.coreos.com/v1 PrometheusRule": {func() runtime.Object { return new(unstructured.Unstructured) }, "prometheusrules", true},
}

// manifest is one rendered object with its kind.
type manifest struct {
	text string
	metav1.TypeMeta
	kind
}

// manifests splits a rendered chart. A kind that no test knows fails the test.
func manifests(t *testing.T, rendered string) []manifest {
	t.Helper()
	var list []manifest
	for _, text := range strings.Split(rendered, "\n---\n") {
		m := manifest{text: text}
		if err := yaml.Unmarshal([]byte(text), &m.TypeMeta); err != nil {
			t.Fatalf("read manifest: %v\n%s", err, text)
		}
		if m.Kind == "" {
			continue // a template of which only comments are left
		}
		known, ok := kinds[m.APIVersion+" "+m.Kind]
		if !ok {
			t.Fatalf("the chart renders a kind that no test knows: %s %s", m.APIVersion, m.Kind)
		}
		m.kind = known
		list = append(list, m)
	}
	return list
}

// objects decodes a rendered chart into typed objects. A field that the type does not have fails the test.
func objects(t *testing.T, rendered string) []metav1.Object {
	t.Helper()
	var list []metav1.Object
	for _, m := range manifests(t, rendered) {
		object := m.object()
		if err := yaml.UnmarshalStrict([]byte(m.text), object); err != nil {
			t.Fatalf("read %s: %v\n%s", m.Kind, err, m.text)
		}
		list = append(list, object.(metav1.Object))
	}
	return list
}

// the finds the one object of a type.
func the[T metav1.Object](t *testing.T, list []metav1.Object) T {
	t.Helper()
	var found []T
	for _, object := range list {
		if typed, ok := object.(T); ok {
			found = append(found, typed)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of type %T, want one", len(found), *new(T))
	}
	return found[0]
}
