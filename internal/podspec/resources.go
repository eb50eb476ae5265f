package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"config-server/internal/farm"
)

// resourcesOf takes the limits from the node's entry, else from the settings. Kubernetes refuses a
// request above its limit, so a limit below the request lowers the request.
func resourcesOf(s Settings, entry farm.GPUNode) (corev1.ResourceRequirements, error) {
	cpu, err := pairOf(field{"DEFAULT_CPU_REQUEST", s.CPURequest}, field{"DEFAULT_CPU_LIMIT", s.CPULimit}, field{"cpu_limit", entry.CPULimit})
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	mem, err := pairOf(field{"DEFAULT_MEM_REQUEST", s.MemRequest}, field{"DEFAULT_MEM_LIMIT", s.MemLimit}, field{"memory_limit", entry.MemoryLimit})
	if err != nil {
		return corev1.ResourceRequirements{}, err
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: cpu.request, corev1.ResourceMemory: mem.request},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: cpu.limit, corev1.ResourceMemory: mem.limit},
	}, nil
}

type field struct{ name, value string }

type pair struct{ request, limit resource.Quantity }

func pairOf(request, fallback, limit field) (pair, error) {
	if limit.value == "" {
		limit = fallback
	}
	req, err := quantity(request)
	if err != nil {
		return pair{}, err
	}
	lim, err := quantity(limit)
	if err != nil {
		return pair{}, err
	}
	if lim.Cmp(req) < 0 {
		req = lim.DeepCopy()
	}
	return pair{request: req, limit: lim}, nil
}

// quantity reads a Kubernetes quantity above zero.
func quantity(f field) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(f.value)
	if err != nil {
		return resource.Quantity{}, fmt.Errorf("%s: %q is not a Kubernetes quantity", f.name, farm.CutText(f.value, 64))
	}
	if q.Sign() <= 0 {
		return resource.Quantity{}, fmt.Errorf("%s: %q is not above zero", f.name, farm.CutText(f.value, 64))
	}
	return q, nil
}
