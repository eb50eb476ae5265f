package gpuoptions

import (
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// Labels and names that the vendors' operators give nodes.
const (
	labelNVIDIAModel = "nvidia.com/gpu.product"
	labelAMDModel    = "amd.com/gpu.product-name"
	labelIntelModel  = "gpu.intel.com/product"
	// labelWorkload tells what the GPUs of a node are for; containers have them if it is absent or
	// workloadContainer.
	labelWorkload     = "nvidia.com/gpu.workload.config"
	workloadContainer = "container"
)

// family is a driver with the resource that its whole GPUs have and the label that names their model.
type family struct {
	driver   string
	resource string
	model    string
}

var families = []family{
	{farm.DriverNVIDIA, "nvidia.com/gpu", labelNVIDIAModel},
	{farm.DriverAMD, "amd.com/gpu", labelAMDModel},
	{farm.DriverI915, "gpu.intel.com/i915", labelIntelModel},
	{farm.DriverXe, "gpu.intel.com/xe", labelIntelModel},
}

// familyOf tells whose GPU a resource is; false if it is none.
func familyOf(resource string) (family, bool) {
	driver := farm.GPUDriver(resource)
	for _, f := range families {
		if f.driver == driver {
			return f, true
		}
	}
	return family{}, false
}

// amounts are whole devices by resource. It has GPUs only, and only amounts above zero.
type amounts map[string]int64

// gpusIn picks the GPUs out of a list of resources.
func gpusIn(list corev1.ResourceList) amounts {
	found := amounts{}
	for name, quantity := range list {
		if _, ok := familyOf(string(name)); ok && quantity.Sign() > 0 {
			found[string(name)] = quantity.Value()
		}
	}
	return found
}
