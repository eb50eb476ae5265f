package controller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"config-server/internal/projects"
	"config-server/internal/projects/controller"
	"config-server/internal/projects/v1alpha1"
	"config-server/internal/testkit"
)

// TestQueueContract holds the rules of labels and annotations from which queues are made, on one cluster with one controller.
func TestQueueContract(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.run(t, s.options())
	for _, tc := range []struct {
		name string
		run  func(*testing.T, *stand)
	}{
		{"a gated node gets a label of each of its projects in one write, and keeps those of others", labelsOfANode},
		{"a node without the gate gets none, and loses its own when the gate goes", gateOfANode},
		{"a node that is unbound loses the label", unbinding},
		{"a namespace is made with the keys and belongs to the project", freshNamespace},
		{"a namespace that is there gets the keys and keeps everything else", presentNamespace},
		{"what is edited comes back without the project being touched", recovery},
		{"a project that is deleted takes its labels and keys along", deletion},
		{"while a project is being deleted its keys stay and nothing is made", beingDeleted},
		{"a second pass writes nothing", idempotency},
		// The last one: it changes the definition, which ends the watches of all.
		{"an over-long name is told and stops nobody else", overLongName},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, s) })
	}
}

func labelsOfANode(t *testing.T, s *stand) {
	sibling, old := "project-name.aipub.ten1010.io.x/other", "project-name.aipub.ten1010.io/gone"
	s.project(t, "label-b", "label-1")
	s.project(t, "label-a", "label-1")
	s.settled(t, "label-a", projects.ConditionDanglingNodes)
	s.settled(t, "label-b", projects.ConditionDanglingNodes)
	begin := len(s.writes.since(0))
	s.node(t, "label-1", true, map[string]string{sibling: "x", old: "", "disk": "ssd"})
	s.projectLabels(t, "label-1", "label-a", "label-b")
	n := named[corev1.Node]("label-1")
	s.get(t, n)
	if n.Labels[sibling] != "x" || n.Labels["disk"] != "ssd" {
		t.Errorf("labels of others have changed: %v", n.Labels)
	}
	s.pass(t)
	var writes []written
	for _, w := range s.writes.since(begin) {
		if strings.HasSuffix(w.path, "/nodes/label-1") {
			writes = append(writes, w)
		}
	}
	if len(writes) != 1 {
		t.Fatalf("%d writes of the node, want one: %v", len(writes), writes)
	}
	var patch struct {
		Metadata struct{ Labels map[string]*string }
	}
	if err := json.Unmarshal([]byte(writes[0].body), &patch); err != nil {
		t.Fatal(err)
	}
	if value, there := patch.Metadata.Labels[old]; !there || value != nil {
		t.Errorf("the stale label is not a null: %s", writes[0].body)
	}
}

func gateOfANode(t *testing.T, s *stand) {
	s.project(t, "gate", "gate-1", "gate-2")
	n := s.node(t, "gate-1", false, nil)
	s.node(t, "gate-2", false, map[string]string{projects.DefaultKeys().Gate: "false", projects.DefaultKeys().OfNode("gate"): ""})
	s.projectLabels(t, "gate-2")
	s.pass(t)
	s.projectLabels(t, "gate-1")
	s.patch(t, n, `{"metadata":{"labels":{"project.aipub.ten1010.io/project-managed":"true"}}}`)
	s.projectLabels(t, "gate-1", "gate")
	s.patch(t, n, `{"metadata":{"labels":{"project.aipub.ten1010.io/project-managed":null}}}`)
	s.projectLabels(t, "gate-1")
}

func unbinding(t *testing.T, s *stand) {
	s.node(t, "unbind-1", true, map[string]string{"gpu": "a6000"})
	s.node(t, "unbind-2", true, nil)
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "unbind"}, Spec: v1alpha1.NodeGroupSpec{NodeSelector: map[string]string{"gpu": "a6000"}}}
	s.create(t, group)
	p := s.project(t, "unbind", "unbind-2")
	s.patch(t, p, `{"spec":{"binding":{"nodeGroups":["unbind"]}}}`)
	s.projectLabels(t, "unbind-1", "unbind")
	s.projectLabels(t, "unbind-2", "unbind")
	s.patch(t, group, `{"spec":{"nodeSelector":{"gpu":"h100"}}}`)
	s.projectLabels(t, "unbind-1")
	s.patch(t, p, `{"spec":{"binding":{"nodes":null}}}`)
	s.projectLabels(t, "unbind-2")
}

func freshNamespace(t *testing.T, s *stand) {
	p := s.project(t, "fresh")
	n := s.keyed(t, "fresh")
	if len(n.OwnerReferences) != 1 || n.OwnerReferences[0].UID != p.UID || n.OwnerReferences[0].Kind != "Project" {
		t.Errorf("owner references are %+v, want the project", n.OwnerReferences)
	}
}

func presentNamespace(t *testing.T, s *stand) {
	const enqueue = "cueue.coaster.ten1010.io/auto-enqueue"
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "present", Labels: map[string]string{"team": "x", enqueue: "whatever"}, Annotations: map[string]string{"note": "y"}}})
	s.project(t, "present")
	n := s.keyed(t, "present")
	if n.Labels["team"] != "x" || n.Labels[enqueue] != "whatever" || n.Annotations["note"] != "y" {
		t.Errorf("what others wrote has changed: %v %v", n.Labels, n.Annotations)
	}
	if len(n.OwnerReferences) > 0 {
		t.Errorf("a namespace that was there has an owner: %+v", n.OwnerReferences)
	}
	s.delete(t, named[v1alpha1.Project]("present"))
	unkeyed(t, s, "present")
	s.get(t, n)
	if n.Labels["team"] != "x" || n.Labels[enqueue] != "whatever" || n.Annotations["note"] != "y" {
		t.Errorf("what others wrote has changed: %v %v", n.Labels, n.Annotations)
	}
	for _, w := range s.writes.since(0) {
		if strings.Contains(w.body, "auto-enqueue") {
			t.Errorf("a write names auto-enqueue: %v", w)
		}
	}
}

