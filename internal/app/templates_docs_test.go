package app_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

const templatesPage = "../../docs/templates.md"

// TestTemplatesExamplesOfThePage does what the page says, with kubectl: files are written, commands are
// run. Then each template of the page shapes a workspace.
func TestTemplatesExamplesOfThePage(t *testing.T) {
	t.Parallel()
	f := shapedFarm{world.New(t, world.Options{Env: map[string]string{"POD_TEMPLATE": "workspace"}})}
	grantTemplates(t, f.Cluster)
	files, commands := followPage(t, templatesPage, map[string]string{"kubectl": testkit.Built(t, "kubectl")}, "KUBECONFIG="+f.Cluster.AdminKubeconfig(t))
	if files < 4 || commands < 4 {
		t.Fatalf("only %d files and %d commands were found in the page", files, commands)
	}

	list, err := f.Cluster.Admin(t).CoreV1().PodTemplates(f.Cluster.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 4 {
		t.Fatalf("the page makes %d templates, want 4", len(list.Items))
	}
	service := f.Service(t, nil)
	for _, template := range list.Items {
		f.user(t, service.URL, template.Name, template.Name)
		pod := f.create(t, service.URL, template.Name)
		for _, missing := range lacks(pod, template.Template) {
			t.Errorf("the workspace of template %s lacks %s", template.Name, missing)
		}
		if got := variables(pod.Spec.Containers[0])["PIP_INDEX_URL"]; got != "http://pypi.example.org/simple" {
			t.Errorf("the workspace of template %s is not on the session's: PIP_INDEX_URL=%s", template.Name, got)
		}
	}
}

// lacks lists what of a template a pod does not have.
func lacks(pod *corev1.Pod, template corev1.PodTemplateSpec) []string {
	has := map[string]bool{}
	list := func(labels map[string]string, spec corev1.PodSpec, note func(string)) {
		for key, value := range labels {
			note("label " + key + "=" + value)
		}
		for _, v := range spec.Volumes {
			note("volume " + v.Name)
		}
		for _, s := range spec.ImagePullSecrets {
			note("pull secret " + s.Name)
		}
		for _, toleration := range spec.Tolerations {
			note("toleration of " + toleration.Key)
		}
		note("priority class " + spec.PriorityClassName)
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			note("container " + c.Name)
			for _, v := range c.Env {
				note(c.Name + "'s variable " + v.Name + "=" + v.Value)
			}
			for _, m := range c.VolumeMounts {
				note(c.Name + "'s mount of " + m.Name + " at " + m.MountPath)
			}
			for resource, quantity := range c.Resources.Limits {
				note(c.Name + "'s limit of " + quantity.String() + " " + string(resource))
			}
		}
	}
	list(pod.Labels, pod.Spec, func(part string) { has[part] = true })
	var missing []string
	list(template.Labels, template.Spec, func(part string) {
		if !has[part] && part != "priority class " {
			missing = append(missing, part)
		}
	})
	return missing
}

// TestTemplatesPageNamesTestsThatThereAre holds the page's table to what is tested.
func TestTemplatesPageNamesTestsThatThereAre(t *testing.T) {
	t.Parallel()
	namesOfTestsExist(t, templatesPage, 20)
}
