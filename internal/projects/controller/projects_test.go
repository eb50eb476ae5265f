package controller_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"config-server/internal/projects"
	"config-server/internal/projects/controller"
	"config-server/internal/projects/v1alpha1"
	"config-server/internal/testkit"
)

func quantities(name, quantity string) map[string]resource.Quantity {
	return map[string]resource.Quantity{name: resource.MustParse(quantity)}
}

func groupResource(group, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Resource: resource}
}

// TestProjects holds what is made for projects beside labels and rights, on one cluster.
func TestProjects(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	t.Run("the definitions refuse bad names and members", func(t *testing.T) { refusals(t, s) })
	t.Run("a dry run prints every write and makes none", func(t *testing.T) { dryRun(t, s) })
	t.Run("one pass by hand does all", func(t *testing.T) { once(t, s) })
	t.Run("of two instances one works, and the other goes on when it dies", func(t *testing.T) { election(t, s) })
	opts := s.options()
	opts.Listen = freeAddress(t)
	s.run(t, opts)
	t.Run("metrics and health are told", func(t *testing.T) { pages(t, s, opts.Listen) })
	t.Run("groups, dangling names and empty selectors", func(t *testing.T) { groups(t, s) })
	t.Run("quota is set, mirrored, refused and removed", func(t *testing.T) { quota(t, s) })
	t.Run("a reserved name makes nothing", func(t *testing.T) { reserved(t, s) })
	t.Run("rights and quota go with the project", func(t *testing.T) { rightsGo(t, s) })
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func pages(t *testing.T, s *stand, address string) {
	s.pass(t)
	for path, wants := range map[string][]string{
		"/healthz": {"ok"},
		"/metrics": {`project_controller_writes_total{kind="Namespace",verb="create"} `, `project_controller_conditions{condition="Forbidden"} 0`, "process_resident_memory_bytes "},
	} {
		response, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v\n%s", path, response.StatusCode, err, text)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s has no %q", path, want)
			}
		}
	}
}

func refusals(t *testing.T, s *stand) {
	for name, want := range map[string]string{
		"Upper": "lowercase", "under_score": "lowercase", "a.b": "DNS label", strings.Repeat("a", 64): "at most 63 bytes",
	} {
		for _, object := range []client.Object{named[v1alpha1.Project](name), named[v1alpha1.NodeGroup](name)} {
			if err := s.client.Create(t.Context(), object, client.DryRunAll); !apierrors.IsInvalid(err) || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
				t.Errorf("%T %q: %v, want %q", object, name, err, want)
			}
		}
	}
	for name, member := range map[string]v1alpha1.Member{
		"neither user nor subject": {Role: "member"}, "both": {User: "u", Subject: "s", Role: "member"}, "no role": {User: "u"},
	} {
		p := named[v1alpha1.Project]("fine")
		p.Spec.Members = []v1alpha1.Member{member}
		if err := s.client.Create(t.Context(), p, client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"a", strings.Repeat("a", 63), "a-1"} {
		if err := s.client.Create(t.Context(), named[v1alpha1.Project](name), client.DryRunAll); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func dryRun(t *testing.T, s *stand) {
	s.node(t, "dry-1", true, nil)
	s.project(t, "dry", "dry-1")
	var out bytes.Buffer
	opts := s.options()
	opts.DryRun = &out
	begin := len(s.writes.since(0))
	if err := controller.Once(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	if writes := s.writes.since(begin); len(writes) > 0 {
		t.Errorf("a dry run writes: %v", writes)
	}
	for _, want := range []string{
		"create Namespace/dry {", "patch Node/dry-1 {", `"project-name.aipub.ten1010.io/dry":""`, "create ClusterRole/project.ailab.io:manager:dry {",
		"create RoleBinding/dry/project.ailab.io:member:dry {", "patch status Project/dry {",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, out.String())
		}
	}
}

func once(t *testing.T, s *stand) {
	if err := controller.Once(t.Context(), s.options()); err != nil {
		t.Fatal(err)
	}
	s.projectLabels(t, "dry-1", "dry")
	s.settled(t, "dry", projects.ConditionReady)
	begin := len(s.writes.since(0))
	if err := controller.Once(t.Context(), s.options()); err != nil {
		t.Fatal(err)
	}
	if writes := s.writes.since(begin); len(writes) > 0 {
		t.Errorf("the second pass writes: %v", writes)
	}
}

func election(t *testing.T, s *stand) {
	// The first one dies: nothing that it sends arrives any more, so that it does not give the Lease back either.
	dead, opts := new(atomic.Bool), s.options()
	opts.REST.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counting{next, new(counter), dead} })
	stop := s.run(t, opts)
	s.project(t, "first")
	s.settled(t, "first", projects.ConditionReady)
	lease := func() string {
		l, err := s.Admin(t).CoordinationV1().Leases(s.Namespace).Get(t.Context(), "config-server-controller", metav1.GetOptions{})
		if err != nil || l.Spec.HolderIdentity == nil {
			t.Fatalf("the Lease: %v", err)
		}
		return *l.Spec.HolderIdentity
	}
	holder := lease()
	second := s.run(t, s.options())
	defer second()
	s.project(t, "both")
	s.settled(t, "both", projects.ConditionReady)
	if lease() != holder {
		t.Error("the second instance took the Lease of one that lives")
	}
	dead.Store(true)
	stop()
	s.project(t, "second")
	s.settled(t, "second", projects.ConditionReady)
	if lease() == holder {
		t.Error("the Lease is still the first one's")
	}
}

