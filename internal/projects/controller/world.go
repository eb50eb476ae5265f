package controller

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"config-server/internal/projects"
	"config-server/internal/projects/v1alpha1"
)

// shared lets lists be of the cache's own objects, which nobody here changes: a thousand nodes are not copied to look at their labels.
const shared = client.UnsafeDisableDeepCopy

// projectOf is a Project object as the rules take it.
func projectOf(o *v1alpha1.Project) projects.Project {
	p := projects.Project{
		Name: o.Name, Quota: o.Spec.Quota.Hard, Deleting: o.DeletionTimestamp != nil,
		Binding: projects.Binding{Nodes: o.Spec.Binding.Nodes, NodeGroups: o.Spec.Binding.NodeGroups},
	}
	for _, m := range o.Spec.Members {
		p.Members = append(p.Members, projects.Member{User: m.User, Subject: m.Subject, Role: projects.Role(m.Role)})
	}
	return p
}

func groupOf(o *v1alpha1.NodeGroup) projects.NodeGroup {
	return projects.NodeGroup{Name: o.Name, Nodes: o.Spec.Nodes, Selector: o.Spec.NodeSelector}
}

func nodeOf(o client.Object) projects.Node {
	return projects.Node{Name: o.GetName(), Labels: o.GetLabels()}
}

// projects lists all projects.
func (c *controller) projects(ctx context.Context) ([]projects.Project, error) {
	if c.opts.Source != nil {
		all, err := c.opts.Source.Projects(ctx)
		if err != nil {
			return nil, fmt.Errorf("list projects: %w", err)
		}
		return all, nil
	}
	var list v1alpha1.ProjectList
	if err := c.reader.List(ctx, &list, shared); err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	all := make([]projects.Project, len(list.Items))
	for i := range list.Items {
		all[i] = projectOf(&list.Items[i])
	}
	return all, nil
}

// project finds one project, and the object that it comes from if there is one. Without the project, both are nil.
func (c *controller) project(ctx context.Context, name string) (*projects.Project, *v1alpha1.Project, error) {
	if c.opts.Source == nil {
		var object v1alpha1.Project
		err := c.reader.Get(ctx, types.NamespacedName{Name: name}, &object)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil, nil
		case err != nil:
			return nil, nil, fmt.Errorf("get project %s: %w", name, err)
		}
		p := projectOf(&object)
		return &p, &object, nil
	}
	all, err := c.projects(ctx)
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(all, func(p projects.Project) bool { return p.Name == name })
	if i < 0 {
		return nil, nil, nil
	}
	return &all[i], nil, nil
}

func (c *controller) groups(ctx context.Context) ([]projects.NodeGroup, error) {
	var list v1alpha1.NodeGroupList
	if err := c.reader.List(ctx, &list, shared); err != nil {
		return nil, fmt.Errorf("list node groups: %w", err)
	}
	all := make([]projects.NodeGroup, len(list.Items))
	for i := range list.Items {
		all[i] = groupOf(&list.Items[i])
	}
	return all, nil
}

func (c *controller) nodes(ctx context.Context) ([]projects.Node, error) {
	var list corev1.NodeList
	if err := c.reader.List(ctx, &list, shared); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	all := make([]projects.Node, len(list.Items))
	for i := range list.Items {
		all[i] = nodeOf(&list.Items[i])
	}
	return all, nil
}

// bind finds the nodes of a project.
func (c *controller) bind(ctx context.Context, p projects.Project) (projects.Bound, error) {
	groups, err := c.groups(ctx)
	if err != nil {
		return projects.Bound{}, err
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return projects.Bound{}, err
	}
	return projects.Bind(p, groups, nodes), nil
}

// find reads an object into place; false if there is none.
func (c *controller) find(ctx context.Context, namespace, name string, into client.Object) (bool, error) {
	err := c.reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %s %s: %w", c.write.kindOf(into), name, err)
	}
	return true, nil
}
