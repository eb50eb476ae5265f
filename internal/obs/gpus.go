package obs

import (
	"github.com/prometheus/client_golang/prometheus"
)

// maxGPUKinds bounds the pairs of resource and model that are told: names of models come from labels of nodes.
const maxGPUKinds = 50

// GPUs counts the GPUs of one resource and model, which is empty where nodes name none.
type GPUs struct {
	Resource, Model string
	Free, Total     int64
}

// GPUs has every scrape tell how many GPUs are used and how many are free, of the first kinds that count
// lists. count must ask nobody; the series of what it does not list are absent.
func (m *Metrics) GPUs(count func() []GPUs) {
	m.sampled(prometheus.GaugeValue, "gpus", "GPUs of the nodes that take workspaces, by resource, model (the node's label; empty = none) and state (used, free).",
		[]string{"resource", "model", "state"}, func() ([]sample, error) {
			kinds := count()
			var samples []sample
			for _, kind := range kinds[:min(len(kinds), maxGPUKinds)] {
				samples = append(samples,
					sample{float64(kind.Free), []string{kind.Resource, kind.Model, "free"}},
					sample{float64(kind.Total - kind.Free), []string{kind.Resource, kind.Model, "used"}})
			}
			return samples, nil
		})
}

// GPUDevices counts the GPU device files of one node. Free is -1 where nobody knows how many there are.
type GPUDevices struct {
	Node       string
	Used, Free int
}

// GPUDevices has every scrape tell how many GPU device files of each node workspaces have, and how many are
// free. count must ask nobody; the series of what it does not list are absent.
func (m *Metrics) GPUDevices(count func() []GPUDevices) {
	m.sampled(prometheus.GaugeValue, "gpu_devices", "GPU device files of nodes, by node and state (used: a workspace has it, free).",
		[]string{"node", "state"}, func() ([]sample, error) {
			var samples []sample
			for _, node := range count() {
				samples = append(samples, sample{float64(node.Used), []string{node.Node, "used"}})
				if node.Free >= 0 {
					samples = append(samples, sample{float64(node.Free), []string{node.Node, "free"}})
				}
			}
			return samples, nil
		})
}
