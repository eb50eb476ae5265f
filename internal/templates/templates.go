// Package templates lays PodTemplates under the pod of a workspace, so that administrators shape
// workspaces with kubectl alone.
//
// Layers are merged from below by strategic merge, as kubectl's patches are, with the few rules of
// docs/templates.md on top: one container of each layer is the workspace's, values that equal the
// API's defaults beat nothing, and lists whose items have a name never double one. The service's
// own pod comes last and wins. All of it is a pure function of its input.
package templates

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"config-server/internal/farm"
)

// Layer is one template as the API server has it.
type Layer struct {
	// Name is the PodTemplate's, for errors and logs.
	Name string
	// Template keeps only labels, annotations and spec; of its other metadata nothing is used.
	Template corev1.PodTemplateSpec
}

// Apply lays the layers, the lowest first, under the pod that the service has written. Without
// layers the pod is returned as it is; otherwise it is copied and not changed.
//
// What the pod says wins, with two exceptions that are only the service's proposals: the runtime
// class and the variable NVIDIA_DRIVER_CAPABILITIES, which a layer may set otherwise. The first
// container of the result is the pod's first container; those of the layers stand behind it.
func Apply(pod *corev1.Pod, layers ...Layer) (*corev1.Pod, error) {
	if len(layers) == 0 {
		return pod, nil
	}
	var below corev1.PodTemplateSpec
	for _, layer := range layers {
		var err error
		if below, err = merge(below, prepare(layer.Template)); err != nil {
			return nil, fmt.Errorf("lay PodTemplate %s under pod %s: %w", layer.Name, pod.Name, err)
		}
	}
	shaped := pod.DeepCopy()
	shaped.Labels = union(below.Labels, pod.Labels)
	shaped.Annotations = union(below.Annotations, pod.Annotations)
	var err error
	if shaped.Spec, err = underneath(below.Spec, pod.Spec); err != nil {
		return nil, fmt.Errorf("lay PodTemplates under pod %s: %w", pod.Name, err)
	}
	return shaped, nil
}

// SetsRuntimeClass tells whether a layer asks for a runtime class itself.
func SetsRuntimeClass(layers []Layer) bool {
	for _, layer := range layers {
		if layer.Template.Spec.RuntimeClassName != nil {
			return true
		}
	}
	return false
}

// ownPrefix begins the keys of labels and annotations that only the service writes: they say whose pod
// it is and what it has.
const ownPrefix = "ailab/"

// prepare copies what counts of a template: without the API's defaults, with the workspace's
// container first and under its name, and with each variable and mount once.
func prepare(template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	spec := template.Spec.DeepCopy()
	dropDefaults(spec)
	nameMain(spec)
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			// The API server takes a variable twice, and kubelet the last value; of one path it takes no two
			// mounts, unless a slash at the end tells them apart.
			c.Env = join(nil, c.Env, envName, replace)
			c.VolumeMounts = join(nil, c.VolumeMounts, mountPath, replace)
		}
	}
	var out corev1.PodTemplateSpec
	out.Labels, out.Annotations = maps.Clone(template.Labels), maps.Clone(template.Annotations)
	for _, marks := range []map[string]string{out.Labels, out.Annotations} {
		maps.DeleteFunc(marks, func(key, _ string) bool { return strings.HasPrefix(key, ownPrefix) })
	}
	out.Spec = *spec
	return out
}

// nameMain puts the workspace's container first: the one of that name, else the first one, which
// gets the name. What names the container by its old name goes along.
func nameMain(spec *corev1.PodSpec) {
	if len(spec.Containers) == 0 {
		return
	}
	main := 0
	for i, c := range spec.Containers {
		if c.Name == farm.ContainerName {
			main = i
		}
	}
	spec.Containers = slices.Concat(spec.Containers[main:main+1], spec.Containers[:main], spec.Containers[main+1:])
	old := spec.Containers[0].Name
	if old == farm.ContainerName {
		return
	}
	spec.Containers[0].Name = farm.ContainerName
	rename := func(ref *corev1.ResourceFieldSelector) {
		if ref != nil && ref.ContainerName == old {
			ref.ContainerName = farm.ContainerName
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, variable := range c.Env {
			if variable.ValueFrom != nil {
				rename(variable.ValueFrom.ResourceFieldRef)
			}
		}
	}
	for _, volume := range spec.Volumes {
		for _, file := range downwardFiles(volume) {
			rename(file.ResourceFieldRef)
		}
	}
}

// downwardFiles lists the files of a volume that tell something about the pod.
func downwardFiles(volume corev1.Volume) []corev1.DownwardAPIVolumeFile {
	if volume.DownwardAPI != nil {
		return volume.DownwardAPI.Items
	}
	var files []corev1.DownwardAPIVolumeFile
	if volume.Projected != nil {
		for _, source := range volume.Projected.Sources {
			if source.DownwardAPI != nil {
				files = append(files, source.DownwardAPI.Items...)
			}
		}
	}
	return files
}

// union has the entries of both maps; those of the upper one win. Empty is nil.
func union(lower, upper map[string]string) map[string]string {
	if len(lower)+len(upper) == 0 {
		return nil
	}
	all := make(map[string]string, len(lower)+len(upper))
	maps.Copy(all, lower)
	maps.Copy(all, upper)
	return all
}

// strategic is the strategic merge of one spec onto another, without the lists whose items it does
// not tell apart as the API server does: who calls it writes them.
func strategic(lower, upper corev1.PodSpec) (corev1.PodSpec, error) {
	var merged corev1.PodSpec
	below, err := json.Marshal(withoutLists(lower))
	if err != nil {
		return merged, err
	}
	above, err := json.Marshal(withoutLists(upper))
	if err != nil {
		return merged, err
	}
	text, err := strategicpatch.StrategicMergePatch(below, above, corev1.PodSpec{})
	if err != nil {
		return merged, err
	}
	err = json.Unmarshal(text, &merged)
	return merged, err
}

func withoutLists(spec corev1.PodSpec) corev1.PodSpec {
	bare := spec
	bare.Tolerations, bare.TopologySpreadConstraints = nil, nil
	bare.InitContainers, bare.Containers = slices.Clone(spec.InitContainers), slices.Clone(spec.Containers)
	for _, containers := range [][]corev1.Container{bare.InitContainers, bare.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Env, c.Ports, c.VolumeMounts, c.VolumeDevices, c.Resources.Claims = nil, nil, nil, nil, nil
		}
	}
	if bare.Containers == nil {
		bare.Containers = []corev1.Container{} // it has no omitempty, and null would tell the merge to drop the list
	}
	return bare
}
