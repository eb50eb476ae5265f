package reader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"config-server/internal/cluster"
	"config-server/internal/farm"
	"config-server/internal/projects"
	"config-server/internal/projects/reader"
	"config-server/internal/testkit"
)

const limit = 2 * time.Minute

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	teams       = schema.GroupVersionResource{Group: "ailab.io", Version: "v1alpha1", Resource: "projects"}
	nodeGroups  = schema.GroupVersionResource{Group: "ailab.io", Version: "v1alpha1", Resource: "nodegroups"}
	cueues      = schema.GroupVersionResource{Group: "coaster.ten1010.io", Version: "v1alpha1", Resource: "cueues"}
)

// stage is a cluster of its own with an admin's hands.
type stage struct {
	*testkit.KubeCluster
	objects dynamic.Interface
	reader  *reader.Reader // with the service's rights
	keys    projects.Keys
}

func newStage(t *testing.T) stage {
	t.Helper()
	k := testkit.OwnCluster(t)
	objects, err := dynamic.NewForConfig(k.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	keys := projects.DefaultKeys()
	service := cluster.FromREST(k.ServiceConfig(), cluster.Options{Namespace: k.Namespace})
	return stage{k, objects, reader.New(reader.Options{Cluster: service, Keys: keys, Reserved: []string{k.Namespace, "kube-*"}}), keys}
}

// define adds a kind to the cluster and waits until it is served.
func (s stage) define(t *testing.T, of schema.GroupVersionResource) {
	t.Helper()
	text, err := os.ReadFile("testdata/crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		definition := &unstructured.Unstructured{Object: object}
		if definition.GetName() == of.Resource+"."+of.Group {
			s.create(t, definitions, object)
		}
	}
	testkit.WaitFor(t, limit, of.Resource+" to be served", func(ctx context.Context) error {
		_, err := s.objects.Resource(of).List(ctx, metav1.ListOptions{})
		return err
	})
}

func (s stage) create(t *testing.T, kind schema.GroupVersionResource, object map[string]any) {
	t.Helper()
	if _, err := s.objects.Resource(kind).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s stage) patch(t *testing.T, kind schema.GroupVersionResource, name string, patch any, subresource ...string) {
	t.Helper()
	text, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.objects.Resource(kind).Patch(t.Context(), name, types.MergePatchType, text, metav1.PatchOptions{}, subresource...); err != nil {
		t.Fatal(err)
	}
}

func (s stage) label(t *testing.T, node, key, value string) {
	t.Helper()
	s.patch(t, schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, node, meta("labels", key, value))
}

func meta(field, key, value string) map[string]any {
	return map[string]any{"metadata": map[string]any{field: map[string]any{key: value}}}
}

// grant gives the service's account a right that the chart gives with PROJECTS=on, and waits until it counts.
func (s stage) grant(t *testing.T, verb, group, resource string) {
	t.Helper()
	admin, name := s.Admin(t).RbacV1(), "projects-"+resource
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: testkit.ServiceAccount, Namespace: s.Namespace}},
	}
	if _, err := admin.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := cluster.FromREST(s.ServiceConfig(), cluster.Options{Namespace: s.Namespace})
	testkit.WaitFor(t, limit, "the right to "+verb+" "+resource, func(ctx context.Context) error {
		allowed, err := service.May(ctx, cluster.Right{Verb: verb, Group: group, Resource: resource, Everywhere: true})
		if err == nil && !allowed {
			err = errors.New("not yet")
		}
		return err
	})
}

// coaster plays what makes queues, once: a queue for each namespace that wants one and names its nodes' label.
func (s stage) coaster(t *testing.T) {
	t.Helper()
	namespaces, err := s.Admin(t).CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: s.keys.Provisioning + "=true"})
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range namespaces.Items {
		selector := namespace.Annotations[s.keys.Selector]
		if selector == "" {
			continue
		}
		queue, err := s.objects.Resource(cueues).Get(t.Context(), namespace.Name, metav1.GetOptions{})
		if err != nil {
			s.create(t, cueues, map[string]any{"apiVersion": "coaster.ten1010.io/v1alpha1", "kind": "Cueue", "metadata": map[string]any{"name": namespace.Name},
				"spec": map[string]any{"nodeSelector": map[string]any{selector: ""}}})
			if queue, err = s.objects.Resource(cueues).Get(t.Context(), namespace.Name, metav1.GetOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		nodes, err := s.Admin(t).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: selector + "," + s.keys.Managed + "=true"})
		if err != nil {
			t.Fatal(err)
		}
		names := []any{}
		for _, node := range nodes.Items {
			names = append(names, node.Name)
		}
		s.patch(t, cueues, namespace.Name, map[string]any{"status": map[string]any{"observedGeneration": queue.GetGeneration(), "nodes": names}}, "status")
	}
}