func groups(t *testing.T, s *stand) {
	s.create(t, &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "empty"}, Spec: v1alpha1.NodeGroupSpec{NodeSelector: map[string]string{}}})
	s.create(t, &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "listed"}, Spec: v1alpha1.NodeGroupSpec{Nodes: []string{"group-1", "group-later"}}})
	s.node(t, "group-1", true, nil)
	p := named[v1alpha1.Project]("grouped")
	p.Spec.Binding = v1alpha1.Binding{NodeGroups: []string{"empty", "listed", "nothing"}}
	s.create(t, p)
	s.settled(t, "grouped", projects.ConditionDanglingNodes)
	p = s.settled(t, "grouped", projects.ConditionDanglingGroups)
	if !slices.Equal(p.Status.Nodes, []string{"group-1"}) || !slices.Equal(p.Status.NodeGroups, []string{"empty", "listed"}) {
		t.Errorf("status has nodes %v and groups %v", p.Status.Nodes, p.Status.NodeGroups)
	}
	s.projectLabels(t, "group-1", "grouped")
	s.node(t, "group-later", true, nil)
	s.projectLabels(t, "group-later", "grouped")
	s.create(t, &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "nothing"}, Spec: v1alpha1.NodeGroupSpec{Nodes: []string{"group-1"}}})
	testkit.WaitFor(t, patience, "nothing to dangle", func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if len(p.Status.Conditions) != 1 || p.Status.NodeCount != 2 {
			return fmt.Errorf("status is %+v", p.Status)
		}
		return nil
	})
	testkit.WaitFor(t, patience, "the group's status", func(ctx context.Context) error {
		g := named[v1alpha1.NodeGroup]("listed")
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(g), g); err != nil {
			return err
		}
		if !slices.Equal(g.Status.Nodes, []string{"group-1", "group-later"}) {
			return fmt.Errorf("nodes are %v", g.Status.Nodes)
		}
		return nil
	})
}

