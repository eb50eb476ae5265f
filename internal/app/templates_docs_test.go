package app_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

const templatesPage = "../../docs/templates.md"

var (
	pageFence = regexp.MustCompile("(?ms)^```(yaml|sh)\n(.*?)^```$")
	fileName  = regexp.MustCompile(`\A# ([a-z0-9]+\.yaml)\n`)
)

// TestTemplatesExamplesOfThePage does what the page says, with kubectl: files are written, commands are
// run. Then each template of the page shapes a workspace.
func TestTemplatesExamplesOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(templatesPage)
	if err != nil {
		t.Fatal(err)
	}
	f := shapedFarm{world.New(t, world.Options{Env: map[string]string{"POD_TEMPLATE": "workspace"}})}
	grantTemplates(t, f.Cluster)
	dir, bin := t.TempDir(), t.TempDir()
	if err := os.Symlink(testkit.Built(t, "kubectl"), filepath.Join(bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	files, commands := 0, 0
	for _, fence := range pageFence.FindAllSubmatch(page, -1) {
		text := string(fence[2])
		if name := fileName.FindStringSubmatch(text); name != nil {
			files++
			if err := os.WriteFile(filepath.Join(dir, name[1]), fence[2], 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if string(fence[1]) == "yaml" {
			continue
		}
		commands++
		shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
		shell.Dir = dir
		shell.Env = []string{"KUBECONFIG=" + f.Cluster.AdminKubeconfig(t), "PATH=" + bin + ":/usr/bin:/bin", "HOME=" + dir}
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s\n%v: %s", text, err, out)
		}
	}
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
	page, err := os.ReadFile(templatesPage)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := exec.CommandContext(t.Context(), "grep", "-rhoE", `^func Test[A-Za-z0-9]+\(`, "--include=*_test.go", "../..").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(page, -1)
	if len(names) < 20 {
		t.Errorf("only %d tests are named", len(names))
	}
	for _, name := range names {
		if !bytes.Contains(sources, []byte("func "+string(name[1])+"(")) {
			t.Errorf("the page names %s, which there is not", name[1])
		}
	}
}
