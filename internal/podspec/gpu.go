package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

const (
	// driverCapabilities has NVIDIA's container runtime bring everything of the driver, not only what
	// computes: desktops draw too.
	driverCapabilities    = "NVIDIA_DRIVER_CAPABILITIES"
	allDriverCapabilities = "all"
	// nvidiaTaint is the key of the taint that GPU pools commonly have, whatever their resource is called.
	nvidiaTaint = "nvidia.com/gpu"
)

// askForGPU has the scheduler bind the pod, which alone allocates claims and knows taints, selectors and
// what is free: a pod with spec.nodeName goes past it. The node becomes a requirement instead.
//
// A detected option asks for n devices of its resource. A template brings everything itself. What
// NVIDIA's GPUs get beside that, a template may set otherwise.
func askForGPU(pod *corev1.Pod, in Input, n int) {
	option, shell := *in.GPU, &pod.Spec.Containers[0]
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[farm.AnnotationGPU] = option.ID
	pod.Spec.NodeName = ""
	if term := placement(in.Node, option); len(term.MatchFields)+len(term.MatchExpressions) > 0 {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
		}}
	}
	if option.Detected() {
		shell.Resources.Limits[corev1.ResourceName(option.Resource)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
		pod.Spec.Tolerations = tolerations(option)
	}
	if option.Driver == farm.DriverNVIDIA {
		shell.Env = append(shell.Env, corev1.EnvVar{Name: driverCapabilities, Value: allDriverCapabilities})
		if class := in.Settings.RuntimeClass; class != "" {
			pod.Spec.RuntimeClassName = &class
		}
	}
}

// placement is one term, whose requirements all have to hold: the node, and a detected option's model.
func placement(node farm.NodeName, option farm.GPUOption) corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	if node != "" {
		term.MatchFields = []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{string(node)}},
		}
	}
	if option.Detected() && option.Model != "" {
		term.MatchExpressions = []corev1.NodeSelectorRequirement{
			{Key: option.ModelLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{option.Model}},
		}
	}
	return term
}

// tolerations lets the pod onto nodes that are kept free for its GPU.
func tolerations(option farm.GPUOption) []corev1.Toleration {
	keys := []string{option.Resource}
	if option.Driver == farm.DriverNVIDIA && option.Resource != nvidiaTaint {
		keys = append(keys, nvidiaTaint)
	}
	var all []corev1.Toleration
	for _, key := range keys {
		all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return all
}
