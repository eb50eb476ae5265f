package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"config-server/internal/audit"
	"config-server/internal/config"
	"config-server/internal/gpuassign"
	"config-server/internal/ledger"
	"config-server/internal/obs"
)

// Audit reads every part twice and compares them; a finding is what both readings show. It changes
// nothing on the share, in the database or in the cluster, but for the kept outcome of the last audit,
// where the service has its tables. A part that cannot be read is a finding.
// url is where callers reach the service, for the commands in the report. The error says that the
// parts could not even be built.
func Audit(ctx context.Context, c config.Config, url string) (_ audit.Report, err error) {
	c.ListenAddr = "127.0.0.1:0" // the real one may be in use by the service itself
	a, err := New(Options{Config: c, Log: slog.New(slog.DiscardHandler), Build: obs.Build{Version: "audit"}})
	if err != nil {
		return audit.Report{}, err
	}
	defer func() { err = errors.Join(err, a.cleanups.run(context.WithoutCancel(ctx))) }()
	a.parts.database.LeaveTables()

	report, err := a.audit(ctx, url)
	if err == nil {
		a.keepFindings(ctx, report)
	}
	return report, err
}

// keepFindings shows the service's users what was found by hand. A database that is down or not the
// service's yet is in the findings themselves.
func (a *App) keepFindings(ctx context.Context, report audit.Report) {
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	_ = a.parts.findings.Save(ctx, report.Findings)
}

// audit compares all parts, twice if anything was found. The error is the cause of ctx's end.
func (a *App) audit(ctx context.Context, url string) (audit.Report, error) {
	first := audit.Compare(a.collect(ctx, url))
	if len(first.Findings) == 0 {
		return first, context.Cause(ctx)
	}
	select {
	case <-ctx.Done():
		return audit.Report{}, context.Cause(ctx)
	case <-time.After(auditPause):
	}
	report := audit.Confirm(first, audit.Compare(a.collect(ctx, url)))
	return report, context.Cause(ctx)
}

const (
	// auditPause lies between two readings: what is seen at one moment only was in the making.
	auditPause = time.Second
	// auditLimit bounds the reading of all parts, which are read at once.
	auditLimit = 30 * time.Second
	// keepLimit bounds the keeping of what was found by hand.
	keepLimit = 3 * time.Second
)

// collect reads every part, as far as it can be read.
func (a *App) collect(ctx context.Context, url string) audit.Input {
	ctx, cancel := context.WithTimeout(ctx, auditLimit)
	defer cancel()
	in := audit.Input{
		Unreadable: map[audit.Part]error{}, Places: a.places(url), Now: time.Now(),
		AssignsGPUs: a.parts.deviceFiles != nil, ExclusiveGPUs: a.config.GPU.Assignment == string(gpuassign.Exclusive),
		Overdue: max(a.config.Drain.PodBudget.Duration(), a.config.Drain.AccountBudget.Duration()) + a.config.Drain.UndoReserve.Duration(),
	}
	// Each reader keeps its outcome to itself until all are done.
	var all sync.WaitGroup
	var mu sync.Mutex
	read := func(part audit.Part, one func() error) {
		all.Go(func() {
			if err := guarded(one); err != nil {
				mu.Lock()
				defer mu.Unlock()
				in.Unreadable[part] = err
			}
		})
	}
	parts := a.parts
	read(audit.PartHomes, func() (err error) { in.Homes, err = parts.homes.All(ctx); return err })
	read(audit.PartRows, func() (err error) { in.Rows, err = parts.reconciler.Ports.Rows(ctx); return err })
	if parts.deviceFiles != nil {
		read(audit.PartGPUs, func() (err error) { in.GPUs, err = parts.deviceFiles.Rows(ctx); return err })
	}
	read(audit.PartOperations, func() (err error) { in.Operations, err = parts.reconciler.Operations.List(ctx); return err })
	read(audit.PartPods, func() (err error) { in.Pods, err = parts.cluster.Pods(ctx); return err })
	read(audit.PartServices, func() (err error) { in.Services, err = parts.cluster.Services(ctx); return err })
	all.Wait()
	a.collectLedger(ctx, &in)
	return in
}

// guarded turns a panic into an error: a driver that stumbles over a broken answer must not end the
// process, with its requests, because of what runs beside them.
func guarded(read func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return read()
}

func (a *App) collectLedger(ctx context.Context, in *audit.Input) {
	found, err := a.parts.ledger.Inspect(ctx)
	if err != nil {
		in.Unreadable[audit.PartLedger] = err
		return
	}
	in.Fresh, in.Interrupted = found.Fresh, found.Interrupted
	in.Accounts, in.Groups = found.View.Users(), found.View.Groups()
	in.Shadow, in.Sudoers = found.Shadow, found.Sudoers
	for _, place := range found.Damaged {
		in.Damaged = append(in.Damaged, audit.Damage{File: place.File, Line: place.Line})
	}
	for _, entry := range found.Entries {
		in.Entries = append(in.Entries, audit.Entry{ID: entry.ID, Kind: string(entry.Kind), User: entry.User, StartedAt: entry.StartedAt})
	}
	for _, retired := range found.Retired {
		in.Retired = append(in.Retired, audit.Retired{ID: retired.ID, Name: retired.Name, Group: retired.Kind == ledger.GID})
	}
	for part, err := range map[audit.Part]error{
		audit.PartSudoers: found.SudoersErr, audit.PartJournal: found.EntriesErr, audit.PartRetired: found.RetiredErr,
	} {
		if err != nil {
			in.Unreadable[part] = err
		}
	}
}

// places are the addresses in the report's commands.
func (a *App) places(url string) audit.Places {
	c := a.config
	p := audit.Places{
		URL: url, Token: c.APIToken != "", Namespace: c.Namespace, Share: c.Share.Dir,
		NASHost: c.NAS.Host, NASPort: c.NAS.Port, NASUser: c.NAS.User, NASShare: c.NAS.SharePath,
		SQL: "sqlite3 '" + c.DatabasePath() + "'",
	}
	if c.Database.Host != "" {
		p.SQL = fmt.Sprintf("mysql -h '%s' -P %d -u '%s' -p '%s'", c.Database.Host, c.Database.Port, c.Database.User, c.Database.Name)
	}
	return p
}

// ServiceURL is where this machine reaches a service that listens as configured.
func ServiceURL(c config.Config) string {
	host, port, err := net.SplitHostPort(c.ListenAddr)
	if err != nil {
		return "http://" + c.ListenAddr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
