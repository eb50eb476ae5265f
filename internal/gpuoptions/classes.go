package gpuoptions

import (
	resourcev1 "k8s.io/api/resource/v1"

	"config-server/internal/farm"
)

// classOptions lists the GPU resources that DRA DeviceClasses stand for. Pods ask for them like those
// of a device plugin, and the scheduler allocates the devices. An API server older than 1.36 without
// the feature gate DRAExtendedResource drops the field when a class is stored.
func classOptions(classes []resourcev1.DeviceClass) []farm.GPUOption {
	var options []farm.GPUOption
	for i := range classes {
		name := classes[i].Spec.ExtendedResourceName
		if name == nil {
			continue
		}
		if _, gpu := familyOf(*name); gpu {
			options = append(options, detected(*name, "", "", farm.GPUFromDeviceClass))
		}
	}
	return sorted(options)
}
