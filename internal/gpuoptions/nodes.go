package gpuoptions

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"config-server/internal/farm"
)

// pair is what a node has to offer: a resource, and the model that the node's label gives its GPUs,
// empty if it has none.
type pair struct{ resource, model string }

// offers tells whether new pods may get the node's GPUs: it is not cordoned, and its GPUs are for
// containers.
func offers(node *corev1.Node) bool {
	workload, labelled := node.Labels[labelWorkload]
	return !node.Spec.Unschedulable && (!labelled || workload == workloadContainer)
}

// modelOf is the model of a node's GPUs that have this resource, and the label that says so.
func modelOf(node *corev1.Node, resource string) (model, label string) {
	f, _ := familyOf(resource)
	if model = node.Labels[f.model]; model == "" {
		return "", ""
	}
	return model, f.model
}

// scanNodes lists the options of the nodes that offer GPUs, each pair once.
func scanNodes(nodes []corev1.Node) []farm.GPUOption {
	var options []farm.GPUOption
	for i := range nodes {
		if !offers(&nodes[i]) {
			continue
		}
		for resource := range gpusIn(nodes[i].Status.Allocatable) {
			model, label := modelOf(&nodes[i], resource)
			options = append(options, detected(resource, model, label, farm.GPUFromNodes))
		}
	}
	return sorted(options)
}

// detected makes the option of a resource, and of one of its models if that is not empty. What it
// counts is not known yet.
func detected(resource, model, label string, source farm.GPUSource) farm.GPUOption {
	f, _ := familyOf(resource)
	option := farm.GPUOption{ID: resource, Driver: f.driver, Resource: resource, Source: source, Free: unknown, Total: unknown}
	if model != "" {
		option.ID, option.Model, option.ModelLabel = resource+"/"+model, model, label
	}
	return option
}

// usage is what the pods that are bound to each node ask for.
type usage map[string]amounts

// usageOf adds up the requests of pods that are bound and have not ended. One that is being deleted
// has its GPUs until it is gone.
func usageOf(pods []corev1.Pod) usage {
	used := usage{}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for resource, n := range gpusIn(resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})) {
			if used[pod.Spec.NodeName] == nil {
				used[pod.Spec.NodeName] = amounts{}
			}
			used[pod.Spec.NodeName][resource] += n
		}
	}
	return used
}

// room is what a node has of a resource. Pods that are bound past the scheduler can ask for more than
// there is.
func room(node *corev1.Node, resource string, used usage) farm.GPURoom {
	total := gpusIn(node.Status.Allocatable)[resource]
	return farm.GPURoom{Total: total, Free: max(0, total-used[node.Name][resource])}
}

// roomsOf tells what each node has for a detected option. An option without a model may land on every
// node that offers the resource.
func roomsOf(option farm.GPUOption, nodes []corev1.Node, used usage) map[farm.NodeName]farm.GPURoom {
	rooms := map[farm.NodeName]farm.GPURoom{}
	for i := range nodes {
		node := &nodes[i]
		if !offers(node) || option.Model != "" && node.Labels[option.ModelLabel] != option.Model {
			continue
		}
		if there := room(node, option.Resource, used); there.Total > 0 {
			rooms[farm.NodeName(node.Name)] = there
		}
	}
	return rooms
}

// templateRooms tells what each node that the template's placement admits has for its option: rooms
// that are not counted if the template asks for no GPU resource, as one with a claim does.
func templateRooms(option farm.GPUOption, spec corev1.PodSpec, nodes []corev1.Node, used usage) map[farm.NodeName]farm.GPURoom {
	placement := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: spec})
	rooms := map[farm.NodeName]farm.GPURoom{}
	for i := range nodes {
		node := &nodes[i]
		// A selector that cannot be read admits no node for the scheduler either.
		if fits, err := placement.Match(node); err != nil || !fits || node.Spec.Unschedulable {
			continue
		}
		there := farm.GPURoom{Free: unknown, Total: unknown}
		if option.Resource != "" {
			if there = room(node, option.Resource, used); there.Total == 0 {
				continue
			}
		}
		rooms[farm.NodeName(node.Name)] = there
	}
	return rooms
}

// sum adds rooms up. Where one does not know what is free, nobody does.
func sum(rooms map[farm.NodeName]farm.GPURoom) (free, total int64) {
	for _, r := range rooms {
		total += r.Total
		if r.Free == unknown || free == unknown {
			free = unknown
			continue
		}
		free += r.Free
	}
	return free, total
}

// countNodes counts the GPUs of the nodes by resource and model, each of them once.
func countNodes(nodes []corev1.Node, used usage) map[pair]farm.GPURoom {
	census := map[pair]farm.GPURoom{}
	for i := range nodes {
		node := &nodes[i]
		if !offers(node) {
			continue
		}
		for resource := range gpusIn(node.Status.Allocatable) {
			model, _ := modelOf(node, resource)
			here, others := room(node, resource, used), census[pair{resource, model}]
			census[pair{resource, model}] = farm.GPURoom{Free: others.Free + here.Free, Total: others.Total + here.Total}
		}
	}
	return census
}
