// Package reader looks at projects on demand: it reads what the rules of package projects judge, and keeps nothing.
package reader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/projects"
)

// Cluster reads from the API server. farm.IsForbidden tells an error that means a missing right.
type Cluster interface {
	// Object reads what is under a path, as JSON; false if there is nothing.
	Object(ctx context.Context, path string) ([]byte, bool, error)
	// NodeResources lists the nodes with their labels.
	NodeResources(ctx context.Context) ([]corev1.Node, error)
}

// Source lists all projects.
type Source interface {
	Projects(ctx context.Context) ([]projects.Project, error)
}

// Options of a Reader. Cluster is needed.
type Options struct {
	Cluster Cluster
	// Source has the projects; nil = the cluster has them, as objects.
	Source Source
	Keys   projects.Keys
	// Reserved are names that projects may not have, as projects.Reserved takes them.
	Reserved []string
}

// Reader looks at projects. It is safe for concurrent use.
type Reader struct{ opts Options }

// New returns a Reader.
func New(opts Options) *Reader {
	if opts.Source == nil {
		opts.Source = objects{opts.Cluster}
	}
	return &Reader{opts}
}

// Listed is a project with what is bound to it.
type Listed struct {
	projects.Project
	Nodes []string // names, sorted; nil if nobody knows
}

// List lists the projects by name. The warnings say what could not be read.
func (r *Reader) List(ctx context.Context) ([]Listed, []string, error) {
	all, err := r.projects(ctx)
	if err != nil {
		return nil, nil, err
	}
	var warnings []string
	nodes, err := r.nodes(ctx)
	if err != nil {
		warnings = append(warnings, "the nodes of projects are not known: "+err.Error())
	}
	groups, groupErr := r.groups(ctx)
	if groupErr != nil {
		warnings = append(warnings, "the nodes of node groups are left out: "+groupErr.Error())
	}
	listed := make([]Listed, len(all))
	for i, p := range all {
		listed[i].Project = p
		if err != nil {
			continue
		}
		listed[i].Nodes = []string{}
		for _, n := range projects.Bind(p, groups, nodes).Nodes {
			listed[i].Nodes = append(listed[i].Nodes, n.Name)
		}
	}
	return listed, warnings, nil
}

// Check tells line by line what a project's queue needs. A project that does not exist is farm.NotFound; what cannot be read is told
// in its line.
func (r *Reader) Check(ctx context.Context, name string) ([]projects.Line, error) {
	project, err := r.project(ctx, name)
	if err != nil {
		return nil, err
	}
	facts := projects.Facts{Project: project, Reserved: r.opts.Reserved, Unread: map[projects.Part]string{}}
	if facts.Nodes, err = r.nodes(ctx); err != nil {
		facts.Unread[projects.PartNodes] = err.Error()
	}
	if len(project.Binding.NodeGroups) > 0 {
		if facts.Groups, err = r.groups(ctx); err != nil {
			facts.Unread[projects.PartNodes] = err.Error()
		}
	}
	if projects.BadName(name, r.opts.Keys) == "" {
		r.readNamespace(ctx, &facts)
		r.readCueue(ctx, &facts)
	}
	return projects.Check(facts, r.opts.Keys), nil
}

// Queue is what waits in a project's queue. Without a queue it is farm.NotFound with the first line of the check that failed.
func (r *Reader) Queue(ctx context.Context, name string) (projects.Cueue, error) {
	project, err := r.project(ctx, name)
	if err != nil {
		return projects.Cueue{}, err
	}
	facts := projects.Facts{Project: project, Unread: map[projects.Part]string{}}
	if projects.BadName(name, r.opts.Keys) == "" {
		r.readCueue(ctx, &facts)
	}
	if why, hidden := facts.Unread[projects.PartCueue]; hidden {
		return projects.Cueue{}, farm.Errorf(farm.Unavailable, "%s", why)
	}
	if facts.Cueue != nil {
		return *facts.Cueue, nil
	}
	lines, err := r.Check(ctx, name)
	if err != nil {
		return projects.Cueue{}, err
	}
	failure, found := projects.FirstFailure(lines)
	if !found { // it has been made meanwhile
		return projects.Cueue{}, farm.Errorf(farm.NotFound, "project %s has no queue yet", name)
	}
	return projects.Cueue{}, farm.Errorf(farm.NotFound, "project %s has no queue: %s: %s; %s", name, failure.Name, failure.Text, failure.Todo)
}