// notOK are the lines of a check that are not ok.
func (s stage) notOK(t *testing.T, project string) string {
	t.Helper()
	lines, err := s.reader.Check(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, line := range lines {
		if line.Result != projects.OK {
			all = append(all, fmt.Sprintf("%s %s", line.Name, line.Result))
		}
	}
	return strings.Join(all, ", ")
}

// The way from an empty cluster to a queue with nodes: at each step the check says what comes next, and nothing else.
func TestCheckFromNothingToAQueue(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if _, _, err := s.reader.List(t.Context()); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("without the kind: %v", err)
	}
	s.define(t, teams)
	s.define(t, nodeGroups)
	if _, _, err := s.reader.List(t.Context()); !farm.IsForbidden(err) {
		t.Errorf("without a right: %v", err)
	}
	s.grant(t, "list", "ailab.io", "projects")
	project := func(name string, spec map[string]any) map[string]any {
		return map[string]any{"apiVersion": "ailab.io/v1alpha1", "kind": "Project", "metadata": map[string]any{"name": name}, "spec": spec}
	}
	s.create(t, teams, project("vision", map[string]any{"members": []any{map[string]any{"user": "alice", "role": "manager"}}}))
	s.create(t, teams, project("kube-lab", map[string]any{}))
	if _, err := s.reader.Check(t.Context(), "none"); kindOf(err) != farm.NotFound {
		t.Errorf("a project that there is not: %v", err)
	}
	const noNodes, noQueue = "gated unknown, managed unknown, labelled unknown", "cueue failed, observed unknown, nodes unknown"
	const unreadNamespace, noNamespace = "namespace unknown, provisioning unknown, selector unknown", "namespace failed, provisioning unknown, selector unknown"
	node := func(i int) string { return fmt.Sprintf("farm%d", i) }
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"a project", func() {}, "bound failed, " + noNodes + ", " + unreadNamespace + ", " + noQueue},
		{"the right to namespaces", func() { s.grant(t, "get", "", "namespaces") }, "bound failed, " + noNodes + ", " + noNamespace + ", " + noQueue},
		{"a node group without the right to it", func() {
			s.create(t, nodeGroups, map[string]any{"apiVersion": "ailab.io/v1alpha1", "kind": "NodeGroup", "metadata": map[string]any{"name": "lab"},
				"spec": map[string]any{"nodes": []any{"farm6"}, "nodeSelector": map[string]any{"room": "7"}}})
			s.patch(t, teams, "vision", map[string]any{"spec": map[string]any{"binding": map[string]any{"nodes": []any{"farm5"}, "nodeGroups": []any{"lab"}}}})
		}, "bound unknown, " + noNodes + ", " + noNamespace + ", " + noQueue},
		{"that right", func() { s.grant(t, "list", "ailab.io", "nodegroups") }, "gated failed, managed failed, labelled failed, " + noNamespace + ", " + noQueue},
		{"a gate", func() { s.label(t, "farm5", s.keys.Gate, "true") }, "gated partly, managed failed, labelled failed, " + noNamespace + ", " + noQueue},
		{"a node that the group selects", func() { s.label(t, "farm7", "room", "7") }, "gated partly, managed failed, labelled failed, " + noNamespace + ", " + noQueue},
		{"all labels", func() {
			for i := 5; i < 8; i++ {
				s.label(t, node(i), s.keys.Gate, "true")
				s.label(t, node(i), s.keys.Managed, "true")
				s.label(t, node(i), s.keys.OfNode("vision"), "")
			}
		}, noNamespace + ", " + noQueue},
		{"a namespace", func() {
			if _, err := s.Admin(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vision"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}, "provisioning failed, selector failed, " + noQueue},
		{"its label", func() { s.patch(t, namespaces, "vision", meta("labels", s.keys.Provisioning, "true")) }, "selector failed, " + noQueue},
		{"its annotation", func() {
			s.patch(t, namespaces, "vision", meta("annotations", s.keys.Selector, s.keys.OfNode("vision")))
		}, noQueue},
		{"the kind of queues, without a right to them", func() { s.define(t, cueues) }, "cueue unknown, observed unknown, nodes unknown"},
		{"that right", func() { s.grant(t, "get", "coaster.ten1010.io", "cueues") }, noQueue},
		{"a queue", func() { s.coaster(t) }, ""},
		{"a queue that has changed", func() { s.patch(t, cueues, "vision", map[string]any{"spec": map[string]any{"priority": 7}}) }, "observed failed"},
		{"a node fewer in it", func() {
			s.label(t, "farm6", s.keys.Managed, "false")
			s.coaster(t)
			s.label(t, "farm6", s.keys.Managed, "true")
		}, "nodes partly"},
		{"a node more", func() { s.coaster(t) }, ""},
	} {
		step.do()
		if got := s.notOK(t, "vision"); got != step.want {
			t.Errorf("%s: not ok are %q, want %q", step.name, got, step.want)
		}
	}
	s.listed(t)
	s.queued(t)
	if got := s.notOK(t, "kube-lab"); !strings.HasPrefix(got, "name failed, bound failed") {
		t.Errorf("a reserved name: %s", got)
	}
	_, err := s.reader.Queue(t.Context(), "kube-lab")
	if kindOf(err) != farm.NotFound || !strings.Contains(err.Error(), "project kube-lab has no queue: name: kube-lab is a reserved name") {
		t.Errorf("a project without a queue: %v", err)
	}
}

func kindOf(err error) farm.Kind {
	if told, ok := farm.AsError(err); ok {
		return told.Kind
	}
	return farm.Internal
}

func (s stage) listed(t *testing.T) {
	t.Helper()
	all, warnings, err := s.reader.List(t.Context())
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	got := map[string][]string{}
	for _, p := range all {
		got[p.Name] = p.Nodes
	}
	if diff := cmp.Diff(map[string][]string{"kube-lab": {}, "vision": {"farm5", "farm6", "farm7"}}, got); diff != "" {
		t.Errorf("projects and nodes (-want +got)\n%s", diff)
	}
	for user, want := range map[farm.UserName][]string{"alice": {"vision"}, "bob": nil} {
		if got, err := s.reader.OfUser(t.Context(), user); err != nil || !cmp.Equal(want, got) {
			t.Errorf("projects of %s: %v, %v", user, got, err)
		}
	}
}

// queued has two pods wait, and the head blocked.
func (s stage) queued(t *testing.T) {
	t.Helper()
	pod := func(name, uid string) map[string]any {
		return map[string]any{"name": name, "namespace": "vision", "uid": uid}
	}
	first := pod("b", "2")
	first["enqueueTime"] = "2026-11-30T08:15:00Z"
	s.patch(t, cueues, "vision", map[string]any{"spec": map[string]any{"pods": []any{pod("b", "2"), pod("a", "1")}}})
	s.patch(t, cueues, "vision", map[string]any{"status": map[string]any{"pods": []any{first}, "conditions": []any{
		map[string]any{"type": projects.HeadBlocked, "status": "True", "reason": "Unschedulable", "message": "0/3 nodes"},
	}}}, "status")
	queue, err := s.reader.Queue(t.Context(), "vision")
	if err != nil {
		t.Fatal(err)
	}
	want := projects.Cueue{
		Name: "vision", Generation: 3, ObservedGeneration: 2, Priority: 7, Policy: "FirstAllocating", Nodes: []string{"farm5", "farm6", "farm7"},
		Waiting: []projects.Waiting{{Name: "b", Namespace: "vision", UID: "2", Since: time.Date(2026, 11, 30, 8, 15, 0, 0, time.UTC)}, {Name: "a", Namespace: "vision", UID: "1"}},
		Blocks:  []projects.Block{{Type: projects.HeadBlocked, Reason: "Unschedulable", Message: "0/3 nodes"}},
	}
	if diff := cmp.Diff(want, queue); diff != "" {
		t.Errorf("queue (-want +got)\n%s", diff)
	}
}
