package gpuoptions

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"config-server/internal/farm"
)

// templateOptions makes an option of each template, sorted by name. The label's value is the driver.
func templateOptions(templates []corev1.PodTemplate, label string) []farm.GPUOption {
	options := make([]farm.GPUOption, 0, len(templates))
	for i := range templates {
		option, _ := templateOption(&templates[i], label)
		options = append(options, option)
	}
	return sorted(options)
}

// templateOption reads a template: what it asks for itself tells the resource, the first by name if it
// asks for several, and its node selector the model. asked has all of them.
func templateOption(template *corev1.PodTemplate, label string) (option farm.GPUOption, asked amounts) {
	option = farm.GPUOption{
		ID: template.Name, Template: template.Name, Driver: template.Labels[label],
		Source: farm.GPUFromTemplate, Free: unknown, Total: unknown,
	}
	if option.Driver == "" {
		option.Driver = farm.DriverOther
	}
	spec := template.Template.Spec
	asked = gpusIn(resourcehelper.PodRequests(&corev1.Pod{Spec: withLimitsAsRequests(spec)}, resourcehelper.PodResourcesOptions{}))
	for resource := range asked {
		if option.Resource == "" || resource < option.Resource {
			option.Resource = resource
		}
	}
	for _, f := range families {
		if model := spec.NodeSelector[f.model]; model != "" && option.Model == "" {
			option.Model, option.ModelLabel = model, f.model
		}
	}
	return option, asked
}

// withLimitsAsRequests sets each request that is left out to its limit. The API server does so with
// pods, and not with templates.
func withLimitsAsRequests(spec corev1.PodSpec) corev1.PodSpec {
	spec.Containers = slices.Clone(spec.Containers)
	spec.InitContainers = slices.Clone(spec.InitContainers)
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range containers {
			requests := containers[i].Resources.Limits.DeepCopy()
			for name, quantity := range containers[i].Resources.Requests {
				if requests == nil {
					requests = corev1.ResourceList{}
				}
				requests[name] = quantity
			}
			containers[i].Resources.Requests = requests
		}
	}
	return spec
}

// sorted puts options in the order of their IDs, each once; the first of two alike stays.
func sorted(options []farm.GPUOption) []farm.GPUOption {
	slices.SortStableFunc(options, func(a, b farm.GPUOption) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(options, func(a, b farm.GPUOption) bool { return a.ID == b.ID })
}
