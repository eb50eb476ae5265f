package controller

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"config-server/internal/projects"
	"config-server/internal/projects/v1alpha1"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// affects tells which names of another kind a change touches. before is nil for a new object, after for one that is gone.
type affects func(ctx context.Context, before, after client.Object) []string

// enqueue puts the names that a change touches into the queue. A failure to find them is told; the resync makes up for it.
func (c *controller) enqueue(which affects) handler.EventHandler {
	add := func(ctx context.Context, q queue, before, after client.Object) {
		for _, name := range which(ctx, before, after) {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, nil, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object, nil) },
		GenericFunc: func(ctx context.Context, e event.GenericEvent, q queue) {
			add(ctx, q, nil, e.Object)
		},
	}
}

// one is the state of an object that there is.
func one(before, after client.Object) client.Object {
	if after != nil {
		return after
	}
	return before
}

// itself touches the object's own name.
func itself(_ context.Context, before, after client.Object) []string {
	return []string{one(before, after).GetName()}
}

// nodeItself touches a node when something changes that labels and taints come from, and at each resync. What kubelet writes every few
// minutes does not.
func nodeItself(_ context.Context, before, after client.Object) []string {
	if before != nil && after != nil && before.GetResourceVersion() != after.GetResourceVersion() {
		old, now := before.(*corev1.Node), after.(*corev1.Node)
		if maps.Equal(old.Labels, now.Labels) && projects.SameTaints(old.Spec.Taints, now.Spec.Taints) {
			return nil
		}
	}
	return []string{one(before, after).GetName()}
}

// namespaceItself touches a project when something of its namespace changes that is ours to keep, and at each resync.
func namespaceItself(_ context.Context, before, after client.Object) []string {
	if before != nil && after != nil && before.GetResourceVersion() != after.GetResourceVersion() {
		same := maps.Equal(before.GetLabels(), after.GetLabels()) && maps.Equal(before.GetAnnotations(), after.GetAnnotations()) &&
			len(before.GetOwnerReferences()) == len(after.GetOwnerReferences()) && before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp())
		for i, reference := range before.GetOwnerReferences() {
			same = same && reference.UID == after.GetOwnerReferences()[i].UID
		}
		if same {
			return nil
		}
	}
	return []string{one(before, after).GetName()}
}

// ofRights touches the project whose role or binding it is.
func ofRights(_ context.Context, before, after client.Object) []string {
	if project, ours := projects.ProjectOfRights(one(before, after).GetName()); ours {
		return []string{project}
	}
	return nil
}

// ofQuota touches the project whose quota it is.
func ofQuota(_ context.Context, before, after client.Object) []string {
	quota := one(before, after)
	if quota.GetName() != projects.QuotaName(quota.GetNamespace()) {
		return nil
	}
	return []string{quota.GetNamespace()}
}

// projectsOfNode touches the projects that name a node, or whose groups hold it, where that changes.
func (c *controller) projectsOfNode(ctx context.Context, before, after client.Object) []string {
	all, err := c.projects(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "the projects of a node cannot be found", "error", err)
		return nil
	}
	groups, err := c.groups(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "the projects of a node cannot be found", "error", err)
		return nil
	}
	bound := func(o client.Object) []string {
		if o == nil {
			return nil
		}
		return projects.BoundTo(nodeOf(o), all, groups, c.opts.Settings)
	}
	return difference(bound(before), bound(after))
}

// groupsOfNode touches the node groups that hold a node, where that changes.
func (c *controller) groupsOfNode(ctx context.Context, before, after client.Object) []string {
	groups, err := c.groups(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "the groups of a node cannot be found", "error", err)
		return nil
	}
	holding := func(o client.Object) (names []string) {
		for _, g := range groups {
			if o != nil && g.Holds(nodeOf(o)) {
				names = append(names, g.Name)
			}
		}
		return names
	}
	return difference(holding(before), holding(after))
}

// difference are the names in one of the lists alone.
func difference(a, b []string) []string {
	var names []string
	for _, pair := range [][2][]string{{a, b}, {b, a}} {
		for _, name := range pair[0] {
			if !slices.Contains(pair[1], name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// projectsOfGroup touches the projects that name a node group. What is written into its status changes nothing for them.
func (c *controller) projectsOfGroup(ctx context.Context, before, after client.Object) []string {
	if before != nil && after != nil && before.GetGeneration() == after.GetGeneration() {
		return nil
	}
	return c.projectsNaming(ctx, one(before, after).GetName())
}

func (c *controller) projectsNaming(ctx context.Context, group string) []string {
	all, err := c.projects(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "the projects of a node group cannot be found", "error", err)
		return nil
	}
	var names []string
	for _, p := range all {
		if slices.Contains(p.Binding.NodeGroups, group) {
			names = append(names, p.Name)
		}
	}
	return names
}

// nodesOfGroup touches the nodes that a group holds or held, and those with a label of a project that names it.
func (c *controller) nodesOfGroup(ctx context.Context, before, after client.Object) []string {
	if before != nil && after != nil && before.GetGeneration() == after.GetGeneration() {
		return nil
	}
	group := one(before, after).GetName()
	naming := c.projectsNaming(ctx, group)
	var states []projects.NodeGroup
	for _, o := range []client.Object{before, after} {
		if o != nil {
			states = append(states, groupOf(o.(*v1alpha1.NodeGroup)))
		}
	}
	return c.nodesWhere(ctx, func(n projects.Node) bool {
		return slices.ContainsFunc(states, func(g projects.NodeGroup) bool { return g.Holds(n) }) ||
			slices.ContainsFunc(naming, func(p string) bool { return c.labelled(n, p) })
	})
}

// nodesOfProject touches the nodes that a project binds, and those that bear its label.
func (c *controller) nodesOfProject(ctx context.Context, before, after client.Object) []string {
	if before != nil && after != nil && before.GetGeneration() == after.GetGeneration() {
		return nil
	}
	p := projectOf(one(before, after).(*v1alpha1.Project))
	groups, err := c.groups(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "the nodes of a project cannot be found", "error", err)
		return nil
	}
	groups = slices.DeleteFunc(groups, func(g projects.NodeGroup) bool { return !slices.Contains(p.Binding.NodeGroups, g.Name) })
	return c.nodesWhere(ctx, func(n projects.Node) bool {
		return c.labelled(n, p.Name) || slices.Contains(p.Binding.Nodes, n.Name) || slices.ContainsFunc(groups, func(g projects.NodeGroup) bool { return g.Holds(n) })
	})
}

func (c *controller) labelled(n projects.Node, project string) bool {
	_, there := n.Labels[c.opts.Settings.Keys.OfNode(project)]
	return there
}

func (c *controller) nodesWhere(ctx context.Context, which func(projects.Node) bool) []string {
	nodes, err := c.nodes(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "the nodes of a project cannot be found", "error", err)
		return nil
	}
	return namesOf(slices.DeleteFunc(nodes, func(n projects.Node) bool { return !which(n) }))
}

// everything are the names of all projects that there are or have left something.
func (c *controller) everything(ctx context.Context) ([]string, error) {
	all, err := c.projects(ctx)
	if err != nil {
		return nil, err
	}
	var namespaces corev1.NamespaceList
	if err := c.reader.List(ctx, &namespaces, shared); err != nil {
		return nil, err
	}
	left, err := c.projectsWithRights(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		left = append(left, p.Name)
	}
	for _, n := range namespaces.Items {
		left = append(left, n.Name)
	}
	slices.SortFunc(left, strings.Compare)
	return slices.Compact(left), nil
}
