package templates

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// driverCapabilities is the variable of the service's pod that a layer may set otherwise.
const driverCapabilities = "NVIDIA_DRIVER_CAPABILITIES"

// underneath lays merged templates under the spec that the service has written. Its lists come
// first and keep their order; of an item that both have nothing of the template's stays.
func underneath(below, own corev1.PodSpec) (corev1.PodSpec, error) {
	upper := *own.DeepCopy()
	// The merge would mix them; they are written below.
	upper.Volumes, upper.Affinity, upper.Tolerations = nil, nil, nil
	if below.RuntimeClassName != nil {
		upper.RuntimeClassName = nil
	}
	lower := *below.DeepCopy()
	dropReplaced(&lower, upper)
	spec, err := strategic(lower, upper)
	if err != nil {
		return spec, err
	}
	// Where the pod runs is the service's choice, also when it leaves the binding to the scheduler.
	spec.NodeName, spec.RestartPolicy = own.NodeName, own.RestartPolicy
	spec.Volumes = ownFirst(own.Volumes, below.Volumes, volumeName)
	spec.Tolerations = join(below.Tolerations, own.Tolerations, tolerated, replace)
	spec.TopologySpreadConstraints = join(below.TopologySpreadConstraints, own.TopologySpreadConstraints, spread, replace)
	spec.Affinity = bothAffinities(below.Affinity, own.Affinity)
	spec.InitContainers = ownContainers(spec.InitContainers, own.InitContainers, below.InitContainers)
	spec.Containers = ownContainers(spec.Containers, own.Containers, below.Containers)
	return spec, nil
}

func ownContainers(merged, own, below []corev1.Container) []corev1.Container {
	merged = inOrder(merged, containerName, own, below)
	for i := range merged {
		c := &merged[i]
		ours, theirs := named(own, c.Name), named(below, c.Name)
		c.Env = ownEnv(ours.Env, theirs.Env)
		c.Ports = ownPorts(ours.Ports, theirs.Ports)
		c.VolumeMounts = ownFirst(ours.VolumeMounts, theirs.VolumeMounts, mountPath)
		c.VolumeDevices = ownFirst(ours.VolumeDevices, theirs.VolumeDevices, devicePath)
		c.Resources.Claims = join(theirs.Resources.Claims, ours.Resources.Claims, claimed, replace)
	}
	return merged
}

// ownFirst is the service's list and what else the templates have.
func ownFirst[T any, K comparable](own, below []T, key func(T) K) []T {
	return join(own, below, key, func(ours, _ T) T { return ours })
}

// ownEnv keeps the contract's order in front, so that variables of templates may refer to it.
func ownEnv(own, below []corev1.EnvVar) []corev1.EnvVar {
	all := ownFirst(own, below, envName)
	at := slices.IndexFunc(all, func(v corev1.EnvVar) bool { return v.Name == driverCapabilities })
	theirs := slices.IndexFunc(below, func(v corev1.EnvVar) bool { return v.Name == driverCapabilities })
	if at >= 0 && theirs >= 0 {
		all[at] = below[theirs]
	}
	return all
}

// ownPorts keeps names and host ports that templates give to the service's ports: the service only
// says that they are there.
func ownPorts(own, below []corev1.ContainerPort) []corev1.ContainerPort {
	return join(own, below, portKey, func(ours, theirs corev1.ContainerPort) corev1.ContainerPort {
		return mergePort(theirs, ours)
	})
}

// bothAffinities demands what either demands, and prefers what either prefers.
func bothAffinities(below, own *corev1.Affinity) *corev1.Affinity {
	if below == nil || own == nil {
		if own == nil {
			return below.DeepCopy()
		}
		return own.DeepCopy()
	}
	all, ours := below.DeepCopy(), own.DeepCopy()
	switch {
	case all.NodeAffinity == nil:
		all.NodeAffinity = ours.NodeAffinity
	case ours.NodeAffinity != nil:
		node := all.NodeAffinity
		node.RequiredDuringSchedulingIgnoredDuringExecution = bothSelectors(
			node.RequiredDuringSchedulingIgnoredDuringExecution, ours.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		node.PreferredDuringSchedulingIgnoredDuringExecution = append(
			node.PreferredDuringSchedulingIgnoredDuringExecution, ours.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	switch {
	case all.PodAffinity == nil:
		all.PodAffinity = ours.PodAffinity
	case ours.PodAffinity != nil:
		pods := all.PodAffinity
		pods.RequiredDuringSchedulingIgnoredDuringExecution = append(
			pods.RequiredDuringSchedulingIgnoredDuringExecution, ours.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		pods.PreferredDuringSchedulingIgnoredDuringExecution = append(
			pods.PreferredDuringSchedulingIgnoredDuringExecution, ours.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	switch {
	case all.PodAntiAffinity == nil:
		all.PodAntiAffinity = ours.PodAntiAffinity
	case ours.PodAntiAffinity != nil:
		pods := all.PodAntiAffinity
		pods.RequiredDuringSchedulingIgnoredDuringExecution = append(
			pods.RequiredDuringSchedulingIgnoredDuringExecution, ours.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		pods.PreferredDuringSchedulingIgnoredDuringExecution = append(
			pods.PreferredDuringSchedulingIgnoredDuringExecution, ours.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	return all
}

// bothSelectors selects the nodes that both select. The terms of a selector are alternatives, so
// each pair of terms becomes one. A term without requirements fits no node, and stays so.
func bothSelectors(below, own *corev1.NodeSelector) *corev1.NodeSelector {
	if below == nil || own == nil {
		if own == nil {
			return below
		}
		return own
	}
	both := &corev1.NodeSelector{}
	for _, a := range below.NodeSelectorTerms {
		for _, b := range own.NodeSelectorTerms {
			term := corev1.NodeSelectorTerm{}
			if !isEmpty(a) && !isEmpty(b) {
				term.MatchExpressions = slices.Concat(a.MatchExpressions, b.MatchExpressions)
				term.MatchFields = slices.Concat(a.MatchFields, b.MatchFields)
			}
			both.NodeSelectorTerms = append(both.NodeSelectorTerms, term)
		}
	}
	return both
}

func isEmpty(term corev1.NodeSelectorTerm) bool {
	return len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0
}
