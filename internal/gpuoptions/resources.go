package gpuoptions

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The drivers of GPUs, as options name them.
const (
	driverNVIDIA = "nvidia"
	driverAMD    = "amdgpu"
	driverI915   = "i915"
	driverXe     = "xe"
	// driverOther stands where a template names none.
	driverOther = "gpu"
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
	{driverNVIDIA, "nvidia.com/gpu", labelNVIDIAModel},
	{driverAMD, "amd.com/gpu", labelAMDModel},
	{driverI915, "gpu.intel.com/i915", labelIntelModel},
	{driverXe, "gpu.intel.com/xe", labelIntelModel},
}

// nvidiaName is what NVIDIA's device plugin calls GPUs for containers: gpu, gpu.shared, mig-1g.10gb.
// Those that virtual machines get passed through bear names of the PCI database, with capitals and
// underscores.
var nvidiaName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)

// familyOf tells whose GPU a resource is; false if it is none.
func familyOf(resource string) (family, bool) {
	if name, ok := strings.CutPrefix(resource, "nvidia.com/"); ok {
		if !nvidiaName.MatchString(name) {
			return family{}, false
		}
		return families[0], true
	}
	for _, f := range families[1:] {
		if f.resource == resource {
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
