package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"config-server/internal/farm"
)

// state is one reading of everything. Operations are read first: one that begins later is younger
// than the grace.
type state struct {
	busy     map[farm.PodName]bool // an operation on the pod is under way or waits for recovery
	rows     map[farm.PodName][]farm.Row
	rowCount int
	pods     map[farm.PodName]farm.Pod
	services map[farm.PodName][]farm.Service
	gpus     map[farm.PodName][]farm.GPURow
}

func (r *Reconciler) read(ctx context.Context) (state, error) {
	s := state{busy: map[farm.PodName]bool{}, rows: map[farm.PodName][]farm.Row{}, pods: map[farm.PodName]farm.Pod{}, services: map[farm.PodName][]farm.Service{}}
	operations, err := r.Operations.List(ctx)
	if err != nil {
		return s, err
	}
	for _, o := range operations {
		s.busy[o.Pod] = true
		if o.OldPod != "" {
			s.busy[o.OldPod] = true
		}
	}
	rows, err := r.Ports.Rows(ctx)
	if err != nil {
		return s, err
	}
	s.rowCount = len(rows)
	for _, row := range rows {
		s.rows[row.Pod] = append(s.rows[row.Pod], row)
	}
	if s.gpus, err = r.readGPUs(ctx); err != nil {
		return s, err
	}
	// Pods are read before Services: a Service seen without its pod then means that the pod went, or
	// that both are newer than the listing and within the grace.
	pods, err := r.Cluster.Pods(ctx)
	if err != nil {
		return s, err
	}
	for _, pod := range pods {
		s.pods[pod.Name] = pod
	}
	services, err := r.Cluster.Services(ctx)
	if err != nil {
		return s, err
	}
	for _, service := range services {
		s.services[service.Pod] = append(s.services[service.Pod], service)
	}
	return s, nil
}

// removal is something that shall go, if it is seen twice and no guard says no.
type removal struct {
	finding Finding
	key     string
	pod     farm.PodName
	remove  func(ctx context.Context) (string, error)
}

// workspaces compares rows, pods and Services.
func (r *Reconciler) workspaces(ctx context.Context, report *Report, dryRun bool) error {
	s, err := r.read(ctx)
	if err != nil {
		return fmt.Errorf("read the state of workspaces: %w", err)
	}
	err = errors.Join(r.adopt(ctx, s, report, dryRun), r.adoptGPUs(ctx, s, report, dryRun))
	removals := r.removals(s, report)
	if reason := doubt(s, removals); reason != "" {
		report.add(Finding{Kind: KindSuspicious, Object: "listing", Action: ActionReported, Detail: reason})
		for _, m := range removals {
			m.finding.Action = ActionReported
			report.add(m.finding)
		}
		r.seen = map[string]bool{}
		return err
	}
	before := r.seen
	r.seen = make(map[string]bool, len(removals))
	errs := []error{err}
	for _, m := range removals {
		r.seen[m.key] = true
		switch {
		case dryRun:
			m.finding.Action = ActionWould
		case !before[m.key]:
			m.finding.Action = ActionWait
		default:
			errs = append(errs, r.carryOut(ctx, &m))
		}
		report.add(m.finding)
	}
	return errors.Join(errs...)
}

// doubt names what makes the listings unfit to delete by; empty = nothing.
func doubt(s state, removals []removal) string {
	workspaces := len(s.pods) + len(s.services)
	switch {
	case len(removals) == 0:
		return ""
	case s.rowCount == 0 && workspaces > 0:
		return "the table has no row at all while the cluster has workspaces: rows are written back from Services, nothing is removed"
	case len(s.pods) == 0 && (len(s.services) > 0 || s.rowCount > 0):
		return "the cluster lists no workspace pod at all while there are Services or rows: nothing is removed"
	}
	// Removing most of a farm at once is more likely a wrong reading than a right one.
	const few = 10
	affected := map[farm.PodName]bool{}
	for _, m := range removals {
		affected[m.pod] = true
	}
	known := map[farm.PodName]bool{}
	for _, names := range [][]farm.PodName{slices.Collect(maps.Keys(s.pods)), slices.Collect(maps.Keys(s.rows)), slices.Collect(maps.Keys(s.services)), slices.Collect(maps.Keys(s.gpus))} {
		for _, name := range names {
			known[name] = true
		}
	}
	if len(affected) > few && len(affected)*2 > len(known) {
		return fmt.Sprintf("%d of %d workspaces would be removed at once: nothing is removed", len(affected), len(known))
	}
	return ""
}

