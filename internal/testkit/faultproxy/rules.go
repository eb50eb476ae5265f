// Package faultproxy stands between the service and its real parts and breaks single calls: HTTP
// (Kubernetes, Prometheus) by method and path, MySQL by the text of a statement. What it does not
// break passes as it is.
package faultproxy

import (
	"sync"
	"time"
)

// past is a deadline that is over: it ends what still reads or writes.
var past = time.Unix(1, 0)

// rules hands out faults: the first that fits a call, and is neither skipped nor used up, hits it.
type rules[F any] struct {
	mu    sync.Mutex
	list  []*rule[F]
	fits  func(fault F, call string) bool
	count func(fault F) (skip, times int)
}

type rule[F any] struct {
	fault F
	seen  int
	hits  int
}

// set replaces all faults.
func (r *rules[F]) set(faults []F) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = nil
	for _, fault := range faults {
		r.list = append(r.list, &rule[F]{fault: fault})
	}
}

// take returns the fault that hits a call.
func (r *rules[F]) take(call string) (fault F, hit bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rule := range r.list {
		if !r.fits(rule.fault, call) {
			continue
		}
		skip, times := r.count(rule.fault)
		rule.seen++
		if rule.seen <= skip || times > 0 && rule.hits >= times {
			continue
		}
		rule.hits++
		return rule.fault, true
	}
	return fault, false
}

// hits tells how often each fault has hit, in the order in which they were set.
func (r *rules[F]) hits() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	hits := make([]int, len(r.list))
	for i, rule := range r.list {
		hits[i] = rule.hits
	}
	return hits
}
