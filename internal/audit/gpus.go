package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"config-server/internal/farm"
)

// gpus compares the assigned GPUs with those that pods mount, leaving out the pods that an operation works
// on.
func (c *comparison) gpus() {
	if c.ExclusiveGPUs {
		c.sharedGPUs()
	}
	if !c.has(PartGPUs) {
		return
	}
	assigned := map[farm.PodName][]farm.GPURow{}
	for _, row := range c.GPUs {
		assigned[row.Pod] = append(assigned[row.Pod], row)
	}
	for name, rows := range assigned {
		if !c.busy[name] {
			c.gpuRows(name, rows)
		}
	}
	for _, pod := range c.Pods {
		if c.busy[pod.Name] || pod.Ended() || pod.Terminating {
			continue
		}
		if missing := pod.GPUIndexes.Without(indexesOf(assigned[pod.Name])); missing.Len() > 0 {
			c.add(PodWithoutGPURow, string(pod.Name), pod.User, remedyReconcile, "it has GPU %s of %s, which could be given to somebody else", missing, pod.Node)
		}
	}
}

func indexesOf(rows []farm.GPURow) farm.GPUSet {
	var all []int
	for _, row := range rows {
		all = append(all, row.Index)
	}
	return farm.NewGPUSet(all...)
}

// gpuRows reports the GPUs that are assigned to a pod in vain.
func (c *comparison) gpuRows(name farm.PodName, rows []farm.GPURow) {
	all, node, user := indexesOf(rows), rows[0].Node, rows[0].User
	pod, alive := c.pods[name]
	switch {
	case !alive:
		c.add(GPURowWithoutPod, string(name), user, c.Places.deletePod(name), "GPU %s of %s stays assigned to a pod that is gone", all, node)
	case pod.Ended():
		c.add(GPURowWithoutPod, string(name), user, remedyReconcile, "GPU %s of %s stays assigned to a pod that has ended", all, node)
	default:
		if surplus := all.Without(pod.GPUIndexes); surplus.Len() > 0 {
			c.add(GPURowWithoutPod, string(name), user, remedyReconcile, "GPU %s of %s is assigned to a pod that does not mount it", surplus, node)
		}
	}
}

// sharedGPUs reports the GPUs that more than one running workspace has.
func (c *comparison) sharedGPUs() {
	type gpu struct {
		node  farm.NodeName
		index int
	}
	holders := map[gpu][]farm.PodName{}
	for _, pod := range c.Pods {
		if pod.Ended() || c.busy[pod.Name] {
			continue
		}
		for _, index := range pod.GPUIndexes.Indexes() {
			at := gpu{pod.Node, index}
			holders[at] = append(holders[at], pod.Name)
		}
	}
	for at, pods := range maps.All(holders) {
		if len(pods) < 2 {
			continue
		}
		slices.Sort(pods)
		var told, words []string
		for _, pod := range pods {
			told = append(told, fmt.Sprintf("%s (%s)", pod, c.pods[pod].User))
			words = append(words, quote(string(pod)))
		}
		c.add(SharedGPU, fmt.Sprintf("%s/%d", at.node, at.index), "",
			c.Places.kubectl("get pods "+strings.Join(words, " ")+" --show-labels"), "GPU %d of %s is in use by %s", at.index, at.node, strings.Join(told, " and "))
	}
}
