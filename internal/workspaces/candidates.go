package workspaces

import (
	"fmt"
	"strings"

	"config-server/internal/farm"
)

// candidates lists the nodes on which a workspace may run, in the user configuration's order; if it
// names none, every Ready, schedulable node that is not of the control plane. Missing, NotReady and
// cordoned nodes are dropped before anything is scored, because one without an exporter would look
// idle. If nothing is left the error says what the caller can be told: the first unknown name if
// the cluster has none of them, else the reason of each. A node for which one of the further rules has
// a reason is dropped too.
func candidates(wanted []farm.GPUNode, cluster []farm.Node, rules ...rule) ([]farm.NodeName, error) {
	rules = append([]rule{unfit}, rules...)
	if len(wanted) == 0 {
		return anyNode(cluster, rules)
	}
	byName := indexNodes(cluster)
	var names []farm.NodeName
	var reasons []string
	known := false
	seen := map[farm.NodeName]bool{}
	for _, want := range wanted {
		node, found := byName[foldNode(want.Name)]
		if !found {
			reasons = append(reasons, fmt.Sprintf("%s: not in the cluster", want.Name))
			continue
		}
		known = true
		if seen[node.Name] {
			continue
		}
		seen[node.Name] = true
		if reason := firstReason(node, rules); reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", node.Name, reason))
			continue
		}
		names = append(names, node.Name)
	}
	switch {
	case len(names) > 0:
		return names, nil
	case !known:
		return nil, unknownNode(wanted[0].Name)
	default:
		return nil, noSuitable(reasons)
	}
}

func noSuitable(reasons []string) error {
	return fmt.Errorf("no suitable node (%s)", strings.Join(reasons, "; "))
}

// rule tells why no new workspace may be put on a node; empty = it has nothing against it.
type rule func(farm.Node) string

func firstReason(node farm.Node, rules []rule) string {
	for _, rule := range rules {
		if reason := rule(node); reason != "" {
			return reason
		}
	}
	return ""
}

func anyNode(cluster []farm.Node, rules []rule) ([]farm.NodeName, error) {
	var names []farm.NodeName
	var reasons []string
	for _, node := range cluster {
		reason := firstReason(node, rules)
		if reason == "" && node.ControlPlane {
			reason = "control plane"
		}
		if reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", node.Name, reason))
			continue
		}
		names = append(names, node.Name)
	}
	if len(names) > 0 {
		return names, nil
	}
	if len(reasons) == 0 {
		reasons = []string{"the cluster has no nodes"}
	}
	const most = 20
	if len(reasons) > most {
		reasons = append(reasons[:most], fmt.Sprintf("and %d more", len(reasons)-most))
	}
	return nil, noSuitable(reasons)
}

// unfit is the rule for every workspace: the node is Ready and takes new pods.
func unfit(node farm.Node) string {
	switch {
	case !node.Ready:
		return "NotReady"
	case node.Cordoned:
		return "cordoned"
	}
	return ""
}

func unknownNode(name farm.NodeName) error {
	return fmt.Errorf("unknown kubernetes node: '%s'", name)
}

// foldNode is the form in which node names are compared: callers write FARM5 and ' farm5 '.
func foldNode(name farm.NodeName) farm.NodeName {
	return farm.NodeName(strings.ToLower(strings.TrimSpace(string(name))))
}

func indexNodes(cluster []farm.Node) map[farm.NodeName]farm.Node {
	index := make(map[farm.NodeName]farm.Node, len(cluster))
	for _, node := range cluster {
		index[foldNode(node.Name)] = node
	}
	return index
}
