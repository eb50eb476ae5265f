package controller_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"config-server/internal/projects"
	"config-server/internal/projects/v1alpha1"
	"config-server/internal/testkit"
)

// TestRights asks the API server as real users what they may do, on one cluster with one controller that has the chart's rights.
func TestRights(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.run(t, s.options())
	for _, name := range []string{"mine", "other"} {
		p := named[v1alpha1.Project](name)
		p.Spec.Members = []v1alpha1.Member{
			{User: name + "-manager", Role: "manager"}, {Subject: "system:serviceaccount:bots:" + name, Role: "manager"}, {User: name + "-member", Role: "member"},
			{User: name + "-owner", Role: "owner"},
		}
		p.Spec.Quota.Hard = quantities("pods", "10")
		s.create(t, p)
		queue := new(unstructured.Unstructured)
		queue.SetAPIVersion("coaster.ten1010.io/v1alpha1")
		queue.SetKind("Cueue")
		queue.SetName(name)
		s.create(t, queue)
	}
	for _, name := range []string{"mine", "other"} {
		p := s.settled(t, name, projects.ConditionUnknownRoles)
		if p.Status.MemberCount != 3 {
			t.Errorf("%s: members are %+v", name, p.Status.Members)
		}
		s.settled(t, name, projects.ConditionReady)
	}
	t.Run("matrix", func(t *testing.T) { rightsMatrix(t, s) })
	t.Run("without nodes no node can be read, with one that one alone", func(t *testing.T) { emptyLists(t, s) })
	t.Run("a roleRef that was changed comes back", func(t *testing.T) { roleRefDrift(t, s) })
	t.Run("subjects compare as a set", func(t *testing.T) { subjectsAsSet(t, s) })
	t.Run("what is missing is told, without a hot loop, and the rest goes on", func(t *testing.T) { missingRight(t, s) })
}

// rightsMatrix: role x verb x own and other project, of queue, project, namespace and what is in it.
func rightsMatrix(t *testing.T, s *stand) {
	const none, read, manage = "", "get", "get patch update"
	all, some := "create delete deletecollection get list patch update watch", "create get list watch"
	verbs := strings.Fields(all)
	for _, tc := range []struct {
		group, resource string
		namespaced      bool
		manager, member string
	}{
		{"coaster.ten1010.io", "cueues", false, manage, read},
		{"ailab.io", "projects", false, manage, read},
		{"", "namespaces", false, read, read},
		{"", "nodes", false, none, none},
		{"", "pods", true, all, some},
		{"", "secrets", true, all, some},
		{"apps", "deployments", true, all, some},
		{"", "persistentvolumeclaims", true, all, some},
		{"", "resourcequotas", true, "get list watch", "get list watch"},
		{"rbac.authorization.k8s.io", "roles", true, none, none},
	} {
		for user, allowed := range map[string]string{
			"oidc:mine-manager": tc.manager, "system:serviceaccount:bots:mine": tc.manager, "oidc:mine-member": tc.member, "oidc:mine-owner": none, "oidc:stranger": none, "mine-manager": none,
		} {
			asked := s.clientOf(t, user)
			for _, verb := range verbs {
				for project, may := range map[string]bool{"mine": slices.Contains(strings.Fields(allowed), verb), "other": false} {
					err := ask(t.Context(), asked, verb, tc.group, tc.resource, tc.namespaced, project)
					if got := !apierrors.IsForbidden(err); got != may {
						t.Errorf("%s may %s %s of %s: %t, want %t (%v)", user, verb, tc.resource, project, got, may, err)
					}
				}
			}
		}
	}
}