func quota(t *testing.T, s *stand) {
	p := named[v1alpha1.Project]("quota")
	p.Spec.Quota.Hard = map[string]resource.Quantity{"requests.nvidia.com/gpu": resource.MustParse("4"), "limits.memory": resource.MustParse("64Gi")}
	s.create(t, p)
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "quota", Name: "project-quota"}}
	hard := func(want map[string]string) {
		t.Helper()
		testkit.WaitFor(t, patience, fmt.Sprint("the quota ", want), func(ctx context.Context) error {
			if err := s.client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
				return err
			}
			got := map[string]string{}
			for name, quantity := range q.Spec.Hard {
				got[string(name)] = quantity.String()
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("it is %v", got)
			}
			return nil
		})
	}
	hard(map[string]string{"requests.nvidia.com/gpu": "4", "limits.memory": "64Gi"})
	s.patch(t, q, `{"spec":{"hard":{"limits.memory":"1Ti","pods":"1"}}}`)
	hard(map[string]string{"requests.nvidia.com/gpu": "4", "limits.memory": "64Gi"})
	// The quota's own controller writes its status; the project mirrors it.
	q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("3")}}
	if err := s.client.Status().Update(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, patience, "the used quota", func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if used := p.Status.Quota.Used["requests.nvidia.com/gpu"]; used.String() != "3" {
			return fmt.Errorf("it is %+v", p.Status.Quota)
		}
		return nil
	})
	s.patch(t, p, `{"spec":{"quota":{"hard":{"pods":"-1"}}}}`)
	s.settled(t, "quota", projects.ConditionQuotaRefused)
	s.patch(t, p, `{"spec":{"quota":null}}`)
	testkit.WaitFor(t, patience, "the quota to go", func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(q), q); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %v", err)
		}
		return nil
	})
	s.settled(t, "quota", projects.ConditionReady)
}

func reserved(t *testing.T, s *stand) {
	before := named[corev1.Namespace]("default")
	s.get(t, before)
	for _, name := range []string{"default", "kube-reserved"} {
		p := s.project(t, name)
		s.settled(t, name, projects.ConditionReservedName)
		s.delete(t, p)
	}
	s.pass(t)
	after := named[corev1.Namespace]("default")
	s.get(t, after)
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("a reserved namespace was written: %+v", after.ObjectMeta)
	}
	if err := s.client.Get(t.Context(), types.NamespacedName{Name: "kube-reserved"}, new(corev1.Namespace)); !apierrors.IsNotFound(err) {
		t.Errorf("a reserved namespace was made: %v", err)
	}
}

func rightsGo(t *testing.T, s *stand) {
	p := named[v1alpha1.Project]("goes")
	p.Spec.Quota.Hard = quantities("pods", "5")
	s.create(t, p)
	s.settled(t, "goes", projects.ConditionReady)
	// A quota of the same kind that is not ours stays.
	s.create(t, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "goes", Name: "others"}})
	s.delete(t, p)
	role := projects.RightsName(projects.Manager, "goes")
	testkit.WaitFor(t, patience, "rights and quota to go", func(ctx context.Context) error {
		for key, object := range map[types.NamespacedName]client.Object{
			{Name: role}:                              new(rbacv1.ClusterRole),
			{Namespace: "goes", Name: role}:           new(rbacv1.RoleBinding),
			{Namespace: "goes", Name: "project-goes"}: new(corev1.ResourceQuota),
		} {
			if err := s.client.Get(ctx, key, object); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T %s is still there: %v", object, key, err)
			}
		}
		return nil
	})
	if err := s.client.Get(t.Context(), types.NamespacedName{Namespace: "goes", Name: "others"}, new(corev1.ResourceQuota)); err != nil {
		t.Errorf("a quota of others: %v", err)
	}
}

// fixed has projects that are no objects.
type fixed struct{ all []projects.Project }

// Projects implements controller.Source.
func (f fixed) Projects(context.Context) ([]projects.Project, error) { return f.all, nil }

// Watch implements controller.Source.
func (f fixed) Watch(ctx context.Context, _ time.Duration, _ func()) { <-ctx.Done() }

func TestProjectsOfASourceHaveNoOwner(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	opts := s.options()
	opts.Source = fixed{[]projects.Project{{Name: "linux", Binding: projects.Binding{Nodes: []string{"linux-1"}}, Quota: quantities("pods", "3")}}}
	s.node(t, "linux-1", true, nil)
	s.run(t, opts)
	s.projectLabels(t, "linux-1", "linux")
	if n := s.keyed(t, "linux"); len(n.OwnerReferences) > 0 {
		t.Errorf("owner references are %+v", n.OwnerReferences)
	}
	testkit.WaitFor(t, patience, "the quota", func(ctx context.Context) error {
		return s.client.Get(ctx, types.NamespacedName{Namespace: "linux", Name: "project-linux"}, new(corev1.ResourceQuota))
	})
}
