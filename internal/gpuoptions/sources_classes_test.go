package gpuoptions

import (
	resourcev1 "k8s.io/api/resource/v1"
)

// classSources are what DeviceClasses offer beside nodes.
func classSources() map[string]sourceCase {
	return map[string]sourceCase{
		"DeviceClasses come after nodes": {
			cluster: func(c *scripted) { c.classes = []resourcev1.DeviceClass{class("amd", "amd.com/gpu")} },
			want:    []string{"amd.com/gpu amdgpu amd.com/gpu - deviceclass -1/-1", scanned},
		},
		"a resource of nodes and of a DeviceClass is not counted": {
			cluster: func(c *scripted) { c.classes = []resourcev1.DeviceClass{class("nvidia", "nvidia.com/gpu")} },
			want:    []string{"nvidia.com/gpu nvidia nvidia.com/gpu - nodes -1/-1"},
		},
		"a DeviceClass beside models of its resource": {
			cluster: func(c *scripted) {
				c.nodes[0].Labels = map[string]string{labelNVIDIAModel: "L40S"}
				c.classes = []resourcev1.DeviceClass{class("nvidia", "nvidia.com/gpu")}
			},
			want: []string{"nvidia.com/gpu nvidia nvidia.com/gpu - deviceclass -1/-1", "nvidia.com/gpu/L40S nvidia nvidia.com/gpu L40S nodes 3/4"},
		},
		"a DeviceClass that is capped at zero": {
			cluster: func(c *scripted) {
				c.nodes, c.classes, c.quotas = nil, []resourcev1.DeviceClass{class("nvidia", "nvidia.com/gpu")}, gpusCapped()
			},
		},
		"no right to DeviceClasses is none": {
			cluster: func(c *scripted) {
				c.classes = []resourcev1.DeviceClass{class("amd", "amd.com/gpu")}
				c.fail(kindClasses, forbidden())
			},
			want: []string{scanned},
		},
	}
}
