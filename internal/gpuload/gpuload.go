// Package gpuload asks Prometheus how busy the GPUs of nodes are, scores the nodes, and chooses the
// least busy one.
//
// A node's score is avg(DCGM_FI_DEV_GPU_UTIL) + avg(DCGM_FI_DEV_FB_USED)/1024 +
// avg(DCGM_FI_DEV_GPU_TEMP)/100 over the series with Hostname="<node>": percent, MiB and degrees
// Celsius. Without utilisation there is no score, because a node that nobody measures is not idle;
// a missing one of the other two counts as 0.
package gpuload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"config-server/internal/farm"
)

// DefaultTimeout is the limit of a round.
const DefaultTimeout = 3 * time.Second

const idleConns = 64

// Options of a Scorer.
type Options struct {
	URL     string        // base URL of Prometheus: PROM_URL
	Timeout time.Duration // of the whole round: HTTP_TIMEOUT_SEC; 0 = DefaultTimeout
	Client  *http.Client  // nil = one of its own
	// Called is told of each query; nil = nobody.
	Called farm.CallObserver
}

// Scorer scores nodes. It is safe for concurrent use.
type Scorer struct {
	api     prometheus.API
	timeout time.Duration
	called  farm.CallObserver
}

// New checks the URL.
func New(opts Options) (*Scorer, error) {
	parsed, err := url.Parse(opts.URL)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return nil, errors.New("URL of Prometheus must be an absolute http or https URL")
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Client == nil {
		opts.Client = &http.Client{Transport: newTransport()}
	}
	client, err := api.NewClient(api.Config{Address: opts.URL, Client: opts.Client})
	if err != nil {
		return nil, fmt.Errorf("set up Prometheus client: %w", err)
	}
	return &Scorer{api: prometheus.NewAPI(client), timeout: opts.Timeout, called: opts.Called}, nil
}

func newTransport() http.RoundTripper {
	shared, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	transport := shared.Clone()
	transport.MaxIdleConnsPerHost = idleConns
	return transport
}

// Scores asks for all nodes with one query. A node without data is absent from the map; every
// score in it is a finite number. Node names are compared as they are, so give them as the cluster
// spells them. No nodes, no query. An error means that nobody has a score.
func (s *Scorer) Scores(ctx context.Context, nodes []farm.NodeName) (map[farm.NodeName]float64, error) {
	if len(nodes) == 0 {
		return map[farm.NodeName]float64{}, nil
	}
	begin := time.Now()
	samples, err := s.query(ctx, queryFor(nodes))
	s.called.Tell(ctx, fmt.Sprintf("query GPU load of %d nodes", len(nodes)), begin, err)
	if err != nil {
		return nil, fmt.Errorf("query GPU load of %d nodes: %w", len(nodes), err)
	}
	return only(score(samples), nodes), nil
}

// only leaves out hosts that nobody asked for: a query for many nodes names none.
func only(scores map[farm.NodeName]float64, nodes []farm.NodeName) map[farm.NodeName]float64 {
	asked := make(map[farm.NodeName]float64, len(nodes))
	for _, name := range nodes {
		if value, known := scores[name]; known {
			asked[name] = value
		}
	}
	return asked
}

// Check tries whether Prometheus answers a query.
func (s *Scorer) Check(ctx context.Context) error {
	if _, err := s.query(ctx, "vector(1)"); err != nil {
		return fmt.Errorf("query Prometheus: %w", err)
	}
	return nil
}

func (s *Scorer) query(ctx context.Context, text string) (model.Vector, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %v: %w", s.timeout, context.DeadlineExceeded))
	defer cancel()
	// Warnings and infos of an answer that came are about its completeness; a node that is missing
	// from it has no score, which is all that they could tell.
	value, _, _, err := s.api.Query(ctx, text, time.Time{})
	if err != nil {
		return nil, plain(ctx, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return nil, fmt.Errorf("the answer is a %s, not a vector", value.Type())
	}
	return vector, nil
}

// plain leaves the URL, which may hold a credential, out of an error, and says "no answer within"
// rather than the library's words.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var inURL *url.Error
	if errors.As(err, &inURL) {
		return inURL.Err
	}
	var refused *prometheus.Error
	if errors.As(err, &refused) {
		return fmt.Errorf("%s: %s", refused.Type, farm.CutText(refused.Msg, 200))
	}
	return err
}

// score adds the readings up, node by node and always in the order of the formula, so that equal
// readings give equal scores to the last bit.
func score(samples model.Vector) map[farm.NodeName]float64 {
	values := map[string]map[farm.NodeName]float64{Utilisation: {}, MemoryUsed: {}, Temperature: {}}
	for _, sample := range samples {
		if of, known := values[reading(sample)]; known && finite(sample) {
			of[node(sample)] = float64(sample.Value)
		}
	}
	scores := make(map[farm.NodeName]float64, len(values[Utilisation]))
	for name, utilisation := range values[Utilisation] {
		scores[name] = utilisation + values[MemoryUsed][name]/1024 + values[Temperature][name]/100
	}
	return scores
}

func node(sample *model.Sample) farm.NodeName { return farm.NodeName(sample.Metric[HostLabel]) }

func reading(sample *model.Sample) string { return string(sample.Metric[ReadingLabel]) }

func finite(sample *model.Sample) bool {
	value := float64(sample.Value)
	return !math.IsNaN(value) && !math.IsInf(value, 0)
}

// Choose returns the node with the lowest score. On a tie the first in order wins; nodes without a
// score rank last, and the first of them is chosen if nobody has one. ok is false if order is empty.
func Choose(order []farm.NodeName, scores map[farm.NodeName]float64) (node farm.NodeName, ok bool) {
	best, scored := 0.0, false
	for i, name := range order {
		value, known := scores[name]
		if i == 0 || known && (!scored || value < best) {
			node, best, scored = name, value, known
		}
	}
	return node, len(order) > 0
}
