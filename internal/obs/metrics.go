package obs

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"config-server/internal/farm"
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

// Reasons of an allocator's or a database's retry.
const (
	RetryDeadlock    = "deadlock"     // MySQL 1213, or SQLite busy
	RetryLockTimeout = "lock_timeout" // MySQL 1205
	RetryDuplicate   = "duplicate"    // MySQL 1062
	RetryPortTaken   = "port_taken"   // the API server says that the port belongs to another Service
	RetryConnection  = "connection"   // the connection to the database broke
)

// Hosts of SSH connections.
const (
	SSHNAS  = "nas"
	SSHFarm = "farm"
)

// Outside parts, as calls to them are counted.
const (
	PartAdminBE    = "admin_be"
	PartPrometheus = "prometheus"
	PartKubernetes = "kubernetes"
	PartDatabase   = "database"
	PartNAS        = "nas"
	PartFarm       = "farm" // farm nodes, by SSH
	PartKDC        = "kdc"
	PartEngine     = "engine" // what loads saved images
	PartRedis      = "redis"
	PartRegistry   = "registry" // where images come from
)

// Locks, as waits for them are counted.
const (
	LockLedger   = "ledger"
	LockUser     = "user"
	LockInstance = "instance"
)

// Results of a step, a call or a wait.
const (
	ResultOK        = "ok"
	ResultError     = "error"
	ResultCancelled = "cancelled" // the caller did not want it any more
	ResultTimeout   = "timeout"   // of a wait for a lock
	ResultBusy      = "busy"      // of the reconciler's pass: another instance was at it
	ResultUndone    = "undone"    // of an undo: something existed and is gone
	ResultNone      = "none"      // of an undo: there was nothing to take back
)

// Metrics are the instruments of one process on a registry of their own. All label sets are closed:
// route patterns, methods, status codes, names of use cases and steps, and constants of the code.
// Series of the smaller sets are there from the start, at 0, so that their first event is an increase.
type Metrics struct {
	registry *prometheus.Registry

	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	panics   prometheus.Counter
	ready    *prometheus.GaugeVec

	steps         *prometheus.HistogramVec
	stepFailures  *prometheus.CounterVec
	undos         *prometheus.CounterVec
	undoFailures  prometheus.Counter
	readyFailures *prometheus.CounterVec

	calls           *prometheus.HistogramVec
	allocatorTries  *prometheus.CounterVec
	databaseRetries *prometheus.CounterVec
	connects        *prometheus.CounterVec
	reconnects      *prometheus.CounterVec
	lockWaits       *prometheus.HistogramVec

	passes      *prometheus.CounterVec
	passTime    prometheus.Histogram
	lastSuccess prometheus.Gauge
	interval    prometheus.Gauge
	auditEvery  prometheus.Gauge
	actions     *prometheus.CounterVec
	found       atomic.Pointer[map[Found]int] // of the last pass
}

// Buckets in seconds. Requests, steps and calls range from a file read to a wait of minutes; waits for
// locks and passes of the reconciler are coarser.
var (
	buckets     = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	waitBuckets = []float64{.001, .01, .1, .5, 1, 2, 5, 10, 30, 120}
)

