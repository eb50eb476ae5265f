package app

import (
	"context"
	"fmt"
	"time"

	"config-server/internal/audit"
	"config-server/internal/farm"
	"config-server/internal/nodeports"
	"config-server/internal/obs"
	"config-server/internal/overview"
)

const (
	// auditLock is held by the instance that audits.
	auditLock = "audit"
	// auditSettle is the time that a start leaves recovery before the first audit.
	auditSettle = time.Minute
)

// auditNowAndThen keeps the outcome of an audit no older than the interval. It goes by what is kept,
// so that a restart does not begin anew and replicas take turns.
func (a *App) auditNowAndThen(ctx context.Context) {
	interval := a.config.Audit.Interval.Duration()
	if interval == 0 {
		return
	}
	for pause := min(interval, auditSettle); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		var err error
		if pause, err = a.auditIfDue(ctx, interval); err != nil && ctx.Err() == nil {
			a.log.Warn("audit failed", "error", err)
		}
	}
}

// auditIfDue audits unless the last outcome is young enough or another instance is at it, and tells
// when to ask again.
func (a *App) auditIfDue(ctx context.Context, interval time.Duration) (next time.Duration, err error) {
	soon := min(interval, auditSettle)
	last, err := a.parts.findings.Counts(ctx)
	if err != nil {
		return soon, err
	}
	// The time is the database's; a clock that differs must not put the audit off for ever.
	if rest := min(interval-time.Since(last.CheckedAt), interval); rest > 0 {
		return rest, nil
	}
	lock, ours, err := a.parts.locks.TryLock(ctx, auditLock)
	if err != nil {
		return soon, fmt.Errorf("take the lock of the audit: %w", err)
	}
	if !ours {
		return soon, nil
	}
	defer lock.Unlock()
	ctx = obs.WithRequestID(ctx, obs.NewRequestID())
	var report audit.Report
	err = guarded(func() (err error) { report, err = a.audit(ctx, ServiceURL(a.config)); return err })
	switch {
	case ctx.Err() != nil:
		return soon, context.Cause(ctx)
	case err != nil:
		if unsaved := a.parts.findings.SaveError(ctx, err); unsaved != nil {
			a.log.WarnContext(ctx, "audit failed and cannot say so", "error", unsaved)
		}
		return soon, err
	}
	a.log.InfoContext(ctx, "audited", "findings", len(report.Findings))
	if err := a.parts.findings.Save(ctx, report.Findings); err != nil {
		return soon, err
	}
	return interval, nil
}

func auditKinds() []string {
	var names []string
	for _, kind := range audit.Kinds() {
		names = append(names, string(kind))
	}
	return names
}

// countFindings tells the last audit as the metrics show it.
func (p *parts) countFindings(ctx context.Context) (obs.AuditCounts, error) {
	last, err := p.findings.Counts(ctx)
	counts := obs.AuditCounts{CheckedAt: last.CheckedAt, Findings: map[string]int{}}
	for kind, n := range last.Counts {
		counts.Findings[string(kind)] = n
	}
	return counts, err
}

// overview is who tells what stands now.
func (a *App) overview(p *parts, ports *nodeports.Allocator) *overview.Overview {
	return overview.New(overview.Options{
		Cluster: p.cluster, Ports: ports, Progress: p.progress, Load: p.load, Audits: p.findings,
		NodePorts: func(ctx context.Context) (overview.NodePorts, error) {
			return countPorts(ctx, a.config, ports, p.cluster)
		},
		GPUs: func(ctx context.Context) ([]farm.GPUCount, error) {
			return p.gpus.Census(ctx, a.config.GPU.ScanInterval.Duration())
		},
	})
}
