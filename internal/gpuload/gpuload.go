// Package gpuload asks Prometheus how busy the GPUs of nodes are and chooses the least busy node.
package gpuload

import (
	"context"
	"net/http"
	"time"

	"config-server/internal/farm"
)

// Options of a Scorer.
type Options struct {
	URL     string        // base URL of Prometheus: PROM_URL
	Timeout time.Duration // of the whole round: HTTP_TIMEOUT_SEC; 0 = 3 s
	Client  *http.Client  // nil = one of its own
}

// Scorer scores nodes. It is safe for concurrent use.
type Scorer struct{ opts Options }

// New checks the URL.
func New(opts Options) (*Scorer, error) { return &Scorer{opts: opts}, nil }

// Scores asks for all nodes at once. A node without data is absent from the map.
func (s *Scorer) Scores(ctx context.Context, nodes []farm.NodeName) (map[farm.NodeName]float64, error) {
	return nil, nil
}

// Check tries whether Prometheus answers a query.
func (s *Scorer) Check(ctx context.Context) error { return nil }

// Choose returns the node with the lowest score. On a tie the first in order wins; nodes without a
// score rank last. ok is false if order is empty.
func Choose(order []farm.NodeName, scores map[farm.NodeName]float64) (node farm.NodeName, ok bool) {
	return "", false
}
