package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"config-server/internal/farm"
)

// readGPUs reads the assigned GPUs by pod.
func (r *Reconciler) readGPUs(ctx context.Context) (map[farm.PodName][]farm.GPURow, error) {
	all := map[farm.PodName][]farm.GPURow{}
	if r.GPUs == nil {
		return all, nil
	}
	rows, err := r.GPUs.Rows(ctx)
	for _, row := range rows {
		all[row.Pod] = append(all[row.Pod], row)
	}
	return all, err
}

// surplusGPUs are the rows of a pod that is gone, or of GPUs that it does not have.
func (s state) surplusGPUs(name farm.PodName) []farm.GPURow {
	pod, alive := s.pods[name]
	return surplusOf(s.gpus[name], pod, alive)
}

func surplusOf(rows []farm.GPURow, pod farm.Pod, alive bool) []farm.GPURow {
	if !alive || pod.Ended() {
		return rows
	}
	var surplus []farm.GPURow
	for _, row := range rows {
		if row.Node != pod.Node || !pod.GPUIndexes.Has(row.Index) {
			surplus = append(surplus, row)
		}
	}
	return surplus
}

func newestGPU(rows []farm.GPURow) time.Time {
	return slices.MaxFunc(rows, func(a, b farm.GPURow) int { return a.CreatedAt.Compare(b.CreatedAt) }).CreatedAt
}

func (r *Reconciler) staleGPUs(name farm.PodName, rows []farm.GPURow) removal {
	return removal{
		key: fmt.Sprintf("gpus/%s/%d", name, rows[len(rows)-1].ID), pod: name,
		finding: Finding{Kind: KindStaleGPURow, Object: string(name), User: rows[0].User, Detail: fmt.Sprintf("GPU %s of %s", setOf(rows), rows[0].Node)},
		remove: func(ctx context.Context) (string, error) {
			pod, alive, err := r.Cluster.Pod(ctx, name)
			if err != nil {
				return "", err
			}
			still := surplusOf(rows, pod, alive)
			if len(still) == 0 {
				return "the pod is there after all", nil
			}
			_, err = r.GPUs.ReleaseRows(ctx, still)
			return "", err
		},
	}
}

func setOf(rows []farm.GPURow) farm.GPUSet {
	var indexes []int
	for _, row := range rows {
		indexes = append(indexes, row.Index)
	}
	return farm.NewGPUSet(indexes...)
}

// unassigned are the rows that a running pod lacks.
func unassigned(pod farm.Pod, have []farm.GPURow) []farm.GPURow {
	if pod.Ended() || pod.Terminating {
		return nil
	}
	var rows []farm.GPURow
	for _, index := range pod.GPUIndexes.Without(setOf(have)).Indexes() {
		rows = append(rows, farm.GPURow{User: pod.User, Pod: pod.Name, Node: pod.Node, Index: index})
	}
	return rows
}

// adoptGPUs writes the rows that running pods lack: those that were made before GPUs were assigned, and
// those of a table that was lost.
func (r *Reconciler) adoptGPUs(ctx context.Context, s state, report *Report, dryRun bool) error {
	if r.GPUs == nil {
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		pod := s.pods[name]
		rows := unassigned(pod, s.gpus[name])
		if len(rows) == 0 || s.busy[name] {
			continue
		}
		f := Finding{Kind: KindMissingGPURow, Object: string(name), User: pod.User, Action: ActionWould, Detail: fmt.Sprintf("GPU %s of %s", setOf(rows), pod.Node)}
		if !dryRun {
			var err error
			f.Action, err = r.adoptGPUsOf(ctx, pod, rows)
			errs = append(errs, err)
		}
		report.add(f)
	}
	return errors.Join(errs...)
}

// adoptGPUsOf looks again, under the user's lock: a pod that goes meanwhile must not leave rows behind.
func (r *Reconciler) adoptGPUsOf(ctx context.Context, pod farm.Pod, rows []farm.GPURow) (Action, error) {
	lock, free, err := r.Locks.TryLock(ctx, r.UserLock(pod.User))
	if err != nil {
		return ActionFailed, fmt.Errorf("lock user %s: %w", pod.User, err)
	}
	if !free {
		return ActionWait, nil
	}
	defer lock.Unlock()
	now, alive, err := r.Cluster.Pod(ctx, pod.Name)
	if err != nil {
		return ActionFailed, err
	}
	if !alive || now.UID != pod.UID || now.Ended() || now.Terminating {
		return ActionWait, nil
	}
	if _, err := r.GPUs.Adopt(ctx, rows); err != nil {
		return ActionFailed, err
	}
	return ActionDone, nil
}
