package workspaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"config-server/internal/farm"
	"config-server/internal/saga"
)

// Recovered tells what was done about one operation that its process did not end.
type Recovered struct {
	Operation farm.Operation
	// Outcome is undone or finished; empty if Err says why neither was possible. Then the record
	// stays and the next pass tries again.
	Outcome string
	Err     error
}

// The outcomes of a recovery.
const (
	OutcomeUndone   = "undone"
	OutcomeFinished = "finished"
)

// Recover goes on with the operations that nobody runs any more: those of processes that are gone,
// and those that this process has given up. A create, or a migration that has not touched the old
// pod, is undone; a delete, or a later migration, is finished, whatever the pod's phase and however
// many rows there are. It may run in several processes at once: a record is claimed first.
// The error is that of reading the records; what fails on one record is told in its Recovered.
func (s *Service) Recover(ctx context.Context) ([]Recovered, error) {
	records, err := s.Operations.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []Recovered
	gone := map[string]bool{}
	for _, record := range records {
		mine, err := s.take(ctx, record, gone)
		if err == nil && !mine {
			continue
		}
		outcome := ""
		if err == nil {
			outcome, err = s.recoverOne(ctx, record)
		}
		if err == nil && outcome == "" {
			continue // it came to its end meanwhile
		}
		s.tellRecovered(ctx, record, outcome, err)
		all = append(all, Recovered{Operation: record, Outcome: outcome, Err: err})
	}
	return all, nil
}

// take decides whether a record is to be recovered by this process, and makes it its own. gone
// remembers what this pass has found out about other instances.
func (s *Service) take(ctx context.Context, record farm.Operation, gone map[string]bool) (bool, error) {
	if record.Instance == s.Instance {
		return !s.isRunning(record.ID), nil
	}
	dead, known := gone[record.Instance]
	if !known {
		var err error
		if dead, err = s.isGone(ctx, record.Instance); err != nil {
			return false, fmt.Errorf("see whether instance %s lives: %w", record.Instance, err)
		}
		gone[record.Instance] = dead
	}
	if !dead {
		return false, nil
	}
	return s.Operations.Claim(ctx, record.ID, record.Instance)
}

// isGone reports whether an instance's lock can be had, now and again after DeadAfter: where locks
// die with a connection, a restart of their server frees those of instances that live, and they
// take them again meanwhile.
func (s *Service) isGone(ctx context.Context, instance string) (bool, error) {
	free, err := s.isFree(ctx, InstanceLock(instance))
	if err != nil || !free || s.DeadAfter == 0 {
		return free, err
	}
	select {
	case <-ctx.Done():
		return false, context.Cause(ctx)
	case <-time.After(s.DeadAfter):
	}
	return s.isFree(ctx, InstanceLock(instance))
}

func (s *Service) isFree(ctx context.Context, name string) (bool, error) {
	lock, free, err := s.Locks.TryLock(ctx, name)
	if free {
		lock.Unlock()
	}
	return free, err
}

func (s *Service) tellRecovered(ctx context.Context, record farm.Operation, outcome string, err error) {
	about := []any{"operation", record.ID, "kind", record.Kind, "user", record.User, "pod", record.Pod}
	if err != nil {
		s.Log.WarnContext(ctx, "operation could not be recovered", append(about, "error", err)...)
		return
	}
	s.Log.InfoContext(ctx, "operation recovered", append(about, "outcome", outcome)...)
}

// How often, and after which pause, settle looks again at records that it could not take: somebody
// else may be asking for the same instance's lock, or may just have claimed the record.
const (
	settleTries = 50
	settlePause = 20 * time.Millisecond
)

// settle recovers what earlier calls on a user left, before a call that could mistake the remains
// for a workspace. The caller holds the user's lock and has no operation of its own yet, so every
// record of the user is an unfinished one. Without an error none is left.
func (s *Service) settle(ctx context.Context, user farm.UserName) error {
	for n := 1; ; n++ {
		left, err := s.settleOnce(ctx, user)
		if err != nil || left == 0 {
			return err
		}
		if n == settleTries {
			return fmt.Errorf("%d records are another process's, which goes on with them", left)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settlePause):
		}
	}
}

// settleOnce tells how many records it could not take.
func (s *Service) settleOnce(ctx context.Context, user farm.UserName) (left int, err error) {
	records, err := s.Operations.List(ctx)
	if err != nil {
		return 0, err
	}
	var errs []error
	gone := map[string]bool{}
	for _, record := range records {
		if record.User != user {
			continue
		}
		mine, err := s.take(ctx, record, gone)
		if err == nil && !mine {
			left++
			continue
		}
		outcome := ""
		if err == nil {
			outcome, err = s.recoverHeld(ctx, record.ID)
		}
		if err != nil || outcome != "" {
			s.tellRecovered(ctx, record, outcome, err)
		}
		errs = append(errs, err)
	}
	return left, errors.Join(errs...)
}

func (s *Service) recoverOne(ctx context.Context, record farm.Operation) (string, error) {
	name := farm.UserLock(record.User)
	if record.User == "" {
		name = podLock(record.Pod)
	}
	lock, err := s.Locks.Lock(ctx, name)
	if err != nil {
		return "", err
	}
	defer lock.Unlock()
	return s.recoverHeld(ctx, record.ID)
}

// recoverHeld recovers one record of ours under its user's lock. It reads it again: what was listed
// before the lock was had may have come to a good end since, and its workspace is somebody's. The
// outcome is empty if it has.
func (s *Service) recoverHeld(ctx context.Context, id string) (string, error) {
	records, err := s.Operations.List(ctx)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(records, func(r farm.Operation) bool { return r.ID == id && r.Instance == s.Instance })
	if at < 0 || s.isRunning(id) {
		return "", nil
	}
	record := records[at]
	pod, outcome := record.Pod, OutcomeUndone
	switch {
	case record.Kind == farm.OperationDelete:
		outcome = OutcomeFinished
	case record.Kind == farm.OperationMigrate && record.Stage == farm.RecordOldPodTouched:
		// The old workspace only goes if there is a new one in its place.
		_, standing, err := s.Cluster.Pod(ctx, record.Pod)
		if err != nil {
			return "", err
		}
		if standing {
			pod, outcome = record.OldPod, OutcomeFinished
		}
	}
	told := s.resume(ctx, record)
	err = s.takeDown(ctx, told, record, pod)
	if err == nil {
		err = s.Operations.End(ctx, record.ID)
	}
	told.recovered(outcome, err)
	if err != nil {
		return "", err
	}
	return outcome, nil
}

// takeDown removes what there is of one workspace.
func (s *Service) takeDown(ctx context.Context, told *told, record farm.Operation, pod farm.PodName) error {
	found, present, err := s.Cluster.Pod(ctx, pod)
	if err != nil {
		return err
	}
	if present && (!found.Guest || (record.User != "" && found.User != record.User)) {
		return fmt.Errorf("pod %s is not the workspace of %s that the record names", pod, record.User)
	}
	run := s.newRemoval(record.User, pod, found, present)
	if err := saga.Run(ctx, told.observed("recover"), run.steps()); err != nil {
		return err
	}
	if _, err := s.releaseGPUs(ctx, pod); err != nil {
		return err
	}
	node := found.Node
	if node == "" && pod == record.Pod {
		node = record.Node
	}
	if node == "" && pod == record.OldPod {
		node = record.OldNode
	}
	_, err = s.removeKeytab(ctx, node, record.User, pod)
	return err
}
