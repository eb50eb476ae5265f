package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"config-server/internal/projects"
	"config-server/internal/projects/controller"
	"config-server/internal/projects/v1alpha1"
	"config-server/internal/testkit"
)

// patience is how long something may take that has to happen: the machine may be busy.
const patience = 90 * time.Second

// user is who the controller is in these tests: it has the rights that the chart gives it, and no others.
const user = "projects-controller"

func TestMain(m *testing.M) {
	controller.AdoptLibrary(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// stand is a cluster with the kinds of projects, and the controller's rights.
type stand struct {
	*testkit.KubeCluster
	client client.Client // may do everything
	writes *counter      // of all controllers of the stand

	sentinels int
}

func newStand(t *testing.T) *stand {
	t.Helper()
	cluster := testkit.OwnCluster(t)
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), v1alpha1.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cluster.AdminConfig(), client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{KubeCluster: cluster, client: c, writes: new(counter)}
	root, err := testkit.Root()
	if err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join(root, "deploy", "helm")
	for _, file := range []string{
		filepath.Join(chart, "config-server", "crds", "ailab.io_projects.yaml"), filepath.Join(chart, "config-server", "crds", "ailab.io_nodegroups.yaml"),
		filepath.Join("testdata", "cueues.yaml"),
	} {
		s.apply(t, file)
	}
	testkit.WaitFor(t, patience, "the kinds of projects", func(ctx context.Context) error {
		return errors.Join(c.List(ctx, new(v1alpha1.ProjectList)), c.List(ctx, new(v1alpha1.NodeGroupList)), c.List(ctx, cueues()))
	})
	s.grant(t, filepath.Join(chart, "testdata", "golden", "controller.yaml"))
	return s
}

func cueues() *unstructured.UnstructuredList {
	list := new(unstructured.UnstructuredList)
	list.SetAPIVersion("coaster.ten1010.io/v1alpha1")
	list.SetKind("CueueList")
	return list
}

func (s *stand) apply(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	object := new(unstructured.Unstructured)
	if err := yaml.Unmarshal(text, &object.Object); err != nil {
		t.Fatalf("read %s: %v", file, err)
	}
	s.create(t, object)
}

// grant gives user what the chart's ServiceAccount of the controller has.
func (s *stand) grant(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object := new(unstructured.Unstructured)
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		switch object.GetKind() {
		case "ClusterRole", "Role":
			s.create(t, object)
		case "ClusterRoleBinding", "RoleBinding":
			raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
				Subjects []rbacv1.Subject `json:"subjects"`
			}{subjects})
			if err != nil {
				t.Fatal(err)
			}
			object.Object["subjects"] = raw["subjects"]
			s.create(t, object)
		}
	}
}

// as is the configuration of a client of this user.
func (s *stand) as(name string) *rest.Config {
	c := s.AdminConfig()
	c.Impersonate = rest.ImpersonationConfig{UserName: name}
	return c
}

func settings() projects.Settings {
	return projects.Settings{Keys: projects.DefaultKeys(), UserPrefix: "oidc:", Reserved: []string{"default", "kube-*", testkit.OwnNamespace}}
}

// options are those of a controller of this stand.
func (s *stand) options() controller.Options {
	c := s.as(user)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counting{next, s.writes, nil} })
	return controller.Options{REST: c, Settings: settings(), Namespace: s.Namespace, Lease: 3 * time.Second}
}

// run starts a controller, and returns what ends it.
func (s *stand) run(t *testing.T, opts controller.Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := controller.Run(ctx, opts)
		if ctx.Err() == nil {
			t.Errorf("the controller ended by itself: %v", err)
		}
		ended <- err
	}()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("the controller ended badly: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// counter counts what controllers write, Leases and events apart.
type counter struct {
	mu     sync.Mutex
	writes []written
}

type written struct{ method, path, body string }

// String is the method, the path and the body.
func (w written) String() string { return w.method + " " + w.path + " " + w.body }

func (c *counter) since(begin int) []written {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes[begin:])
}

type counting struct {
	next   http.RoundTripper
	writes *counter
	cut    *atomic.Bool // nil = never; nothing reaches the API server while it is set
}

