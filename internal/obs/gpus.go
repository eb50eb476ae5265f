package obs

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// gpusLimit bounds the count of the GPUs, so that an API server that hangs holds up no scrape for long.
	gpusLimit = 3 * time.Second
	// maxGPUKinds bounds the pairs of resource and model that are told: names of models come from labels of nodes.
	maxGPUKinds = 50
)

// GPUs counts the GPUs of one resource and model, which is empty where nodes name none.
type GPUs struct {
	Resource, Model string
	Free, Total     int64
}

// GPUs has every scrape tell how many GPUs are used and how many are free, of the first kinds that count
// lists. While count fails, or does not know any, the series are absent.
func (m *Metrics) GPUs(count func(ctx context.Context) ([]GPUs, error)) {
	m.sampled(prometheus.GaugeValue, "gpus", "GPUs of the nodes that take workspaces, by resource, model (the node's label; empty = none) and state (used, free).",
		[]string{"resource", "model", "state"}, func() ([]sample, error) {
			ctx, cancel := context.WithTimeout(context.Background(), gpusLimit)
			defer cancel()
			kinds, err := count(ctx)
			if err != nil {
				return nil, nil // the other metrics are to be told all the same
			}
			var samples []sample
			for _, kind := range kinds[:min(len(kinds), maxGPUKinds)] {
				samples = append(samples,
					sample{float64(kind.Free), []string{kind.Resource, kind.Model, "free"}},
					sample{float64(kind.Total - kind.Free), []string{kind.Resource, kind.Model, "used"}})
			}
			return samples, nil
		})
}