// adopt writes the rows that live Services lack: the original loses rows, and a fresh table has none.
func (r *Reconciler) adopt(ctx context.Context, s state, report *Report, dryRun bool) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.services)) {
		pod, alive := s.pods[name]
		if !alive || s.busy[name] {
			continue
		}
		have := map[int]bool{}
		for _, row := range s.rows[name] {
			have[row.Port.External] = true
		}
		for _, service := range s.services[name] {
			for _, port := range service.Ports {
				if have[port.External] {
					continue
				}
				f := Finding{Kind: KindMissingRow, Object: service.Name, User: service.User, Detail: fmt.Sprintf("port %d of pod %s", port.External, name)}
				f.Action = ActionWould
				if !dryRun {
					row := farm.Row{User: service.User, Pod: name, Node: pod.Node, Port: port}
					f.Action, f.Kind = r.adoptRow(ctx, row, f.Kind, &errs)
				}
				report.add(f)
			}
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) adoptRow(ctx context.Context, row farm.Row, kind Kind, errs *[]error) (Action, Kind) {
	_, err := r.Ports.Adopt(ctx, []farm.Row{row})
	switch {
	case errors.Is(err, farm.ErrOwner):
		return ActionReported, KindPortConflict
	case err != nil:
		*errs = append(*errs, err)
		return ActionFailed, kind
	}
	return ActionDone, kind
}

// removals lists what is older than the grace and belongs to nothing.
func (r *Reconciler) removals(s state, report *Report) []removal {
	var list []removal
	old := func(at time.Time) bool { return !at.IsZero() && r.Now().Sub(at) > r.Grace }

	for _, name := range slices.Sorted(maps.Keys(s.services)) {
		if _, alive := s.pods[name]; alive || s.busy[name] {
			continue
		}
		for _, service := range s.services[name] {
			if old(service.CreatedAt) {
				list = append(list, r.orphanService(service))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.rows)) {
		if _, alive := s.pods[name]; alive || s.busy[name] || len(s.services[name]) > 0 {
			continue
		}
		rows := s.rows[name]
		if newest := slices.MaxFunc(rows, func(a, b farm.Row) int { return a.CreatedAt.Compare(b.CreatedAt) }); old(newest.CreatedAt) {
			list = append(list, r.staleRows(name, rows))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.gpus)) {
		if rows := s.surplusGPUs(name); len(rows) > 0 && !s.busy[name] && old(newestGPU(rows)) {
			list = append(list, r.staleGPUs(name, rows))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		pod := s.pods[name]
		if s.busy[name] || len(s.rows[name]) > 0 || len(s.services[name]) > 0 || pod.Terminating || !old(pod.CreatedAt) {
			continue
		}
		if pod.Phase == "Running" {
			report.add(Finding{Kind: KindBareRunning, Object: string(name), User: pod.User, Action: ActionReported,
				Detail: "it runs and has neither row nor Service; delete it with POST /delete-pod if nobody needs it"})
			continue
		}
		list = append(list, r.orphanPod(pod))
	}
	return list
}

func (r *Reconciler) orphanService(service farm.Service) removal {
	return removal{
		key: "service/" + service.UID, pod: service.Pod,
		finding: Finding{Kind: KindOrphanService, Object: service.Name, User: service.User, Detail: fmt.Sprintf("pod %s is gone", service.Pod)},
		remove: func(ctx context.Context) (string, error) {
			if _, alive, err := r.Cluster.Pod(ctx, service.Pod); err != nil || alive {
				return cond(alive, "the pod is there after all"), err
			}
			_, err := r.Cluster.DeleteService(ctx, service.Name, service.UID)
			return "", err
		},
	}
}

func (r *Reconciler) staleRows(name farm.PodName, rows []farm.Row) removal {
	slices.SortFunc(rows, func(a, b farm.Row) int { return cmp.Compare(a.Port.External, b.Port.External) })
	return removal{
		key: fmt.Sprintf("rows/%s/%d", name, rows[len(rows)-1].ID), pod: name,
		finding: Finding{Kind: KindStaleRow, Object: string(name), User: rows[0].User, Detail: farm.PortsText(len(rows), rows[0].Port.External)},
		remove: func(ctx context.Context) (string, error) {
			if _, alive, err := r.Cluster.Pod(ctx, name); err != nil || alive {
				return cond(alive, "the pod is there after all"), err
			}
			if services, err := r.Cluster.ServicesOf(ctx, name); err != nil || len(services) > 0 {
				return cond(len(services) > 0, "Services are there after all"), err
			}
			_, err := r.Ports.ReleaseRows(ctx, rows)
			return "", err
		},
	}
}

func (r *Reconciler) orphanPod(pod farm.Pod) removal {
	return removal{
		key: "pod/" + pod.UID, pod: pod.Name,
		finding: Finding{Kind: KindOrphanPod, Object: string(pod.Name), User: pod.User, Detail: fmt.Sprintf("phase %s on node %s, neither row nor Service", pod.Phase, pod.Node)},
		remove: func(ctx context.Context) (string, error) {
			now, alive, err := r.Cluster.Pod(ctx, pod.Name)
			if err != nil || !alive || now.UID != pod.UID || now.Phase == "Running" {
				return cond(alive, "the pod has changed"), err
			}
			if services, err := r.Cluster.ServicesOf(ctx, pod.Name); err != nil || len(services) > 0 {
				return cond(len(services) > 0, "Services are there after all"), err
			}
			if rows, err := r.Ports.RowsOf(ctx, pod.Name); err != nil || len(rows) > 0 {
				return cond(len(rows) > 0, "rows are there after all"), err
			}
			_, err = r.Cluster.DeletePod(ctx, pod.Name, pod.UID)
			return "", err
		},
	}
}

// carryOut looks again, under the user's lock and with the operations read anew, and removes.
func (r *Reconciler) carryOut(ctx context.Context, m *removal) error {
	if m.finding.User != "" {
		lock, free, err := r.Locks.TryLock(ctx, r.UserLock(m.finding.User))
		if err != nil {
			m.finding.Action = ActionFailed
			return fmt.Errorf("lock user %s: %w", m.finding.User, err)
		}
		if !free {
			m.finding.Action = ActionWait
			return nil
		}
		defer lock.Unlock()
	}
	operations, err := r.Operations.List(ctx)
	if err != nil {
		m.finding.Action = ActionFailed
		return err
	}
	if slices.ContainsFunc(operations, func(o farm.Operation) bool { return o.Pod == m.pod || o.OldPod == m.pod }) {
		m.finding.Action = ActionWait
		return nil
	}
	kept, err := m.remove(ctx)
	switch {
	case err != nil:
		m.finding.Action = ActionFailed
		return fmt.Errorf("remove %s %s: %w", m.finding.Kind, m.finding.Object, err)
	case kept != "":
		m.finding.Action, m.finding.Detail = ActionWait, kept
	default:
		m.finding.Action = ActionDone
	}
	return nil
}

func cond(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}
