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