// NewMetrics makes the instruments and registers them together with the usual collectors of the Go
// runtime and of the process.
func NewMetrics(build Build) *Metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := factory{promauto.With(registry)}
	m := &Metrics{
		registry: registry,

		requests: f.counters("http_requests_total", "Requests answered, by route pattern, method and status code.", "route", "method", "code"),
		duration: f.histograms("http_request_duration_seconds",
			"Time from the request's header to the end of the answer, by route pattern and method.", buckets, "route", "method"),
		inFlight: f.gauge("http_requests_in_flight", "Requests that are being worked on."),
		panics:   f.counter("http_panics_total", "Handlers that panicked and were answered with 500."),
		ready:    f.gauges("part_ready", "1 if the part was well when it was last asked, by the service itself or by /readyz, else 0.", "part"),

		steps: f.histograms("step_duration_seconds", "Time of a use case's step, by use case, step and result (ok, error).",
			buckets, "use_case", "step", "result"),
		stepFailures:  f.counters("step_failures_total", "Steps that failed, by use case and step; 0 from the first time that the step is run.", "use_case", "step"),
		undos:         f.counters("undo_total", "Undos run, by use case, step and result (undone, none, error).", "use_case", "step", "result"),
		undoFailures:  f.counter("undo_failures_total", "Undos that failed, of whatever step."),
		readyFailures: f.counters("ready_failures_total", "New workspaces that did not get Ready, by reason.", "reason"),

		calls: f.histograms("call_duration_seconds", "Time of a call to an outside part, by part and result (ok, error, cancelled).",
			buckets, "part", "result"),
		allocatorTries:  f.counters("allocator_retries_total", "Reservations of NodePorts that were tried again, by reason.", "reason"),
		databaseRetries: f.counters("database_retries_total", "Other transactions, statements and reads that were tried again, by reason.", "reason"),
		connects:        f.counters("ssh_connects_total", "Attempts to open an SSH connection, by kind of host (nas, farm) and result (ok, error).", "host", "result"),
		reconnects:      f.counters("ssh_reconnects_total", "Attempts made because an SSH connection was gone, by kind of host (nas, farm).", "host"),
		lockWaits: f.histograms("lock_wait_seconds", "Waits for a lock, by kind of lock (ledger, user, instance, other) and result (ok, timeout, cancelled, error).",
			waitBuckets, "lock", "result"),

		passes:      f.counters("reconciler_passes_total", "Passes of the reconciler, by result (ok, error, busy).", "result"),
		passTime:    f.histogram("reconciler_pass_duration_seconds", "Time of a pass of the reconciler.", waitBuckets),
		lastSuccess: f.gauge("reconciler_last_success_timestamp_seconds", "Unix time of the end of the last pass without an error; at first, that of the start."),
		interval:    f.gauge("reconciler_interval_seconds", "Time between two passes; 0 = there is one at the start and no other."),
		auditEvery:  f.gauge("audit_interval_seconds", "Time between two audits; 0 = there are none."),
		actions:     f.counters("reconciler_actions_total", "Findings of all passes, by kind and action (wait, done, reported, failed).", "kind", "action"),
	}
	f.gauges("build_info", "Always 1; the labels say which program runs.", "version", "revision", "goversion").
		WithLabelValues(build.Version, build.Revision, build.Go).Set(1)
	m.sampled(prometheus.GaugeValue, "reconciler_findings", "Findings of the last pass, by kind and action (wait, done, reported, failed).",
		[]string{"kind", "action"}, m.lastFound)
	m.beginAtZero()
	return m
}

// beginAtZero makes the series of the small label sets.
func (m *Metrics) beginAtZero() {
	for _, reason := range farm.ReadyReasons() {
		m.readyFailures.WithLabelValues(string(reason))
	}
	for _, reason := range retries {
		m.allocatorTries.WithLabelValues(reason)
	}
	for _, result := range []string{ResultOK, ResultTimeout} {
		m.lockWaits.WithLabelValues(LockLedger, result)
	}
	for _, result := range []string{ResultOK, ResultError, ResultBusy} {
		m.passes.WithLabelValues(result)
	}
	for _, host := range []string{SSHNAS, SSHFarm} {
		m.reconnects.WithLabelValues(host)
		m.connects.WithLabelValues(host, ResultOK)
		m.connects.WithLabelValues(host, ResultError)
	}
	m.lastSuccess.SetToCurrentTime()
}

var retries = []string{RetryDeadlock, RetryLockTimeout, RetryDuplicate, RetryPortTaken, RetryConnection}

// Registry is where other packages' collectors are registered.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves /metrics. A collector that fails costs its own series only.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError,
		Registry:      m.registry,
	})
}

