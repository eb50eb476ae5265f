//go:build bench

package bench_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"config-server/internal/projects"
	"config-server/internal/projects/v1alpha1"
	"config-server/internal/testkit"
	"config-server/internal/testkit/load"
)

// TestScaleProjects has the controller meet many projects on many nodes at its start: how long the first pass takes, how many writes it
// makes of a node that belongs to two projects, what it writes once all is done, and its memory. Sizes: SCALE_NODES (1000),
// SCALE_PROJECTS (100). With -update the table goes into docs/scale.md.
func TestScaleProjects(t *testing.T) {
	nodes, teams := number(t, "SCALE_NODES", 1000), number(t, "SCALE_PROJECTS", 100)
	b := &bench{runs: 1, table: &load.Table{
		Title: "Projects", Machine: load.Machine(),
		Setting: fmt.Sprintf("%s, %s, %d projects, %d nodes of two projects each", time.Now().UTC().Format(time.DateOnly), runtime.Version(), teams, nodes),
	}}
	cluster := testkit.OwnCluster(t)
	c := projectClient(t, cluster)
	fillProjects(t, c, nodes, teams)

	binary, err := testkit.ServiceBinary(build())
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	command := exec.CommandContext(t.Context(), binary, "controller")
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "KUBECONFIG=" + cluster.AdminKubeconfig(t), "CONTROLLER_LISTEN_ADDR=" + address, "LOG_LEVEL=error"}
	command.Stderr = os.Stderr
	begin := time.Now()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait() // killed: its status tells nothing
	}()
	testkit.WaitFor(t, 5*time.Minute, "the first pass", func(ctx context.Context) error { return passed(ctx, c) })
	first := time.Since(begin)
	b.add(t, load.Row{Measure: "first pass", Target: "under 60 s", Figure: fmt.Sprintf("%.1f s", first.Seconds()), Met: first < time.Minute})

	// What the first pass set in motion, such as the status of the last project, comes to its end.
	testkit.WaitFor(t, time.Minute, "what follows", after(10*time.Second))
	ofNodes, before := writesOf(t, address)
	b.add(t, load.Row{Measure: "writes of a node", Target: "one", Figure: fmt.Sprintf("%.2f", ofNodes/float64(nodes)), Met: int(ofNodes) == nodes})
	testkit.WaitFor(t, 2*time.Minute, "a steady minute", after(time.Minute))
	_, now := writesOf(t, address)
	b.add(t, load.Row{Measure: "writes in a steady minute", Target: "0", Figure: fmt.Sprintf("%.0f", now-before), Met: now == before})
	u, err := load.UsageOf(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	b.add(t, load.Row{Measure: "memory (RSS)", Target: "under 150 MB", Figure: fmt.Sprintf("%.0f MB", megabytes(u.RSS)), Met: megabytes(u.RSS) < 150})
	b.print(t, "projects", "docs/scale.md")
}

// projectClient may do everything in a cluster that knows the kinds of projects.
func projectClient(t *testing.T, cluster *testkit.KubeCluster) kube.Client {
	t.Helper()
	known := kruntime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}
	c, err := kube.New(cluster.AdminConfig(), kube.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	root, err := testkit.Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "deploy", "helm", "config-server", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the chart has no definitions: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		object := new(unstructured.Unstructured)
		if err := yaml.Unmarshal(text, &object.Object); err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatalf("create %s: %v", file, err)
		}
	}
	testkit.WaitFor(t, time.Minute, "the kinds of projects", func(ctx context.Context) error {
		return errors.Join(c.List(ctx, new(v1alpha1.ProjectList)), c.List(ctx, new(v1alpha1.NodeGroupList)))
	})
	return c
}

// fillProjects makes nodes, and projects each of which binds its share of them and the next project's.
func fillProjects(t *testing.T, c kube.Client, nodes, teams int) {
	t.Helper()
	var all errgroup.Group
	all.SetLimit(16)
	for i := range nodes {
		all.Go(func() error {
			return c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("node%04d", i), Labels: map[string]string{projects.DefaultKeys().Gate: "true"},
			}})
		})
	}
	share := nodes / teams
	for i := range teams {
		all.Go(func() error {
			p := &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("team%03d", i)}}
			for j := range 2 * share {
				p.Spec.Binding.Nodes = append(p.Spec.Binding.Nodes, fmt.Sprintf("node%04d", (i*share+j)%nodes))
			}
			for j := range 10 {
				p.Spec.Members = append(p.Spec.Members, v1alpha1.Member{User: fmt.Sprintf("user%d", j), Role: "member"})
			}
			return c.Create(t.Context(), p)
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
}

// passed is nil once every project is ready and every node has the labels of two projects.
func passed(ctx context.Context, c kube.Client) error {
	var teams v1alpha1.ProjectList
	if err := c.List(ctx, &teams); err != nil {
		return err
	}
	for _, p := range teams.Items {
		if len(p.Status.Conditions) != 1 || p.Status.Conditions[0].Status != metav1.ConditionTrue {
			return fmt.Errorf("%s is not ready: %+v", p.Name, p.Status.Conditions)
		}
	}
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes, kube.HasLabels{projects.DefaultKeys().Gate}); err != nil {
		return err
	}
	for _, n := range nodes.Items {
		if got := projects.ProjectsOf(n.Labels, projects.DefaultKeys()); len(got) != 2 {
			return fmt.Errorf("%s is in %v", n.Name, got)
		}
	}
	return nil
}

// writesOf are the writes of nodes, and of everything.
func writesOf(t *testing.T, address string) (ofNodes, all float64) {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families["project_controller_writes_total"].GetMetric() {
		all += m.GetCounter().GetValue()
		for _, label := range m.GetLabel() {
			if label.GetName() == "kind" && label.GetValue() == "Node" {
				ofNodes += m.GetCounter().GetValue()
			}
		}
	}
	return ofNodes, all
}
