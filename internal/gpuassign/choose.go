package gpuassign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"config-server/internal/farm"
)

// node is what is known of the GPUs of one node.
type node struct {
	// told has the utilisation of each GPU, in percent; nil = nobody tells which there are.
	told map[int]float64
	// held has the workspaces of each index that is in use, with their users.
	held map[int]map[farm.PodName]farm.UserName
}

// survey joins what the exporter tells, what workspaces mount and what was assigned. A workspace that has
// ended holds nothing any more by what it mounts; its rows count until they are removed.
func survey(known map[farm.NodeName]map[int]float64, pods []farm.Pod, rows []farm.GPURow) map[farm.NodeName]node {
	nodes := map[farm.NodeName]node{}
	for name, told := range known {
		nodes[name] = node{told: told, held: map[int]map[farm.PodName]farm.UserName{}}
	}
	hold := func(name farm.NodeName, index int, pod farm.PodName, user farm.UserName) {
		if _, seen := nodes[name]; !seen {
			nodes[name] = node{held: map[int]map[farm.PodName]farm.UserName{}}
		}
		held := nodes[name].held
		if held[index] == nil {
			held[index] = map[farm.PodName]farm.UserName{}
		}
		held[index][pod] = user
	}
	for _, pod := range pods {
		if pod.Ended() {
			continue
		}
		for _, index := range pod.GPUIndexes.Indexes() {
			hold(pod.Node, index, pod.Name, pod.User)
		}
	}
	for _, row := range rows {
		hold(row.Node, row.Index, row.Pod, row.User)
	}
	return nodes
}

// indexes lists the GPUs of the node, the lowest first. Where nobody tells, those up to the highest that
// is in use, and as many as are wanted, are taken to exist.
func (n node) indexes(wanted int) []int {
	if n.told != nil {
		return slices.Sorted(maps.Keys(n.told))
	}
	for index := range n.held {
		wanted = max(wanted, index+1)
	}
	all := make([]int, wanted)
	for i := range all {
		all[i] = i
	}
	return all
}

// choose takes the first node that has enough, and its best GPUs. The error wraps farm.ErrGPUsTaken.
func choose(mode Mode, wishes []farm.GPUWish, nodes map[farm.NodeName]node) (farm.GPUPlace, error) {
	var reasons []string
	for _, wish := range wishes {
		found, reason := nodes[wish.Node].choose(mode, wish.Count)
		if reason == "" {
			return farm.GPUPlace{Node: wish.Node, GPUs: found}, nil
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s", wish.Node, reason))
	}
	const most = 20
	if len(reasons) > most {
		reasons = append(reasons[:most], fmt.Sprintf("and %d more nodes", len(reasons)-most))
	}
	return farm.GPUPlace{}, fmt.Errorf("%w (%s)", farm.ErrGPUsTaken, strings.Join(reasons, "; "))
}

// choose takes the GPUs that the fewest workspaces have, of those the least busy and then the lowest. The
// reason says why there are not enough; empty = there are.
func (n node) choose(mode Mode, wanted int) (found farm.GPUSet, reason string) {
	indexes := n.indexes(wanted)
	if len(indexes) < wanted {
		return found, fmt.Sprintf("has %d GPUs, %d asked for", len(indexes), wanted)
	}
	order := slices.Clone(indexes)
	if mode == Exclusive {
		order = slices.DeleteFunc(order, func(index int) bool { return len(n.held[index]) > 0 })
	}
	if len(order) < wanted {
		return found, fmt.Sprintf("%d of %d GPUs free, %d asked for: %s", len(order), len(indexes), wanted, n.holders(indexes))
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(len(n.held[a]), len(n.held[b])), cmp.Compare(n.told[a], n.told[b]))
	})
	return farm.NewGPUSet(order[:wanted]...), ""
}

// holders tells who has which GPU.
func (n node) holders(indexes []int) string {
	var told []string
	for _, index := range indexes {
		pods := n.held[index]
		if len(pods) == 0 {
			continue
		}
		var names []string
		for _, pod := range slices.Sorted(maps.Keys(pods)) {
			names = append(names, fmt.Sprintf("%s (%s)", pod, pods[pod]))
		}
		told = append(told, fmt.Sprintf("GPU %d has %s", index, strings.Join(names, " and ")))
	}
	return strings.Join(told, ", ")
}