// RoundTrip implements http.RoundTripper.
func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.cut != nil && c.cut.Load() {
		return nil, errors.New("cut off")
	}
	if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases") && !strings.HasSuffix(r.URL.Path, "/events") {
		var body []byte
		if r.Body != nil {
			var err error
			if body, err = io.ReadAll(r.Body); err != nil {
				return nil, err
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		c.writes.mu.Lock()
		c.writes.writes = append(c.writes.writes, written{r.Method, r.URL.Path, string(body)})
		c.writes.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

func (s *stand) create(t *testing.T, object client.Object) {
	t.Helper()
	if err := s.client.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

func (s *stand) delete(t *testing.T, object client.Object) {
	t.Helper()
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatalf("delete %T %s: %v", object, object.GetName(), err)
	}
}

// patch writes a JSON merge patch.
func (s *stand) patch(t *testing.T, object client.Object, text string) {
	t.Helper()
	if err := s.client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatalf("patch %T %s: %v", object, object.GetName(), err)
	}
}

func (s *stand) get(t *testing.T, object client.Object) {
	t.Helper()
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatalf("get %T %s: %v", object, object.GetName(), err)
	}
}

// node makes a node. With gate the controller may label it.
func (s *stand) node(t *testing.T, name string, gate bool, labels map[string]string) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for key, value := range labels {
		n.Labels[key] = value
	}
	if gate {
		n.Labels[projects.DefaultKeys().Gate] = "true"
	}
	s.create(t, n)
	return n
}

// project makes a project with these nodes.
func (s *stand) project(t *testing.T, name string, nodes ...string) *v1alpha1.Project {
	t.Helper()
	p := &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ProjectSpec{Binding: v1alpha1.Binding{Nodes: nodes}}}
	s.create(t, p)
	return p
}

func named[T any, P interface {
	*T
	client.Object
}](name string) P {
	object := P(new(T))
	object.SetName(name)
	return object
}

// settled waits until the controller has told of the present generation that it is ready, or what else it is to be.
func (s *stand) settled(t *testing.T, name, condition string) *v1alpha1.Project {
	t.Helper()
	p := named[v1alpha1.Project](name)
	testkit.WaitFor(t, patience, name+": "+condition, func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == condition && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.Generation {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", p.Status.Conditions)
	})
	return p
}

// projectLabels waits until a node bears the labels of these projects and of no others.
func (s *stand) projectLabels(t *testing.T, node string, want ...string) {
	t.Helper()
	keys := projects.DefaultKeys()
	testkit.WaitFor(t, patience, fmt.Sprintf("labels %v of %s", want, node), func(ctx context.Context) error {
		n := named[corev1.Node](node)
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		if got := projects.ProjectsOf(n.Labels, keys); !slices.Equal(got, want) {
			return fmt.Errorf("its projects are %v", got)
		}
		for _, p := range want {
			if value := n.Labels[keys.OfNode(p)]; value != "" {
				return fmt.Errorf("label of %s is %q", p, value)
			}
		}
		return nil
	})
}

// keyed waits until a namespace has our keys.
func (s *stand) keyed(t *testing.T, name string) *corev1.Namespace {
	t.Helper()
	n := named[corev1.Namespace](name)
	testkit.WaitFor(t, patience, "the keys of namespace "+name, func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		for key, want := range map[string]string{"cueue.coaster.ten1010.io/provisioning-enabled": "true", "project.aipub.ten1010.io/project": name} {
			if n.Labels[key] != want {
				return fmt.Errorf("label %s is %q", key, n.Labels[key])
			}
		}
		if got := n.Annotations["cueue.coaster.ten1010.io/node-selector"]; got != "project-name.aipub.ten1010.io/"+name {
			return fmt.Errorf("the annotation is %q", got)
		}
		return nil
	})
	return n
}

// pass waits until the controller has worked on what came before: a project and a node that come last go through the same queues.
func (s *stand) pass(t *testing.T) {
	t.Helper()
	s.sentinels++
	name := fmt.Sprintf("sentinel-%d", s.sentinels)
	s.node(t, name, true, nil)
	s.project(t, name, name)
	s.projectLabels(t, name, name)
	s.settled(t, name, projects.ConditionReady)
}
