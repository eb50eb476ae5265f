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

// portsLimit bounds the look at the ports, so that a database that hangs holds up no scrape.
const portsLimit = time.Second

// NodePorts has every scrape tell, for each band, how many NodePorts are used and how many are free.
// taken lists the used ports, in any order and with repetitions; while it fails the series are absent.
// It is called once for a registry.
func (m *Metrics) NodePorts(bands []PortBand, taken func(ctx context.Context) ([]int, error)) {
	m.registry.MustRegister(&portCollector{
		bands: bands, taken: taken,
		desc: prometheus.NewDesc("config_server_nodeports",
			"NodePorts by band (all: the whole range; reachable: those that callers outside the farm reach) and state (used, free).",
			[]string{"band", "state"}, nil),
	})
}

type portCollector struct {
	bands []PortBand
	taken func(ctx context.Context) ([]int, error)
	desc  *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *portCollector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c *portCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), portsLimit)
	defer cancel()
	ports, err := c.taken(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.desc, err)
		return
	}
	seen := make(map[int]bool, len(ports))
	for _, port := range ports {
		seen[port] = true
	}
	for _, band := range c.bands {
		used := 0
		for port := range seen {
			if port >= band.Min && port <= band.Max {
				used++
			}
		}
		free := band.Max - band.Min + 1 - used
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(used), band.Name, "used")
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(free), band.Name, "free")
	}
}
