package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"config-server/internal/projects"
	"config-server/internal/projects/v1alpha1"
)

// reconcileNode gives a node the labels of all projects that it is bound to, and their taints, in one write.
func (c *controller) reconcileNode(ctx context.Context, name string) (reconcile.Result, error) {
	var before corev1.Node
	if found, err := c.find(ctx, "", name, &before); !found {
		return reconcile.Result{}, err
	}
	all, err := c.projects(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	groups, err := c.groups(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	settings := c.opts.Settings
	after := before.DeepCopy()
	after.Labels = projects.NodeLabels(before.Labels, projects.BoundTo(nodeOf(&before), all, groups, settings), settings.Keys)
	taints := projects.Taints(before.Spec.Taints, after.Labels, settings.Isolation, settings.Keys)
	if !projects.SameTaints(before.Spec.Taints, taints) {
		after.Spec.Taints = taints
	}
	return c.later(ctx, "node", name, c.write.patch(ctx, &before, after))
}

// reconcileGroup tells in a node group's status which nodes it has.
func (c *controller) reconcileGroup(ctx context.Context, name string) (reconcile.Result, error) {
	var before v1alpha1.NodeGroup
	if found, err := c.find(ctx, "", name, &before); !found {
		return reconcile.Result{}, err
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	only := projects.Project{Binding: projects.Binding{NodeGroups: []string{name}}}
	bound := projects.Bind(only, []projects.NodeGroup{groupOf(&before)}, nodes)
	after := before.DeepCopy()
	after.Status.ObservedGeneration = before.Generation
	after.Status.Nodes, after.Status.NodeCount = namesOf(bound.Nodes), int64(len(bound.Nodes))
	setConditions(&after.Status.Conditions, before.Generation, projects.Conditions(projects.Project{Name: name}, bound, projects.Settings{Keys: c.opts.Settings.Keys}))
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return reconcile.Result{}, nil
	}
	return c.later(ctx, "node group", name, c.write.patchStatus(ctx, &before, after))
}

// later has what may not be done tried again after a while only: nothing but an administrator changes a missing right.
func (c *controller) later(ctx context.Context, kind, name string, err error) (reconcile.Result, error) {
	if !apierrors.IsForbidden(err) {
		return reconcile.Result{}, err
	}
	c.log.WarnContext(ctx, "a right is missing", "kind", kind, "name", name, "error", err)
	return reconcile.Result{RequeueAfter: c.opts.Patience}, nil
}

func namesOf(nodes []projects.Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}
