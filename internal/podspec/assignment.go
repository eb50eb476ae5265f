package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// visibleDevices tells NVIDIA's container runtime which GPUs the container has.
const visibleDevices = "NVIDIA_VISIBLE_DEVICES"

// deviceFiles are the indexes of the GPUs whose device files the pod mounts: those that it was given, else
// the first n; none beside a GPU option, which brings its own.
func deviceFiles(in Input, n int) ([]int, error) {
	switch {
	case in.GPU != nil:
		return nil, nil
	case n > MaxGPUs:
		return nil, fmt.Errorf("num_gpu: %d is above %d", n, MaxGPUs)
	case in.Assigned != farm.GPUSet{}:
		return in.Assigned.Indexes(), nil
	}
	var first []int
	for i := range max(0, n) {
		first = append(first, i)
	}
	return first, nil
}

// showAssigned names the GPUs that the workspace was given to the container runtime.
func showAssigned(pod *corev1.Pod, in Input) {
	if in.GPU != nil || in.Assigned == (farm.GPUSet{}) {
		return
	}
	shell := &pod.Spec.Containers[0]
	shell.Env = append(shell.Env, corev1.EnvVar{Name: visibleDevices, Value: in.Assigned.String()})
}
