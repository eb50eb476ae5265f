// Package projects has the rules of projects, which are teams with nodes and a quota: which nodes are bound to one, what its queue
// needs before another product makes it, and why it has none. They are pure functions; nothing here asks anybody. docs/projects.md
// has the rules and names the test of each.
package projects

import (
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Role is what a member may do in a project.
type Role string

// The roles. Any other gives no right.
const (
	Manager     Role = "manager"
	PlainMember Role = "member"
)

// Member is somebody in a project. Exactly one of User and Subject is set.
type Member struct {
	User    string // login name; the RBAC user is PROJECT_USER_PREFIX with it behind
	Subject string // RBAC user, as it is
	Role    Role
}

// Name is User, or Subject where that is set.
func (m Member) Name() string {
	if m.User != "" {
		return m.User
	}
	return m.Subject
}

// Binding says which nodes are a project's.
type Binding struct {
	Nodes      []string // names
	NodeGroups []string // names of node groups
}

// Project is a team, wherever it is written down.
type Project struct {
	Name    string // the name of its namespace too
	Members []Member
	Binding Binding
	Quota   map[string]resource.Quantity // resource name -> hard limit of the namespace; empty = no quota
	// Deleting is set while the project's object is being deleted.
	Deleting bool
}

// Has reports whether a login name is a member, in whatever role.
func (p Project) Has(user string) bool {
	return slices.ContainsFunc(p.Members, func(m Member) bool { return m.User == user && user != "" })
}

// NodeGroup is a set of nodes under a name.
type NodeGroup struct {
	Name  string
	Nodes []string // names
	// Selector are labels that a node has to bear, all of them; empty selects nothing.
	Selector map[string]string
}

// Node is what the rules look at of a node.
type Node struct {
	Name   string
	Labels map[string]string
}

// Keys are the keys of labels and annotations by which a queue comes to be.
type Keys struct {
	NodePrefix   string // begins the key of a node's label, which ends in the project's name; it ends in "/"
	Gate         string // node label "true": the node may be labelled
	Managed      string // node label "true": the node counts for queues
	Namespace    string // namespace label with the project's name
	Provisioning string // namespace label "true": a queue is wanted
	Selector     string // namespace annotation with the node label's key
}

// DefaultKeys are those of AIPub and Coaster.
func DefaultKeys() Keys {
	return Keys{
		NodePrefix: "project-name.aipub.ten1010.io/", Gate: "project.aipub.ten1010.io/project-managed", Managed: "cueue.coaster.ten1010.io/managed",
		Namespace: "project.aipub.ten1010.io/project", Provisioning: "cueue.coaster.ten1010.io/provisioning-enabled", Selector: "cueue.coaster.ten1010.io/node-selector",
	}
}

// OfNode is the key of the label that a project's nodes bear.
func (k Keys) OfNode(project string) string { return k.NodePrefix + project }

// on is the value of labels that switch something on.
const on = "true"

// Bound are the nodes of a project.
type Bound struct {
	Nodes []Node // that exist, by name, each once
	// NoNodes and NoGroups are names in the binding, and in its groups, that nothing has.
	NoNodes, NoGroups []string
}

// Bind finds the nodes of a project: those that its binding names, and those of each node group that it names.
func Bind(p Project, groups []NodeGroup, nodes []Node) Bound {
	byName := make(map[string]Node, len(nodes))
	for _, n := range nodes {
		byName[n.Name] = n
	}
	found, missing, noGroup := map[string]Node{}, map[string]bool{}, map[string]bool{}
	take := func(names []string) {
		for _, name := range names {
			if n, ok := byName[name]; ok {
				found[name] = n
			} else {
				missing[name] = true
			}
		}
	}
	take(p.Binding.Nodes)
	for _, name := range p.Binding.NodeGroups {
		i := slices.IndexFunc(groups, func(g NodeGroup) bool { return g.Name == name })
		if i < 0 {
			noGroup[name] = true
			continue
		}
		take(groups[i].Nodes)
		if len(groups[i].Selector) == 0 {
			continue
		}
		selector := labels.SelectorFromSet(groups[i].Selector)
		for _, n := range nodes {
			if selector.Matches(labels.Set(n.Labels)) {
				found[n.Name] = n
			}
		}
	}
	bound := Bound{NoNodes: slices.Sorted(maps.Keys(missing)), NoGroups: slices.Sorted(maps.Keys(noGroup))}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		bound.Nodes = append(bound.Nodes, found[name])
	}
	return bound
}

// BadName tells why no namespace or label can bear a project's name; empty = they can.
func BadName(name string, keys Keys) string {
	if faults := validation.IsDNS1123Label(name); len(faults) > 0 {
		return strings.Join(faults, "; ")
	}
	if faults := validation.IsQualifiedName(keys.OfNode(name)); len(faults) > 0 {
		return "the node label " + keys.OfNode(name) + ": " + strings.Join(faults, "; ")
	}
	return ""
}

// Reserved reports whether a name is one of the patterns, which are names that may end in "*".
func Reserved(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}