// OfUser are the names of the projects that a login name is a member of, by name.
func (r *Reader) OfUser(ctx context.Context, user farm.UserName) ([]string, error) {
	all, err := r.projects(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range all {
		if p.Has(string(user)) {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// OfNodes are the projects of the nodes that bear the labels of any, by name.
func (r *Reader) OfNodes(ctx context.Context) (map[farm.NodeName][]string, error) {
	nodes, err := r.nodes(ctx)
	if err != nil {
		return nil, err
	}
	of := map[farm.NodeName][]string{}
	for _, n := range nodes {
		if names := projects.ProjectsOf(n.Labels, r.opts.Keys); len(names) > 0 {
			of[farm.NodeName(n.Name)] = names
		}
	}
	return of, nil
}

func (r *Reader) projects(ctx context.Context) ([]projects.Project, error) {
	all, err := r.opts.Source.Projects(ctx)
	if err != nil {
		return nil, fmt.Errorf("read projects: %w", err)
	}
	return slices.SortedFunc(slices.Values(all), func(a, b projects.Project) int { return strings.Compare(a.Name, b.Name) }), nil
}

func (r *Reader) project(ctx context.Context, name string) (projects.Project, error) {
	all, err := r.projects(ctx)
	if err != nil {
		return projects.Project{}, &farm.Error{Kind: farm.Unavailable, Detail: err.Error(), Cause: err}
	}
	i := slices.IndexFunc(all, func(p projects.Project) bool { return p.Name == name })
	if i < 0 {
		return projects.Project{}, farm.Errorf(farm.NotFound, "no project %s", name)
	}
	return all[i], nil
}

func (r *Reader) nodes(ctx context.Context) ([]projects.Node, error) {
	all, err := r.opts.Cluster.NodeResources(ctx)
	if err != nil {
		return nil, err
	}
	nodes := make([]projects.Node, len(all))
	for i, n := range all {
		nodes[i] = projects.Node{Name: n.Name, Labels: n.Labels}
	}
	return nodes, nil
}

func (r *Reader) groups(ctx context.Context) ([]projects.NodeGroup, error) {
	return objects{r.opts.Cluster}.groups(ctx)
}

func (r *Reader) readNamespace(ctx context.Context, facts *projects.Facts) {
	text, found, err := r.opts.Cluster.Object(ctx, "/api/v1/namespaces/"+facts.Project.Name)
	if err == nil && found {
		var namespace corev1.Namespace
		if err = json.Unmarshal(text, &namespace); err == nil {
			facts.Namespace = &projects.Namespace{Labels: namespace.Labels, Annotations: namespace.Annotations}
		}
	}
	if err != nil {
		facts.Unread[projects.PartNamespace] = fmt.Sprintf("namespace %s cannot be read: %v", facts.Project.Name, err)
	}
}

// cueueGroup is the API's group of queues. Which version of it counts, the API server says.
const cueueGroup = "/apis/coaster.ten1010.io"

func (r *Reader) readCueue(ctx context.Context, facts *projects.Facts) {
	if err := r.findCueue(ctx, facts); err != nil {
		facts.Unread[projects.PartCueue] = fmt.Sprintf("queue %s cannot be read: %v", facts.Project.Name, err)
	}
}

func (r *Reader) findCueue(ctx context.Context, facts *projects.Facts) error {
	text, found, err := r.opts.Cluster.Object(ctx, cueueGroup)
	if err != nil {
		return err
	}
	if facts.NoQueues = !found; !found {
		return nil
	}
	var group struct{ PreferredVersion struct{ GroupVersion string } }
	if err := json.Unmarshal(text, &group); err != nil {
		return fmt.Errorf("read the API group of queues: %w", err)
	}
	text, found, err = r.opts.Cluster.Object(ctx, "/apis/"+group.PreferredVersion.GroupVersion+"/cueues/"+facts.Project.Name)
	if err != nil || !found {
		return err
	}
	queue, err := projects.ReadCueue(text)
	if err != nil {
		return err
	}
	facts.Cueue = &queue
	return nil
}
