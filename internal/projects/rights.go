package projects

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// rightsPrefix begins the names of all roles and bindings of projects.
const rightsPrefix = "project.ailab.io:"

// Roles are the roles that give rights.
func Roles() []Role { return []Role{Manager, PlainMember} }

// RightsName is the name of the ClusterRole, the Role and both bindings of a role in a project.
func RightsName(role Role, project string) string { return rightsPrefix + string(role) + ":" + project }

// ProjectOfRights is the project whose rights bear a name; false if it is no such name.
func ProjectOfRights(name string) (string, bool) {
	rest, ours := strings.CutPrefix(name, rightsPrefix)
	_, project, whole := strings.Cut(rest, ":")
	return project, ours && whole && project != ""
}

// ClusterRules are the rights of a role outside its namespace: its project, its queue, its namespace and its nodes, each by name. A
// rule with no names would grant all of them, so a project without nodes has no rule on nodes.
func ClusterRules(role Role, p Project, bound Bound, s Settings) []rbacv1.PolicyRule {
	verbs := []string{"get"}
	if role == Manager {
		verbs = []string{"get", "patch", "update"}
	}
	queue := slices.Clone(verbs)
	if s.QueueList {
		queue = append(queue, "list")
	}
	rules := []rbacv1.PolicyRule{
		named("coaster.ten1010.io", "cueues", queue, p.Name),
		named("ailab.io", "projects", verbs, p.Name),
		named("", "namespaces", []string{"get"}, p.Name),
	}
	if nodes := names(bound.Nodes); len(nodes) > 0 {
		rules = append(rules, named("", "nodes", []string{"get"}, nodes...))
	}
	if groups := GroupsThatExist(p, bound); len(groups) > 0 {
		rules = append(rules, named("ailab.io", "nodegroups", []string{"get"}, groups...))
	}
	return CanonicalRules(rules)
}

// GroupsThatExist are the node groups of a project's binding but for those that nothing has, by name.
func GroupsThatExist(p Project, bound Bound) []string {
	groups := slices.DeleteFunc(slices.Clone(p.Binding.NodeGroups), func(g string) bool { return slices.Contains(bound.NoGroups, g) })
	slices.Sort(groups)
	return slices.Compact(groups)
}

func named(group, resource string, verbs []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs, ResourceNames: names}
}

// NamespaceRules are the rights of a role in its namespace: a manager's are all on workloads, configuration and storage, a member's to
// read and create them. Both read quotas and events.
func NamespaceRules(role Role) []rbacv1.PolicyRule {
	verbs := []string{"create", "get", "list", "watch"}
	if role == Manager {
		verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	}
	return CanonicalRules([]rbacv1.PolicyRule{
		{APIGroups: []string{""}, Verbs: verbs, Resources: []string{
			"configmaps", "persistentvolumeclaims", "pods", "pods/attach", "pods/exec", "pods/log", "pods/portforward", "secrets", "services",
		}},
		{APIGroups: []string{"apps"}, Verbs: verbs, Resources: []string{
			"daemonsets", "deployments", "deployments/scale", "replicasets", "statefulsets", "statefulsets/scale",
		}},
		{APIGroups: []string{"batch"}, Verbs: verbs, Resources: []string{"cronjobs", "jobs"}},
		{APIGroups: []string{""}, Verbs: []string{"get", "list", "watch"}, Resources: []string{"events", "resourcequotas"}},
	})
}

// Subjects are the users with a role in a project, sorted, each once.
func Subjects(role Role, p Project, s Settings) []rbacv1.Subject {
	var all []rbacv1.Subject
	for _, m := range p.Members {
		if m.Role == role && m.Name() != "" {
			all = append(all, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: s.RBACUser(m)})
		}
	}
	return CanonicalSubjects(all)
}

// UnknownRoles are the members whose role gives no right, as "name: role", sorted.
func UnknownRoles(p Project) []string {
	var all []string
	for _, m := range p.Members {
		if !slices.Contains(Roles(), m.Role) {
			all = append(all, m.Name()+": "+string(m.Role))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// CanonicalRules puts rules in the one order in which two lists that grant the same compare as equal.
func CanonicalRules(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	set := func(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }
	all := make([]rbacv1.PolicyRule, len(rules))
	for i, r := range rules {
		all[i] = rbacv1.PolicyRule{
			Verbs: set(r.Verbs), APIGroups: set(r.APIGroups), Resources: set(r.Resources), ResourceNames: set(r.ResourceNames), NonResourceURLs: set(r.NonResourceURLs),
		}
	}
	slices.SortFunc(all, func(a, b rbacv1.PolicyRule) int {
		// Lists of strings always become JSON.
		one, _ := json.Marshal(a)
		other, _ := json.Marshal(b)
		return strings.Compare(string(one), string(other))
	})
	return all
}

// CanonicalSubjects puts subjects in the one order in which two sets compare as equal.
func CanonicalSubjects(subjects []rbacv1.Subject) []rbacv1.Subject {
	all := slices.Clone(subjects)
	slices.SortFunc(all, func(a, b rbacv1.Subject) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.APIGroup, b.APIGroup), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(all)
}
