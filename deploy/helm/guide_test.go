package helm_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"config-server/internal/testkit"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// guide is what operators read; the tests run its commands and use its values.
const guide = "../../docs/operations.md"

// A first installation by the guide's own commands, in order, from the Secrets to helm test and the end.
func installsAsTheGuideTellsIt(t *testing.T, c *cluster) {
	c.namespace = testkit.OwnNamespace
	c.takeRoles(t)
	if err := c.client.CoreV1().ServiceAccounts(c.namespace).Delete(t.Context(), "config-server", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.playDeployments(t)
	shell := newShell(t, c)
	shell.write(t, "db-password", "password")
	shell.write(t, "nas-key", "key")
	shell.write(t, "farm.yaml", guideBlocks(t, "yaml", "Install").with(t, "kubeSharePath"))
	blocks := guideBlocks(t, "sh", "Install")
	// The namespace is there; an empty one cannot be taken away here.
	prepare, found := strings.CutPrefix(blocks.with(t, "kubectl create namespace"), "kubectl create namespace ailab-infra\n")
	if !found {
		t.Fatalf("the guide makes the namespace otherwise:\n%s", blocks[0])
	}
	shell.must(t, prepare)
	shell.must(t, blocks.with(t, "helm upgrade --install"))
	ended := c.endTheLook(t, corev1.PodSucceeded)
	// The pod has no log, because nobody ran it.
	shell.must(t, strings.TrimSuffix(blocks.with(t, "helm -n ailab-infra test "), " --logs"))
	if err := <-ended; err != nil {
		t.Error(err)
	}
	shell.must(t, guideBlocks(t, "sh", "Values").with(t, "rollout restart"))
	shell.must(t, "helm -n ailab-infra uninstall "+release)
	if !strings.Contains(string(must(os.ReadFile(guide))(t)), "`helm -n ailab-infra uninstall "+release+"`") {
		t.Error("the guide takes the release away otherwise")
	}
}

// Values that the guide shows are such as the chart takes, together with those that every farm has.
func TestTheGuidesValuesAreAccepted(t *testing.T) {
	t.Parallel()
	var shown blocks
	for _, section := range []string{"Install", "Values", "Who the process is", "Monitoring by the chart", "Homes on a volume of the service's own"} {
		shown = append(shown, guideBlocks(t, "yaml", section)...)
	}
	if len(shown) < 5 {
		t.Errorf("the guide shows %d blocks of values", len(shown))
	}
	for _, block := range shown {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(block), &values); err != nil {
			t.Errorf("the guide shows broken YAML: %v\n%s", err, block)
			continue
		}
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		render(t, "farm", "--values", file)
	}
}

// shell runs commands of the guide where an operator would: in a folder with the checkout's deploy, with kubectl, helm and
// the cluster at hand.
type shell struct {
	folder string
	env    []string
}

func newShell(t *testing.T, c *cluster) *shell {
	t.Helper()
	s := &shell{folder: t.TempDir()}
	deploy := must(filepath.Abs(".."))(t)
	links := map[string]string{"deploy": deploy, "bin/helm": testkit.Built(t, "helm"), "bin/kubectl": testkit.Built(t, "kubectl")}
	if err := os.Mkdir(filepath.Join(s.folder, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(s.folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.env = []string{"PATH=" + filepath.Join(s.folder, "bin") + ":/usr/bin:/bin", "HOME=" + s.folder, "KUBECONFIG=" + c.kubeconfig}
	return s
}

// run returns what the commands print on both streams. The first one that fails ends them.
func (s *shell) run(t *testing.T, commands string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir, cmd.Env = s.folder, s.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (s *shell) must(t *testing.T, commands string) {
	t.Helper()
	if out, err := s.run(t, commands); err != nil {
		t.Fatalf("the guide's\n%s\nends with %v:\n%s", commands, err, out)
	}
}

// write makes a file in the folder.
func (s *shell) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// setTag is the one edit of the old values that the guide asks for.
func (s *shell) setTag(t *testing.T, tag string) {
	t.Helper()
	path := filepath.Join(s.folder, "old-values.yaml")
	old := string(must(os.ReadFile(path))(t))
	edited := regexp.MustCompile(`(?m)^  tag: .*$`).ReplaceAllString(old, "  tag: "+tag)
	if edited == old {
		t.Fatalf("the old values have no image tag:\n%s", old)
	}
	s.write(t, "old-values.yaml", edited)
}

// blocks are the fenced blocks of one language in a section of the guide.
type blocks []string

func guideBlocks(t *testing.T, language, section string) blocks {
	t.Helper()
	_, rest, found := strings.Cut(string(must(os.ReadFile(guide))(t)), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", guide, section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var list blocks
	for _, match := range regexp.MustCompile("(?ms)^( *)```"+language+"\n(.*?)^ *```$").FindAllStringSubmatch(rest, -1) {
		lines := strings.Split(match[2], "\n")
		for i := range lines {
			lines[i] = strings.TrimPrefix(lines[i], match[1])
		}
		list = append(list, strings.TrimSpace(strings.Join(lines, "\n")))
	}
	return list
}

// with is the one block that has this text.
func (b blocks) with(t *testing.T, text string) string {
	t.Helper()
	var found []string
	for _, block := range b {
		if strings.Contains(block, text) {
			found = append(found, block)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d blocks of the guide have %q, want one", len(found), text)
	}
	return found[0]
}

// waitForPods waits until the Deployment's status tells of so many pods.
func (c *cluster) waitForPods(t *testing.T, want int32) {
	t.Helper()
	testkit.WaitFor(t, time.Minute, fmt.Sprintf("%d pods of the Deployment", want), func(ctx context.Context) error {
		deployment, err := c.client.AppsV1().Deployments(c.namespace).Get(ctx, release, metav1.GetOptions{})
		if err == nil && deployment.Status.Replicas != want {
			err = fmt.Errorf("it has %d", deployment.Status.Replicas)
		}
		return err
	})
}

// playDeployments is the part of a controller manager that the walk needs: a Deployment has as many pods as it asks for.
func (c *cluster) playDeployments(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	events := must(c.client.AppsV1().Deployments(c.namespace).Watch(ctx, metav1.ListOptions{}))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if deployment, ok := event.Object.(*appsv1.Deployment); ok && (*deployment.Spec.Replicas != deployment.Status.Replicas || deployment.Generation != deployment.Status.ObservedGeneration) {
				if err := c.scale(ctx, deployment); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
					t.Errorf("play the Deployment's controller: %v", err)
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		events.Stop()
		<-done
	})
}

// scale makes or removes the Deployment's one pod, and says so in the status.
func (c *cluster) scale(ctx context.Context, deployment *appsv1.Deployment) error {
	pods := c.client.CoreV1().Pods(c.namespace)
	name, now := deployment.Name+"-pod", int64(0)
	var err error
	if *deployment.Spec.Replicas == 0 {
		err = pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	} else {
		_, err = pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: deployment.Spec.Template.Labels},
			Spec:       corev1.PodSpec{NodeName: "farm5", Containers: []corev1.Container{{Name: "config-server", Image: "image"}}},
		}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		return err
	}
	replicas := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
	}
	_, err = c.client.AppsV1().Deployments(c.namespace).UpdateStatus(ctx, deployment, metav1.UpdateOptions{})
	return err
}
