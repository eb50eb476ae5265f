package helm_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"config-server/internal/testkit"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

const controllerTemplate = "templates/controller.yaml"

// controllerManifests are those of the controller, which the tests of the controller run with too.
func controllerManifests(t *testing.T, args ...string) string {
	t.Helper()
	return render(t, "farm", append([]string{"--kube-version", "1.35.0", "--show-only", controllerTemplate, "--set", "controller.enabled=true"}, args...)...)
}

func TestProjectsControllerIsTheRecordedOne(t *testing.T) {
	t.Parallel()
	testkit.Golden(t, filepath.Join("testdata", "golden", "controller.yaml"), []byte(controllerManifests(t)))
}

func TestProjectsControllerIsOffUnlessAskedFor(t *testing.T) {
	t.Parallel()
	if rendered := render(t, "farm", "--kube-version", "1.35.0"); strings.Contains(rendered, "args: [controller]") {
		t.Error("the controller is rendered without being asked for")
	}
}

// TestProjectsControllerHoldsWhatItGrants: with escalate or bind it could grant anything, its own cluster included.
func TestProjectsControllerHoldsWhatItGrants(t *testing.T) {
	t.Parallel()
	for _, rule := range the[*rbacv1.ClusterRole](t, objects(t, controllerManifests(t))).Rules {
		for _, verb := range rule.Verbs {
			if slices.Contains([]string{"escalate", "bind", "impersonate", "*"}, verb) {
				t.Errorf("it may %s %v", verb, rule.Resources)
			}
		}
		if slices.Contains(rule.Resources, "*") || slices.Contains(rule.APIGroups, "*") {
			t.Errorf("it has a right on everything: %+v", rule)
		}
	}
}

func TestProjectsControllerReadsItsSettings(t *testing.T) {
	t.Parallel()
	set := []string{"--set", "env.PROJECT_SOURCE=ledger,env.PROJECT_GROUPS=vision,env.QUEUE_LIST=byname,env.PROM_URL=http://prometheus"}
	list := objects(t, controllerManifests(t, set...))
	container := the[*appsv1.Deployment](t, list).Spec.Template.Spec.Containers[0]
	got := map[string]string{}
	for _, variable := range container.Env {
		got[variable.Name] = variable.Value
	}
	for name, want := range map[string]string{"PROJECT_SOURCE": "ledger", "PROJECT_GROUPS": "vision", "QUEUE_LIST": "byname", "NAMESPACE": "ailab-infra", "PROM_URL": ""} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if len(container.VolumeMounts) != 1 || !container.VolumeMounts[0].ReadOnly {
		t.Errorf("the share is mounted as %+v, want read-only", container.VolumeMounts)
	}
	mayList := slices.ContainsFunc(the[*rbacv1.ClusterRole](t, list).Rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "cueues") && slices.Contains(r.Verbs, "list")
	})
	if !mayList {
		t.Error("QUEUE_LIST=byname: it cannot grant to list queues, as it may not itself")
	}
}
