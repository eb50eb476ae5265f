package projects

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Isolation says how far the nodes of projects are kept for their members.
type Isolation string

// The kinds of isolation.
const (
	IsolationOff     Isolation = "off"     // not at all
	IsolationLabel   Isolation = "label"   // create-pod puts nobody else there; nothing is tainted
	IsolationLenient Isolation = "lenient" // the scheduler puts nobody else there either; what runs goes on
	IsolationStrict  Isolation = "strict"  // whoever else runs there is ended
)

// taints reports whether nodes are tainted at all.
func (i Isolation) taints() bool { return i == IsolationLenient || i == IsolationStrict }

// Taints are the taints that a node shall have: those of others as they are, in their order, and behind them those of the projects
// that the node bears labels of. Taints of projects whose label is not there are left out, so a node that leaves a project, or its
// management, is free again. The same taints in give the same taints out.
//
// NoExecute ends pods that run, so only strict has it, and only on a node of one project: a node that is bound to a second one
// would end the workspaces of the first, which do not tolerate the second's taint.
func Taints(has []corev1.Taint, labels map[string]string, mode Isolation, keys Keys) []corev1.Taint {
	shall := slices.DeleteFunc(slices.Clone(has), func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, keys.NodePrefix) })
	if !mode.taints() {
		return shall
	}
	projects := ProjectsOf(labels, keys)
	for _, project := range projects {
		shall = append(shall, corev1.Taint{Key: keys.OfNode(project), Effect: corev1.TaintEffectNoSchedule})
		if mode == IsolationStrict && len(projects) == 1 {
			shall = append(shall, corev1.Taint{Key: keys.OfNode(project), Effect: corev1.TaintEffectNoExecute})
		}
	}
	return shall
}

// SameTaints reports whether two lists taint a node alike, whatever their order and the times in them.
func SameTaints(a, b []corev1.Taint) bool {
	plain := func(taints []corev1.Taint) []corev1.Taint {
		all := make([]corev1.Taint, len(taints))
		for i, t := range taints {
			all[i] = corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect}
		}
		slices.SortFunc(all, func(a, b corev1.Taint) int {
			return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Value, b.Value))
		})
		return all
	}
	return slices.Equal(plain(a), plain(b))
}

// Tolerations let a workspace onto nodes of these projects, whatever the effect. Where nothing is tainted it needs none.
func Tolerations(projects []string, mode Isolation, keys Keys) []corev1.Toleration {
	if !mode.taints() {
		return nil
	}
	var all []corev1.Toleration
	for _, project := range slices.Compact(slices.Sorted(slices.Values(projects))) {
		all = append(all, corev1.Toleration{Key: keys.OfNode(project), Operator: corev1.TolerationOpExists})
	}
	return all
}

// ProjectsOf are the projects of a node, by name: those whose label it bears.
func ProjectsOf(labels map[string]string, keys Keys) []string {
	var projects []string
	for key := range labels {
		if project, ok := strings.CutPrefix(key, keys.NodePrefix); ok && project != "" {
			projects = append(projects, project)
		}
	}
	slices.Sort(projects)
	return projects
}
