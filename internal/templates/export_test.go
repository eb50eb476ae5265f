package templates

import corev1 "k8s.io/api/core/v1"

// Prepare and Merge are the two halves of Apply below the service's pod.
var Prepare = prepare

// Merge lays one prepared template over another.
func Merge(lower, upper corev1.PodTemplateSpec) (corev1.PodTemplateSpec, error) {
	return merge(lower, upper)
}
