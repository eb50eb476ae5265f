package templates

import (
	"path"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// merge lays one prepared template over another.
func merge(lower, upper corev1.PodTemplateSpec) (corev1.PodTemplateSpec, error) {
	var merged corev1.PodTemplateSpec
	merged.Labels = union(lower.Labels, upper.Labels)
	merged.Annotations = union(lower.Annotations, upper.Annotations)
	below := *lower.Spec.DeepCopy()
	dropReplaced(&below, upper.Spec)
	spec, err := strategic(below, upper.Spec)
	if err != nil {
		return merged, err
	}
	spec.Volumes = inOrder(spec.Volumes, volumeName, below.Volumes, upper.Spec.Volumes)
	spec.ImagePullSecrets = inOrder(spec.ImagePullSecrets, secretName, lower.Spec.ImagePullSecrets, upper.Spec.ImagePullSecrets)
	spec.HostAliases = inOrder(spec.HostAliases, aliasIP, lower.Spec.HostAliases, upper.Spec.HostAliases)
	spec.ResourceClaims = inOrder(spec.ResourceClaims, claimName, lower.Spec.ResourceClaims, upper.Spec.ResourceClaims)
	spec.Tolerations = join(lower.Spec.Tolerations, upper.Spec.Tolerations, tolerated, replace)
	spec.TopologySpreadConstraints = join(lower.Spec.TopologySpreadConstraints, upper.Spec.TopologySpreadConstraints, spread, replace)
	spec.InitContainers = mergeContainers(spec.InitContainers, lower.Spec.InitContainers, upper.Spec.InitContainers)
	spec.Containers = mergeContainers(spec.Containers, lower.Spec.Containers, upper.Spec.Containers)
	merged.Spec = spec
	return merged, nil
}

// mergeContainers orders the merged containers, the lower ones first, and writes their lists whose
// items the strategic merge does not tell apart as the API server does.
func mergeContainers(merged, lower, upper []corev1.Container) []corev1.Container {
	merged = inOrder(merged, containerName, lower, upper)
	for i := range merged {
		c := &merged[i]
		below, above := named(lower, c.Name), named(upper, c.Name)
		c.Env = join(below.Env, above.Env, envName, replace)
		c.Ports = join(below.Ports, above.Ports, portKey, mergePort)
		c.VolumeMounts = join(below.VolumeMounts, above.VolumeMounts, mountPath, mergeMount)
		c.VolumeDevices = join(below.VolumeDevices, above.VolumeDevices, devicePath, replace)
		c.Resources.Claims = join(below.Resources.Claims, above.Resources.Claims, claimed, replace)
	}
	return merged
}

func named(containers []corev1.Container, name string) corev1.Container {
	at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if at < 0 {
		return corev1.Container{}
	}
	return containers[at]
}

// dropReplaced removes from the lower spec what a merge would join with the upper one to something
// that cannot be: a volume, a claim or a handler of two kinds.
func dropReplaced(lower *corev1.PodSpec, upper corev1.PodSpec) {
	for _, volume := range upper.Volumes {
		if at := slices.IndexFunc(lower.Volumes, func(v corev1.Volume) bool { return v.Name == volume.Name }); at >= 0 {
			dropOther(&lower.Volumes[at].VolumeSource, volume.VolumeSource)
		}
	}
	for _, claim := range upper.ResourceClaims {
		if at := slices.IndexFunc(lower.ResourceClaims, func(c corev1.PodResourceClaim) bool { return c.Name == claim.Name }); at >= 0 {
			lower.ResourceClaims[at] = claim
		}
	}
	dropHandlers(lower.InitContainers, upper.InitContainers)
	dropHandlers(lower.Containers, upper.Containers)
}

func dropHandlers(lower, upper []corev1.Container) {
	for i := range lower {
		below, above := &lower[i], named(upper, lower[i].Name)
		for _, pair := range [][2]*corev1.Probe{
			{below.LivenessProbe, above.LivenessProbe}, {below.ReadinessProbe, above.ReadinessProbe}, {below.StartupProbe, above.StartupProbe},
		} {
			if pair[0] != nil && pair[1] != nil {
				dropOther(&pair[0].ProbeHandler, pair[1].ProbeHandler)
			}
		}
		if below.Lifecycle == nil || above.Lifecycle == nil {
			continue
		}
		for _, pair := range [][2]*corev1.LifecycleHandler{
			{below.Lifecycle.PostStart, above.Lifecycle.PostStart}, {below.Lifecycle.PreStop, above.Lifecycle.PreStop},
		} {
			if pair[0] != nil && pair[1] != nil {
				dropOther(pair[0], *pair[1])
			}
		}
	}
}

// dropOther empties a struct of pointers, of which one says the kind, if the upper one is of another
// kind. An upper one without a kind leaves it as it is.
func dropOther[T any](lower *T, upper T) {
	if kind := kindOf(upper); kind >= 0 && kind != kindOf(*lower) {
		var none T
		*lower = none
	}
}

// kindOf is the index of the first field that is set; -1 = none.
func kindOf[T any](kinds T) int {
	v := reflect.ValueOf(kinds)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			return i
		}
	}
	return -1
}

