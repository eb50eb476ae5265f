package projects

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// Settings are what the rules need to know beside projects, node groups and nodes.
type Settings struct {
	Keys Keys
	// UserPrefix and a login name behind it are an RBAC user.
	UserPrefix string
	// Reserved are names that projects may not have, as Reserved takes them.
	Reserved []string
	// QueueList lets members list their own queue by its name too.
	QueueList bool
	Isolation Isolation // empty = off
}

// Usable reports whether anything is made for a project of this name.
func (s Settings) Usable(name string) bool {
	return BadName(name, s.Keys) == "" && !Reserved(name, s.Reserved)
}

// RBACUser is the user of RBAC that a member is.
func (s Settings) RBACUser(m Member) string {
	if m.Subject != "" {
		return m.Subject
	}
	return s.UserPrefix + m.User
}

// Holds reports whether a node is in the group: by its name, or by its labels if the selector is not empty.
func (g NodeGroup) Holds(node Node) bool {
	if slices.Contains(g.Nodes, node.Name) {
		return true
	}
	return len(g.Selector) > 0 && labels.SelectorFromSet(g.Selector).Matches(labels.Set(node.Labels))
}

// BoundTo are the projects that a node is bound to, by name, each once. Those that nothing is made for are left out.
func BoundTo(node Node, all []Project, groups []NodeGroup, s Settings) []string {
	holding := make(map[string]bool, len(groups))
	for _, g := range groups {
		holding[g.Name] = g.Holds(node)
	}
	var bound []string
	for _, p := range all {
		inGroup := func(group string) bool { return holding[group] }
		if (slices.Contains(p.Binding.Nodes, node.Name) || slices.ContainsFunc(p.Binding.NodeGroups, inGroup)) && s.Usable(p.Name) {
			bound = append(bound, p.Name)
		}
	}
	slices.Sort(bound)
	return slices.Compact(bound)
}

// NodeLabels are the labels that a node shall have: those of others as they are, and one for each project that it is bound to. Those
// of projects go before the gate is looked at, so that a node that leaves management loses them; without the gate none is added.
func NodeLabels(has map[string]string, bound []string, keys Keys) map[string]string {
	shall := maps.Clone(has)
	maps.DeleteFunc(shall, func(key, _ string) bool { return strings.HasPrefix(key, keys.NodePrefix) })
	if has[keys.Gate] != on {
		return shall
	}
	for _, name := range bound {
		shall[keys.OfNode(name)] = ""
	}
	return shall
}

// NamespaceKeys are the labels and annotations that a project's namespace shall have: those of others as they are, and ours if there
// is the project, else none of ours.
func NamespaceKeys(has Namespace, project string, exists bool, keys Keys) Namespace {
	shall := Namespace{Labels: maps.Clone(has.Labels), Annotations: maps.Clone(has.Annotations)}
	if !exists {
		delete(shall.Labels, keys.Namespace)
		delete(shall.Labels, keys.Provisioning)
		delete(shall.Annotations, keys.Selector)
		return shall
	}
	if shall.Labels == nil {
		shall.Labels = map[string]string{}
	}
	if shall.Annotations == nil {
		shall.Annotations = map[string]string{}
	}
	shall.Labels[keys.Namespace] = project
	shall.Labels[keys.Provisioning] = on
	shall.Annotations[keys.Selector] = keys.OfNode(project)
	return shall
}

// QuotaName is the name of the ResourceQuota of a project.
func QuotaName(project string) string { return "project-" + project }
