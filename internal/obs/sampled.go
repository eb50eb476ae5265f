package obs

import (
	"github.com/prometheus/client_golang/prometheus"
)

// sample is one value with its label values, in the order of the labels.
type sample struct {
	value  float64
	labels []string
}

// sampled is a metric whose values are read when it is scraped.
type sampled struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func() ([]sample, error)
}

// sampled registers such a metric. While read fails its series are absent.
func (m *Metrics) sampled(kind prometheus.ValueType, name, help string, labels []string, read func() ([]sample, error)) {
	m.registry.MustRegister(&sampled{prometheus.NewDesc(prefix+name, help, labels, nil), kind, read})
}

// Describe implements prometheus.Collector.
func (s *sampled) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

// Collect implements prometheus.Collector.
func (s *sampled) Collect(out chan<- prometheus.Metric) {
	samples, err := s.read()
	if err != nil {
		out <- prometheus.NewInvalidMetric(s.desc, err)
		return
	}
	for _, one := range samples {
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, one.value, one.labels...)
	}
}

// Workspaces has every scrape tell how many workspaces are in each state. count must ask nobody; while
// it reports false the series are absent.
func (m *Metrics) Workspaces(count func() (map[string]int, bool)) {
	m.sampled(prometheus.GaugeValue, "workspaces", "Workspace pods, by state (pending, starting, ready, ended, terminating).",
		[]string{"state"}, func() ([]sample, error) {
			states, known := count()
			if !known {
				return nil, nil
			}
			var samples []sample
			for state, n := range states {
				samples = append(samples, sample{float64(n), []string{word(state)}})
			}
			return samples, nil
		})
}

// Watch tells how one watch of the API server is.
type Watch struct {
	Objects  string // what it watches, in plural
	Fresh    bool   // what is kept can be relied on
	Failures int64  // LISTs and WATCHes that failed since the start
}

// Watches has every scrape tell how the watches are. state must ask nobody.
func (m *Metrics) Watches(state func() []Watch) {
	read := func(value func(Watch) float64) func() ([]sample, error) {
		return func() ([]sample, error) {
			var samples []sample
			for _, watch := range state() {
				samples = append(samples, sample{value(watch), []string{word(watch.Objects)}})
			}
			return samples, nil
		}
	}
	m.sampled(prometheus.GaugeValue, "watch_fresh", "1 if what a watch has kept can be relied on, else 0, by kind of object (nodes, pods, services).",
		[]string{"objects"}, read(func(w Watch) float64 { return truth(w.Fresh) }))
	m.sampled(prometheus.CounterValue, "watch_failures_total", "LISTs and WATCHes that failed, by kind of object (nodes, pods, services).",
		[]string{"objects"}, read(func(w Watch) float64 { return float64(w.Failures) }))
}

// LedgerSize is the size of the account files.
type LedgerSize struct {
	Users, Groups int
	Bytes         map[string]int64 // by file
}

// Ledger has every scrape tell the size of the account files. last must not touch the share, which may
// hang; while it reports false the series are absent.
func (m *Metrics) Ledger(last func() (LedgerSize, bool)) {
	read := func(samples func(LedgerSize) []sample) func() ([]sample, error) {
		return func() ([]sample, error) {
			size, known := last()
			if !known {
				return nil, nil
			}
			return samples(size), nil
		}
	}
	m.sampled(prometheus.GaugeValue, "ledger_users", "Accounts in passwd when it was last read, those of the base system included.", nil,
		read(func(s LedgerSize) []sample { return []sample{{value: float64(s.Users)}} }))
	m.sampled(prometheus.GaugeValue, "ledger_groups", "Groups in group when it was last read, those of the base system included.", nil,
		read(func(s LedgerSize) []sample { return []sample{{value: float64(s.Groups)}} }))
	m.sampled(prometheus.GaugeValue, "ledger_bytes", "Size of the account files when they were last read, by file (passwd, group, shadow).", []string{"file"},
		read(func(s LedgerSize) []sample {
			var samples []sample
			for file, n := range s.Bytes {
				samples = append(samples, sample{float64(n), []string{file}})
			}
			return samples
		}))
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
