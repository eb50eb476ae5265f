package obs

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// AuditCounts is what the metrics tell of the last audit.
type AuditCounts struct {
	CheckedAt time.Time      // the zero time = none has come to its end yet
	Findings  map[string]int // by kind
}

// auditLimit bounds the look at the last audit, so that a database that hangs holds up no scrape.
const auditLimit = time.Second

// Audit has every scrape tell when the last audit was and how many findings of each kind it had; a
// kind without one is told as 0. Nothing is told while last fails and before the first audit. It is
// called once for a registry.
func (m *Metrics) Audit(kinds []string, last func(ctx context.Context) (AuditCounts, error)) {
	m.registry.MustRegister(&auditCollector{
		kinds: kinds, last: last,
		findings: prometheus.NewDesc("config_server_audit_findings",
			"Findings of the last audit, by kind; every replica tells the same.", []string{"kind"}, nil),
		checked: prometheus.NewDesc("config_server_audit_timestamp_seconds",
			"Time of the last audit that came to its end, in Unix seconds.", nil, nil),
	})
}

type auditCollector struct {
	kinds             []string
	last              func(ctx context.Context) (AuditCounts, error)
	findings, checked *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c *auditCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.findings
	out <- c.checked
}

// Collect implements prometheus.Collector.
func (c *auditCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), auditLimit)
	defer cancel()
	last, err := c.last(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.findings, err)
		return
	}
	if last.CheckedAt.IsZero() {
		return
	}
	for _, kind := range c.kinds {
		out <- prometheus.MustNewConstMetric(c.findings, prometheus.GaugeValue, float64(last.Findings[kind]), kind)
	}
	out <- prometheus.MustNewConstMetric(c.checked, prometheus.GaugeValue, float64(last.CheckedAt.Unix()))
}