func (s *stand) clientOf(t *testing.T, user string) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(s.as(user), client.Options{Scheme: s.client.Scheme(), Mapper: s.client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask makes a real request, as a dry run where it would write. Any answer but Forbidden means that it is allowed.
func ask(ctx context.Context, c client.WithWatch, verb, group, resource string, namespaced bool, project string) error {
	kinds, err := c.RESTMapper().KindsFor(groupResource(group, resource))
	if err != nil {
		return err
	}
	object := new(unstructured.Unstructured)
	object.SetGroupVersionKind(kinds[0])
	list := new(unstructured.UnstructuredList)
	list.SetGroupVersionKind(kinds[0])
	object.SetName(project)
	namespace := ""
	if namespaced {
		namespace = project
		object.SetNamespace(namespace)
	}
	switch verb {
	case "get":
		return c.Get(ctx, client.ObjectKeyFromObject(object), object)
	case "list":
		return c.List(ctx, list, client.InNamespace(namespace))
	case "watch":
		w, err := c.Watch(ctx, list, client.InNamespace(namespace))
		if err == nil {
			w.Stop()
		}
		return err
	case "create":
		return c.Create(ctx, object, client.DryRunAll)
	case "update":
		object.SetResourceVersion("1")
		return c.Update(ctx, object, client.DryRunAll)
	case "patch":
		return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
	case "delete":
		return c.Delete(ctx, object, client.DryRunAll)
	default:
		return c.DeleteAllOf(ctx, object, client.InNamespace(namespace), client.DryRunAll)
	}
}

func emptyLists(t *testing.T, s *stand) {
	s.node(t, "rights-1", false, nil)
	s.node(t, "rights-2", false, nil)
	asked := s.clientOf(t, "oidc:mine-manager")
	for _, name := range []string{"rights-1", "rights-2"} {
		if err := ask(t.Context(), asked, "get", "", "nodes", false, name); !apierrors.IsForbidden(err) {
			t.Errorf("a project without nodes gives the right to get %s: %v", name, err)
		}
	}
	p := named[v1alpha1.Project]("mine")
	s.patch(t, p, `{"spec":{"binding":{"nodes":["rights-1"]}}}`)
	testkit.WaitFor(t, patience, "the right to get the bound node", func(ctx context.Context) error {
		return ask(ctx, asked, "get", "", "nodes", false, "rights-1")
	})
	if err := ask(t.Context(), asked, "get", "", "nodes", false, "rights-2"); !apierrors.IsForbidden(err) {
		t.Errorf("a node that is not bound can be read: %v", err)
	}
	s.patch(t, p, `{"spec":{"binding":{"nodes":[]}}}`)
	testkit.WaitFor(t, patience, "the right to be taken", func(ctx context.Context) error {
		for _, name := range []string{"rights-1", "rights-2"} {
			if err := ask(ctx, asked, "get", "", "nodes", false, name); !apierrors.IsForbidden(err) {
				return fmt.Errorf("%s can be read: %v", name, err)
			}
		}
		return nil
	})
}

func roleRefDrift(t *testing.T, s *stand) {
	name := projects.RightsName(projects.PlainMember, "mine")
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: name}}
	s.get(t, binding)
	s.delete(t, binding)
	// Whoever is faster wins; the controller has the last word either way.
	drifted := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	testkit.WaitFor(t, patience, "a binding to another role", func(ctx context.Context) error {
		err := s.client.Create(ctx, drifted.DeepCopy())
		if apierrors.IsAlreadyExists(err) {
			return errors.Join(err, client.IgnoreNotFound(s.client.Delete(ctx, drifted.DeepCopy())))
		}
		return err
	})
	testkit.WaitFor(t, patience, "the roleRef to come back", func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(binding), binding); err != nil {
			return err
		}
		if binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != name || len(binding.Subjects) != 1 {
			return fmt.Errorf("it is %+v for %+v", binding.RoleRef, binding.Subjects)
		}
		return nil
	})
}

