package obs

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"config-server/internal/saga"
)

// Build says which program runs.
type Build struct {
	Version  string // for example v1.2.0; "dev" outside of releases
	Revision string // commit of the source, "" = unknown
	Go       string // runtime.Version()
}

// Other stands for a label value that is not in its closed set, so that no caller can make series.
const Other = "other"

// Reasons of an allocator's retry.
const (
	RetryDeadlock    = "deadlock"     // MySQL 1213, or SQLite busy
	RetryLockTimeout = "lock_timeout" // MySQL 1205
	RetryDuplicate   = "duplicate"    // MySQL 1062
	RetryPortTaken   = "port_taken"   // the API server says that the port belongs to another Service
	RetryConnection  = "connection"   // the connection to the database broke
)

// Hosts of an SSH reconnect.
const (
	SSHNAS  = "nas"
	SSHFarm = "farm"
)

// Results of a step.
const (
	ResultOK     = "ok"
	ResultError  = "error"
	ResultUndone = "undone" // of an undo: something existed and is gone
	ResultNone   = "none"   // of an undo: there was nothing to take back
)

// Metrics are the instruments of one process on a registry of their own. All label sets are closed:
// route patterns, methods, status codes, names of use cases and steps, and the constants above.
type Metrics struct {
	registry       *prometheus.Registry
	requests       *prometheus.CounterVec
	duration       *prometheus.HistogramVec
	inFlight       prometheus.Gauge
	panics         prometheus.Counter
	steps          *prometheus.HistogramVec
	undos          *prometheus.CounterVec
	allocatorTries *prometheus.CounterVec
	reconnects     *prometheus.CounterVec
}

// Buckets in seconds: requests and steps range from a file read to a wait of minutes.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// NewMetrics makes the instruments and registers them together with the usual collectors of the Go
// runtime and of the process.
func NewMetrics(build Build) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "config_server_http_requests_total",
			Help: "Requests answered, by route pattern, method and status code.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "config_server_http_request_duration_seconds",
			Help:    "Time from the request's header to the end of the answer, by route pattern and method.",
			Buckets: buckets,
		}, []string{"route", "method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "config_server_http_requests_in_flight",
			Help: "Requests that are being worked on.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "config_server_http_panics_total",
			Help: "Handlers that panicked and were answered with 500.",
		}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "config_server_step_duration_seconds",
			Help:    "Time of a use case's step, by use case, step and result (ok, error).",
			Buckets: buckets,
		}, []string{"use_case", "step", "result"}),
		undos: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "config_server_undo_total",
			Help: "Undos run, by use case, step and result (undone, none, error).",
		}, []string{"use_case", "step", "result"}),
		allocatorTries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "config_server_allocator_retries_total",
			Help: "NodePort transactions that were tried again, by reason.",
		}, []string{"reason"}),
		reconnects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "config_server_ssh_reconnects_total",
			Help: "SSH connections that had to be opened again, by kind of host (nas, farm).",
		}, []string{"host"}),
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "config_server_build_info",
		Help:        "Always 1; the labels say which program runs.",
		ConstLabels: prometheus.Labels{"version": build.Version, "revision": build.Revision, "goversion": build.Go},
	})
	info.Set(1)
	m.registry.MustRegister(m.requests, m.duration, m.inFlight, m.panics, m.steps, m.undos, m.allocatorTries, m.reconnects, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Registry is where other packages' collectors are registered.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves /metrics. A collector that fails costs its own series only.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
		Registry:      m.registry,
	})
}

// Begin counts a request that is being worked on; the returned function ends it.
func (m *Metrics) Begin() (end func()) {
	m.inFlight.Inc()
	return m.inFlight.Dec
}

// Request counts an answer. The route is a pattern of the router, never a path.
func (m *Metrics) Request(route, method string, code int, took time.Duration) {
	method = oneOf(method, http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete)
	m.requests.WithLabelValues(route, method, statusLabel(code)).Inc()
	m.duration.WithLabelValues(route, method).Observe(took.Seconds())
}

// Panicked counts a panic that was turned into an answer.
func (m *Metrics) Panicked() { m.panics.Inc() }

// Observe is a saga.Observer: it times steps and counts undos. Names of use cases and steps are
// constants of the code; a name that is no plain word counts as other.
func (m *Metrics) Observe(_ context.Context, event saga.Event) {
	useCase, step := word(event.UseCase), word(event.Step)
	switch event.Phase {
	case saga.After:
		m.steps.WithLabelValues(useCase, step, result(event.Err, ResultOK)).Observe(event.Elapsed.Seconds())
	case saga.AfterUndo:
		done := ResultNone
		if event.Undone {
			done = ResultUndone
		}
		m.undos.WithLabelValues(useCase, step, result(event.Err, done)).Inc()
	}
}

// AllocatorRetry counts a transaction of the allocator that is tried again, by one of the Retry reasons.
func (m *Metrics) AllocatorRetry(reason string) {
	m.allocatorTries.WithLabelValues(oneOf(reason, RetryDeadlock, RetryLockTimeout, RetryDuplicate, RetryPortTaken, RetryConnection)).Inc()
}

// SSHReconnect counts a connection that is opened again, by SSHNAS or SSHFarm.
func (m *Metrics) SSHReconnect(host string) {
	m.reconnects.WithLabelValues(oneOf(host, SSHNAS, SSHFarm)).Inc()
}

func result(err error, otherwise string) string {
	if err != nil {
		return ResultError
	}
	return otherwise
}

func oneOf(value string, set ...string) string {
	for _, known := range set {
		if value == known {
			return value
		}
	}
	return Other
}

func statusLabel(code int) string {
	if code < 100 || code > 599 {
		return Other
	}
	return strconv.Itoa(code)
}

// word keeps short names made of letters, digits, '_', '-' and ':', which stands before the part of a step.
func word(name string) string {
	if name == "" || len(name) > 48 {
		return Other
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == ':':
		default:
			return Other
		}
	}
	return name
}
