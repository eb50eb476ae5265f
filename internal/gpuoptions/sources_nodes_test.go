package gpuoptions

// nodeSources are what nodes offer, and the own node where they may not be read.
func nodeSources() map[string]sourceCase {
	return map[string]sourceCase{
		"nodes": {want: []string{scanned}},
		"no right to nodes, no quotas: the own node": {
			cluster: func(c *scripted) { c.fail(kindNodes, forbidden()) },
			own:     "amdgpu", want: []string{"amd.com/gpu amdgpu amd.com/gpu - node -1/1"},
		},
		"no right to nodes nor quotas: the own node": {
			cluster: func(c *scripted) { c.fail(kindNodes, forbidden()); c.fail(kindQuotas, forbidden()) },
			own:     "xe", want: []string{"gpu.intel.com/xe xe gpu.intel.com/xe - node -1/1"},
		},
		"no right to all pods: this namespace's": {
			cluster:  func(c *scripted) { c.fail(kindAllPods, forbidden()); c.ownPods = nil },
			want:     []string{"nvidia.com/gpu nvidia nvidia.com/gpu - nodes 4/4"},
			warnings: []string{"this namespace only"},
		},
		"no right to pods at all": {
			cluster:  func(c *scripted) { c.fail(kindAllPods, forbidden()); c.fail(kindPods, forbidden()) },
			want:     []string{"nvidia.com/gpu nvidia nvidia.com/gpu - nodes -1/4"},
			warnings: []string{"free is not known"},
		},
		"pods that cannot be listed": {
			cluster:  func(c *scripted) { c.fail(kindAllPods, silent()) },
			want:     []string{"nvidia.com/gpu nvidia nvidia.com/gpu - nodes -1/4"},
			warnings: []string{"free is not known"},
		},
	}
}