// Expect makes the series of a route's failures, so that the first failure is an increase. It is called
// once for each route.
func (m *Metrics) Expect(route, method string) {
	for _, code := range []int{http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable} {
		m.requests.WithLabelValues(route, method, statusLabel(code))
	}
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

// PartReady keeps what /readyz found of a part, which is named by a constant of the code.
func (m *Metrics) PartReady(part string, ready bool) {
	m.ready.WithLabelValues(word(part)).Set(truth(ready))
}

// Observe is a saga.Observer: it times steps and counts undos. Names of use cases and steps are
// constants of the code; a name that is no plain word counts as other.
func (m *Metrics) Observe(_ context.Context, event saga.Event) {
	useCase, step := word(event.UseCase), word(event.Step)
	switch event.Phase {
	case saga.Before:
		m.stepFailures.WithLabelValues(useCase, step)
	case saga.After:
		m.steps.WithLabelValues(useCase, step, result(event.Err, ResultOK)).Observe(event.Elapsed.Seconds())
		if event.Err != nil {
			m.stepFailures.WithLabelValues(useCase, step).Inc()
		}
	case saga.AfterUndo:
		if event.Err != nil {
			m.undoFailures.Inc()
		}
		done := ResultNone
		if event.Undone {
			done = ResultUndone
		}
		m.undos.WithLabelValues(useCase, step, result(event.Err, done)).Inc()
	}
}

// ReadyFailed counts a new workspace that did not get Ready.
func (m *Metrics) ReadyFailed(reason farm.ReadyReason) {
	m.readyFailures.WithLabelValues(string(oneOf(reason, farm.ReadyReasons()...))).Inc()
}

// PortTaken counts a reserved NodePort that turned out to be somebody else's.
func (m *Metrics) PortTaken() { m.AllocatorRetry(RetryPortTaken) }

// AllocatorRetry counts a reservation of NodePorts that is tried again, by one of the Retry reasons.
func (m *Metrics) AllocatorRetry(reason string) {
	m.allocatorTries.WithLabelValues(oneOf(reason, retries...)).Inc()
}

// DatabaseRetry counts any other use of the database that is tried again.
func (m *Metrics) DatabaseRetry(reason string) {
	m.databaseRetries.WithLabelValues(oneOf(reason, retries...)).Inc()
}

// SSHConnect counts an attempt to open a connection to SSHNAS or SSHFarm. again says that it was made
// because an earlier connection was gone.
func (m *Metrics) SSHConnect(host string, again bool, err error) {
	host = oneOf(host, SSHNAS, SSHFarm)
	m.connects.WithLabelValues(host, result(err, ResultOK)).Inc()
	if again {
		m.reconnects.WithLabelValues(host).Inc()
	}
}

// LockWaited times a wait for one of the Locks.
func (m *Metrics) LockWaited(lock, result string, took time.Duration) {
	lock = oneOf(lock, LockLedger, LockUser, LockInstance)
	result = oneOf(result, ResultOK, ResultTimeout, ResultCancelled, ResultError)
	m.lockWaits.WithLabelValues(lock, result).Observe(took.Seconds())
}

// Found is a kind of finding of the reconciler and what was done about it; both are constants of the
// code.
type Found struct{ Kind, Action string }

// ReconcilerEvery keeps the time between two passes; 0 = there is one at the start and no other.
func (m *Metrics) ReconcilerEvery(interval time.Duration) { m.interval.Set(interval.Seconds()) }

// AuditEvery keeps the time between two audits; 0 = there are none.
func (m *Metrics) AuditEvery(interval time.Duration) { m.auditEvery.Set(interval.Seconds()) }

// ReconcilerPass keeps the outcome of a pass: ResultOK, ResultError or ResultBusy, and how many of
// each finding there were. The map is not to be changed afterwards.
func (m *Metrics) ReconcilerPass(result string, took time.Duration, found map[Found]int) {
	m.passes.WithLabelValues(oneOf(result, ResultOK, ResultError, ResultBusy)).Inc()
	m.passTime.Observe(took.Seconds())
	if result == ResultOK {
		m.lastSuccess.SetToCurrentTime()
	}
	for f, n := range found {
		m.actions.WithLabelValues(f.Kind, f.Action).Add(float64(n))
	}
	m.found.Store(&found)
}

func (m *Metrics) lastFound() ([]sample, error) {
	found := m.found.Load()
	if found == nil {
		return nil, nil
	}
	var samples []sample
	for f, n := range *found {
		samples = append(samples, sample{float64(n), []string{f.Kind, f.Action}})
	}
	return samples, nil
}

// factory makes and registers instruments whose names begin with the program's.
type factory struct{ promauto.Factory }

const prefix = "config_server_"

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: prefix + name, Help: help})
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels)
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.NewHistogram(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets})
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
}

func result(err error, otherwise string) string {
	if err != nil {
		return ResultError
	}
	return otherwise
}

func oneOf[T ~string](value T, set ...T) T {
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