func subjectsAsSet(t *testing.T, s *stand) {
	name := projects.RightsName(projects.Manager, "mine")
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: name}}
	s.get(t, binding)
	if len(binding.Subjects) != 2 {
		t.Fatalf("subjects are %+v", binding.Subjects)
	}
	begin := len(s.writes.since(0))
	slices.Reverse(binding.Subjects)
	if err := s.client.Update(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	s.pass(t)
	for _, w := range s.writes.since(begin) {
		if strings.Contains(w.path, "rolebindings/"+name) {
			t.Errorf("another order of subjects is written back: %v", w)
		}
	}
	s.patch(t, binding, `{"subjects":[]}`)
	testkit.WaitFor(t, patience, "the subjects to come back", func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(binding), binding); err != nil {
			return err
		}
		if len(binding.Subjects) != 2 {
			return fmt.Errorf("subjects are %+v", binding.Subjects)
		}
		return nil
	})
}

// missingRight takes from the controller what it has to grant: the API server then refuses the role.
func missingRight(t *testing.T, s *stand) {
	role := named[rbacv1.ClusterRole]("containerssh-config-server-controller")
	s.get(t, role)
	whole := slices.Clone(role.Rules)
	role.Rules = slices.DeleteFunc(slices.Clone(whole), func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "cueues") })
	if len(role.Rules) == len(whole) {
		t.Fatal("the controller holds no right on cueues")
	}
	if err := s.client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	s.node(t, "missing-1", true, nil)
	p := named[v1alpha1.Project]("missing")
	p.Spec.Binding.Nodes = []string{"missing-1"}
	p.Spec.Quota.Hard = quantities("pods", "5")
	s.create(t, p)
	p = s.settled(t, "missing", projects.ConditionForbidden)
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == projects.ConditionForbidden && !strings.Contains(c.Message, projects.RightsName(projects.Manager, "missing")):
			t.Errorf("the condition does not say what is refused: %s", c.Message)
		case c.Type == projects.ConditionReady && c.Status != metav1.ConditionFalse:
			t.Error("the project is ready without its rights")
		}
	}
	// The rest goes on: labels, namespace, quota, rights in the namespace.
	s.projectLabels(t, "missing-1", "missing")
	s.keyed(t, "missing")
	testkit.WaitFor(t, patience, "the rest", func(ctx context.Context) error {
		return errors.Join(
			s.client.Get(ctx, types.NamespacedName{Namespace: "missing", Name: "project-missing"}, new(corev1.ResourceQuota)),
			s.client.Get(ctx, types.NamespacedName{Namespace: "missing", Name: projects.RightsName(projects.Manager, "missing")}, new(rbacv1.RoleBinding)))
	})
	testkit.WaitFor(t, patience, "the event", func(ctx context.Context) error {
		events, err := s.Admin(t).EventsV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Regarding.Name == "missing" && e.Reason == projects.ConditionForbidden {
				return nil
			}
		}
		return fmt.Errorf("none among %d events", len(events.Items))
	})
	begin := len(s.writes.since(0))
	s.patch(t, named[corev1.Namespace]("missing"), `{"metadata":{"labels":{"touched":"once"}}}`)
	role.Rules = whole
	s.get(t, role)
	role.Rules = whole
	if err := s.client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	s.pass(t)
	tries := 0
	for _, w := range s.writes.since(begin) {
		if w.method == "POST" && strings.HasSuffix(w.path, "/clusterroles") && strings.Contains(w.body, `:missing"`) {
			tries++
		}
	}
	// Two roles, at each look: there may have been one for the touch, and one more for what that look changed.
	if tries > 8 {
		t.Errorf("%d tries while the right was missing: a hot loop", tries)
	}
	// Given back, the right is used at the next reason to look, or after a minute.
	s.patch(t, named[corev1.Namespace]("missing"), `{"metadata":{"labels":{"touched":"twice"}}}`)
	testkit.WaitFor(t, patience, "the condition to go", func(ctx context.Context) error {
		p := named[v1alpha1.Project]("missing")
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool { return c.Type == projects.ConditionForbidden }) {
			return fmt.Errorf("conditions are %+v", p.Status.Conditions)
		}
		return nil
	})
}
