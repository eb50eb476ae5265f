package app

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"config-server/internal/config"
	"config-server/internal/database"
	"config-server/internal/farm"
	"config-server/internal/nodeports"
	"config-server/internal/obs"
	"config-server/internal/reconciler"
)

// tellStates has every scrape tell the states of the parts. It costs one query for the rows of the
// NodePorts, and asks nothing else of anybody.
func (p *parts) tellStates(c config.Config, ports *nodeports.Allocator) {
	p.metrics.NodePorts(portBands(c), func(ctx context.Context) ([]int, error) { return usedPorts(ctx, ports, p.cluster) })
	p.metrics.Workspaces(p.cluster.PodStates)
	p.metrics.Watches(func() []obs.Watch {
		var watches []obs.Watch
		for _, state := range p.cluster.Watches() {
			watches = append(watches, obs.Watch(state))
		}
		return watches
	})
	p.metrics.Ledger(func() (obs.LedgerSize, bool) {
		size, known := p.ledger.LastSize()
		return obs.LedgerSize{
			Users: size.Users, Groups: size.Groups,
			Bytes: map[string]int64{"passwd": size.Passwd, "group": size.Group, "shadow": size.Shadow},
		}, known
	})
	for name, pool := range p.database.Pools() {
		p.metrics.Registry().MustRegister(collectors.NewDBStatsCollector(pool, name))
	}
	p.metrics.ReconcilerEvery(c.Reconciler.Interval.Duration())
	p.metrics.AuditEvery(c.Audit.Interval.Duration())
}

// retries counts and logs what the database has to be asked once more: reservations of NodePorts apart
// from the rest.
func (a *App) retries(metrics *obs.Metrics) func(ctx context.Context, name, reason string) {
	return func(ctx context.Context, name, reason string) {
		if nodeports.Reserves(name) {
			metrics.AllocatorRetry(retryReason(reason))
		} else {
			metrics.DatabaseRetry(retryReason(reason))
		}
		a.log.InfoContext(ctx, "the database is asked once more", "what", name, "reason", reason)
	}
}

// retryReason maps the database's words to the metric's closed set.
func retryReason(reason string) string {
	switch reason {
	case database.ReasonDeadlock:
		return obs.RetryDeadlock
	case database.ReasonLockWait:
		return obs.RetryLockTimeout
	case database.ReasonDuplicate:
		return obs.RetryDuplicate
	}
	return obs.RetryConnection
}

// lockWaits times waits for locks by their kind, which is what stands before the name of whom they
// guard.
func lockWaits(metrics *obs.Metrics) func(name string, took time.Duration, err error) {
	return func(name string, took time.Duration, err error) {
		kind, _, _ := strings.Cut(name, "/")
		result := obs.ResultOK
		switch {
		case err == nil:
		case errors.Is(err, farm.ErrLockTimeout):
			result = obs.ResultTimeout
		case errors.Is(err, context.Canceled):
			result = obs.ResultCancelled
		default:
			result = obs.ResultError
		}
		metrics.LockWaited(kind, result, took)
	}
}

// passed keeps the outcome of each pass of the reconciler.
func passed(metrics *obs.Metrics) func(report reconciler.Report, took time.Duration, err error) {
	return func(report reconciler.Report, took time.Duration, err error) {
		result := obs.ResultOK
		switch {
		case err != nil:
			result = obs.ResultError
		case report.Busy:
			result = obs.ResultBusy
		}
		found := map[obs.Found]int{}
		for _, f := range report.Findings {
			found[obs.Found{Kind: string(f.Kind), Action: string(f.Action)}]++
		}
		metrics.ReconcilerPass(result, took, found)
	}
}