// join lays a list over another: an item with the key of a lower one is joined with it in its place,
// the others follow. No key is doubled afterwards.
func join[T any, K comparable](lower, upper []T, key func(T) K, both func(lower, upper T) T) []T {
	var all []T
	at := make(map[K]int, len(lower)+len(upper))
	for _, item := range slices.Concat(lower, upper) {
		k := key(item)
		if i, known := at[k]; known {
			all[i] = both(all[i], item)
			continue
		}
		at[k] = len(all)
		all = append(all, item)
	}
	return all
}

// inOrder sorts merged items as the lists have them that they come from, one list after the other.
func inOrder[T any](merged []T, key func(T) string, lists ...[]T) []T {
	at := map[string]int{}
	for _, list := range lists {
		for _, item := range list {
			if _, known := at[key(item)]; !known {
				at[key(item)] = len(at)
			}
		}
	}
	slices.SortStableFunc(merged, func(a, b T) int { return at[key(a)] - at[key(b)] })
	return merged
}

func replace[T any](_, upper T) T { return upper }

// mergePort joins what two layers say of one port.
func mergePort(lower, upper corev1.ContainerPort) corev1.ContainerPort {
	port := lower
	port.Protocol = upper.Protocol
	if upper.Name != "" {
		port.Name = upper.Name
	}
	if upper.HostPort != 0 {
		port.HostPort = upper.HostPort
	}
	if upper.HostIP != "" {
		port.HostIP = upper.HostIP
	}
	return port
}

// mergeMount joins two mounts of one volume at one path. A mount of another volume has nothing to do
// with the lower one's sub-path and mode.
func mergeMount(lower, upper corev1.VolumeMount) corev1.VolumeMount {
	if lower.Name != upper.Name {
		return upper
	}
	mount := lower
	mount.MountPath = upper.MountPath
	mount.ReadOnly = lower.ReadOnly || upper.ReadOnly
	if upper.SubPath != "" || upper.SubPathExpr != "" {
		mount.SubPath, mount.SubPathExpr = upper.SubPath, upper.SubPathExpr
	}
	if upper.MountPropagation != nil {
		mount.MountPropagation = upper.MountPropagation
	}
	if upper.RecursiveReadOnly != nil {
		mount.RecursiveReadOnly = upper.RecursiveReadOnly
	}
	return mount
}

func envName(v corev1.EnvVar) string                  { return v.Name }
func volumeName(v corev1.Volume) string               { return v.Name }
func containerName(c corev1.Container) string         { return c.Name }
func devicePath(d corev1.VolumeDevice) string         { return d.DevicePath }
func mountPath(m corev1.VolumeMount) string           { return path.Clean(m.MountPath) }
func secretName(s corev1.LocalObjectReference) string { return s.Name }
func aliasIP(a corev1.HostAlias) string               { return a.IP }
func claimName(c corev1.PodResourceClaim) string      { return c.Name }
func claimed(c corev1.ResourceClaim) [2]string        { return [2]string{c.Name, c.Request} }

func spread(c corev1.TopologySpreadConstraint) [2]string {
	return [2]string{c.TopologyKey, string(c.WhenUnsatisfiable)}
}

func portKey(p corev1.ContainerPort) [2]any {
	protocol := p.Protocol
	if protocol == "" {
		protocol = corev1.ProtocolTCP
	}
	return [2]any{p.ContainerPort, protocol}
}

// tolerated makes equal tolerations equal: without an operator one means Equal.
func tolerated(t corev1.Toleration) [5]any {
	operator, seconds := t.Operator, any(nil)
	if operator == "" {
		operator = corev1.TolerationOpEqual
	}
	if t.TolerationSeconds != nil {
		seconds = *t.TolerationSeconds
	}
	return [5]any{t.Key, operator, t.Value, t.Effect, seconds}
}
