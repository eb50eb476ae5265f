package obs

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// PortBand is a range of NodePorts, both ends included, under the name that its series bear.
type PortBand struct {
	Name     string
	Min, Max int
}

// Fill counts the ports of the band that are used and those that are free. taken may be in any order,
// with repetitions and with ports of other bands.
func (b PortBand) Fill(taken []int) (used, free int) {
	seen := make(map[int]bool, len(taken))
	for _, port := range taken {
		if port >= b.Min && port <= b.Max {
			seen[port] = true
		}
	}
	return len(seen), b.Max - b.Min + 1 - len(seen)
}

// portsLimit bounds the look at the ports, so that a database that hangs holds up no scrape.
const portsLimit = time.Second

// NodePorts has every scrape tell, for each band, how many NodePorts are used and how many are free.
// taken lists the used ports, in any order and with repetitions; while it fails the series are absent.
// It is called once for a registry.
func (m *Metrics) NodePorts(bands []PortBand, taken func(ctx context.Context) ([]int, error)) {
	m.sampled(prometheus.GaugeValue, "nodeports",
		"NodePorts by band (all: the whole range; reachable: those that callers outside the farm reach) and state (used, free).",
		[]string{"band", "state"}, func() ([]sample, error) {
			ctx, cancel := context.WithTimeout(context.Background(), portsLimit)
			defer cancel()
			ports, err := taken(ctx)
			if err != nil {
				return nil, err
			}
			var samples []sample
			for _, band := range bands {
				used, free := band.Fill(ports)
				samples = append(samples, sample{float64(used), []string{band.Name, "used"}}, sample{float64(free), []string{band.Name, "free"}})
			}
			return samples, nil
		})
}
