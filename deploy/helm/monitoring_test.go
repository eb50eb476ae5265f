package helm_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestMonitoringIsOffUnlessAskedFor(t *testing.T) {
	t.Parallel()
	for _, object := range objects(t, render(t, "farm")) {
		_, foreign := object.(*unstructured.Unstructured)
		if foreign || strings.HasSuffix(object.GetName(), "-dashboard") {
			t.Errorf("%s is rendered", object.GetName())
		}
	}
}

// The ServiceMonitor leads to /metrics of every replica: it selects the Service by its labels and the port by its name.
func TestServiceMonitorSelectsTheService(t *testing.T) {
	t.Parallel()
	list := objects(t, render(t, "everything"))
	monitor, service := foreign(t, list, "ServiceMonitor"), the[*corev1.Service](t, list)
	type endpoint struct{ Port, Path, Interval, ScrapeTimeout string }
	var spec struct {
		JobLabel          string
		Selector          metav1.LabelSelector
		NamespaceSelector struct{ MatchNames []string }
		Endpoints         []endpoint
	}
	decodeSpec(t, monitor, &spec)
	selector := must(metav1.LabelSelectorAsSelector(&spec.Selector))(t)
	if selector.Empty() || !selector.Matches(labelsOf(service)) {
		t.Errorf("selector %s does not find the Service with %v", selector, service.Labels)
	}
	if diff := cmp.Diff([]string{service.Namespace}, spec.NamespaceSelector.MatchNames); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	if want := []endpoint{{service.Spec.Ports[0].Name, "/metrics", "1m", "10s"}}; !slices.Equal(spec.Endpoints, want) {
		t.Errorf("endpoints %+v, want %+v", spec.Endpoints, want)
	}
	if got := service.Labels[spec.JobLabel]; got != "config-server" {
		t.Errorf("the metrics' job is %q, by the Service's label %s", got, spec.JobLabel)
	}
	if got := monitor.GetLabels()["release"]; got != "monitoring" {
		t.Errorf("label release is %q; Prometheus selects by it", got)
	}
}

// The rules are those of files/alerts.yaml, word for word: what Prometheus fills in, Helm leaves alone.
func TestPrometheusRuleHasTheAlerts(t *testing.T) {
	t.Parallel()
	var file map[string]any
	decodeFile(t, filepath.Join("files", "alerts.yaml"), &file)
	rule := foreign(t, objects(t, render(t, "everything")), "PrometheusRule")
	if diff := cmp.Diff(file, rule.Object["spec"]); diff != "" || len(file["groups"].([]any)) == 0 {
		t.Errorf("rules (-file +rendered):\n%s", diff)
	}
	if got := rule.GetLabels()["release"]; got != "monitoring" {
		t.Errorf("label release is %q; Prometheus selects by it", got)
	}
}

func TestDashboardIsTheFile(t *testing.T) {
	t.Parallel()
	var found *corev1.ConfigMap
	for _, object := range objects(t, render(t, "everything")) {
		if object, ok := object.(*corev1.ConfigMap); ok && strings.HasSuffix(object.Name, "-dashboard") {
			found = object
		}
	}
	if found == nil {
		t.Fatal("there is no ConfigMap with the dashboard")
	}
	var file, rendered map[string]any
	if err := json.Unmarshal(must(os.ReadFile(filepath.Join(chart, "files", "dashboard.json")))(t), &file); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(found.Data["config-server.json"]), &rendered); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(file, rendered); diff != "" || len(found.Data) != 1 {
		t.Errorf("dashboard (-file +rendered):\n%s", diff)
	}
	if found.Labels["grafana_dashboard"] != "1" || found.Annotations["grafana_folder"] != "farm" {
		t.Errorf("labels %v, annotations %v: Grafana's sidecar goes by them", found.Labels, found.Annotations)
	}
}

// foreign finds the one object of a kind that Kubernetes itself does not have.
func foreign(t *testing.T, list []metav1.Object, kind string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range list {
		if object, ok := object.(*unstructured.Unstructured); ok && object.GetKind() == kind {
			return object
		}
	}
	t.Fatalf("there is no %s", kind)
	return nil
}

func decodeSpec(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text(t, object.Object["spec"])), into); err != nil {
		t.Fatal(err)
	}
}