// unkeyed waits until a namespace has none of our keys.
func unkeyed(t *testing.T, s *stand, name string) {
	t.Helper()
	testkit.WaitFor(t, patience, "the keys to go from "+name, func(ctx context.Context) error {
		n := named[corev1.Namespace](name)
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		k := projects.DefaultKeys()
		if n.Labels[k.Namespace]+n.Labels[k.Provisioning]+n.Annotations[k.Selector] != "" {
			return fmt.Errorf("labels are %v, annotations %v", n.Labels, n.Annotations)
		}
		return nil
	})
}

func recovery(t *testing.T, s *stand) {
	s.node(t, "recover-1", true, nil)
	s.project(t, "recover", "recover-1")
	n := s.keyed(t, "recover")
	s.projectLabels(t, "recover-1", "recover")
	before := s.settled(t, "recover", projects.ConditionReady)
	for name, edit := range map[string]string{
		"label edited":       `{"metadata":{"labels":{"cueue.coaster.ten1010.io/provisioning-enabled":"false"}}}`,
		"label deleted":      `{"metadata":{"labels":{"project.aipub.ten1010.io/project":null}}}`,
		"annotation edited":  `{"metadata":{"annotations":{"cueue.coaster.ten1010.io/node-selector":"other"}}}`,
		"annotation deleted": `{"metadata":{"annotations":{"cueue.coaster.ten1010.io/node-selector":null}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s.patch(t, n, edit)
			s.keyed(t, "recover")
		})
	}
	s.patch(t, n, `{"metadata":{"ownerReferences":null}}`)
	testkit.WaitFor(t, patience, "the owner reference", func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err
		}
		if len(n.OwnerReferences) != 1 || n.OwnerReferences[0].UID != before.UID {
			return fmt.Errorf("owner references are %+v", n.OwnerReferences)
		}
		return nil
	})
	node := named[corev1.Node]("recover-1")
	s.patch(t, node, `{"metadata":{"labels":{"project-name.aipub.ten1010.io/recover":null}}}`)
	s.projectLabels(t, "recover-1", "recover")
	s.patch(t, node, `{"metadata":{"labels":{"project-name.aipub.ten1010.io/recover":"edited","project-name.aipub.ten1010.io/stranger":""}}}`)
	s.projectLabels(t, "recover-1", "recover")
	after := named[v1alpha1.Project]("recover")
	s.get(t, after)
	if after.Generation != before.Generation {
		t.Errorf("the project was touched")
	}
}

func deletion(t *testing.T, s *stand) {
	s.node(t, "delete-1", true, nil)
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "delete"}})
	p := s.project(t, "delete", "delete-1")
	s.projectLabels(t, "delete-1", "delete")
	s.settled(t, "delete", projects.ConditionReady)
	s.delete(t, p)
	s.projectLabels(t, "delete-1")
	unkeyed(t, s, "delete")
}

func beingDeleted(t *testing.T, s *stand) {
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}})
	made := func(name string) *v1alpha1.Project {
		p := named[v1alpha1.Project](name)
		p.Finalizers = []string{"test.example/hold"}
		return p
	}
	p := made("ending")
	s.create(t, p)
	s.settled(t, "ending", projects.ConditionReady)
	n := s.keyed(t, "ending")
	s.delete(t, p)
	s.patch(t, n, `{"metadata":{"annotations":{"cueue.coaster.ten1010.io/node-selector":null}}}`)
	s.keyed(t, "ending")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ending", Name: "project-ending"}}
	s.patch(t, p, `{"spec":{"quota":{"hard":{"pods":"3"}}}}`)
	s.pass(t)
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(quota), quota); !apierrors.IsNotFound(err) {
		t.Errorf("a quota is made for a project that is being deleted: %v", err)
	}
	s.patch(t, p, `{"metadata":{"finalizers":null}}`)
	unkeyed(t, s, "ending")
}

func overLongName(t *testing.T, s *stand) {
	definition := new(unstructured.Unstructured)
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName("projects.ailab.io")
	s.get(t, definition)
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "x-kubernetes-validations")
	if err := unstructured.SetNestedSlice(definition.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Update(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 64)
	testkit.WaitFor(t, patience, "a project with a name that is too long", func(ctx context.Context) error {
		p := named[v1alpha1.Project](long)
		p.Spec.Binding.Nodes = []string{"long-1"}
		return s.client.Create(ctx, p)
	})
	s.project(t, "short", "long-1")
	s.node(t, "long-1", true, nil)
	s.settled(t, long, projects.ConditionNameTooLong)
	s.projectLabels(t, "long-1", "short")
}

func idempotency(t *testing.T, s *stand) {
	s.pass(t)
	s.pass(t)
	begin := len(s.writes.since(0))
	for range 2 {
		if err := controller.Once(t.Context(), s.options()); err != nil {
			t.Fatal(err)
		}
	}
	if writes := s.writes.since(begin); len(writes) > 0 {
		t.Errorf("%d writes in passes over what is as it should be: %v", len(writes), writes)
	}
	var faults []error
	for _, w := range s.writes.since(0) {
		if w.method == "PATCH" && !strings.Contains(w.body, `"resourceVersion":"`) {
			faults = append(faults, errors.New(w.String()))
		}
	}
	if len(faults) > 0 || !slices.ContainsFunc(s.writes.since(0), func(w written) bool { return w.method == "PATCH" }) {
		t.Errorf("patches without a precondition: %v", errors.Join(faults...))
	}
}
