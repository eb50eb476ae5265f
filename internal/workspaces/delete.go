package workspaces

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/google/uuid"

	"config-server/internal/farm"
	"config-server/internal/saga"
)

// stepRemoveKeytab takes the keytab from the node of a workspace that is gone.
const stepRemoveKeytab = "REMOVE_KEYTAB"

// removal is the taking down of one workspace: what delete, the end of a migration and recovery
// share. Every step can be repeated.
type removal struct {
	*Service

	user     farm.UserName
	pod      farm.PodName
	found    farm.Pod // the pod as it was looked up; zero if there was none
	present  bool
	progress map[string]bool
}

func (s *Service) newRemoval(user farm.UserName, pod farm.PodName, found farm.Pod, present bool) *removal {
	return &removal{
		Service: s, user: user, pod: pod, found: found, present: present,
		progress: map[string]bool{
			farm.KeyServicesDeleted: false, farm.KeyNodePortsReleased: false,
			farm.KeyPodDeleteRequested: false, farm.KeyPodDeleted: false,
		},
	}
}

// steps take down Services, rows and pod, in this order: a row may only go when nothing uses its
// port any more. The Secret, where there can be one, goes last.
func (r *removal) steps() []saga.Step {
	steps := []saga.Step{
		{Name: string(farm.StepDeleteNodePortService), Do: r.deleteServices},
		{Name: string(farm.StepReleaseNodePort), Do: r.releasePorts},
		{Name: string(farm.StepDeletePod), Do: r.deletePod},
	}
	if r.Settings.AccountSecret || r.found.AccountSecret {
		steps = append(steps, saga.Step{Name: stepAccountSecret, Do: r.deleteAccountSecret})
	}
	return steps
}

func (r *removal) fail(step farm.Step, code farm.Code, cause error) *farm.Error {
	e := farm.Failf(farm.Internal, step, code, cause, "%v", cause)
	e.Pod = r.pod
	return e
}

func (r *removal) deleteServices(ctx context.Context) error {
	if _, err := r.Cluster.DeleteServicesOf(ctx, r.pod); err != nil {
		return r.fail(farm.StepDeleteNodePortService, farm.NodePortServiceDeleteFailed, err)
	}
	r.progress[farm.KeyServicesDeleted] = true
	return nil
}

func (r *removal) releasePorts(ctx context.Context) error {
	if _, err := r.Ports.Release(ctx, r.pod); err != nil {
		return r.fail(farm.StepReleaseNodePort, farm.NodePortReleaseFailed, err)
	}
	r.progress[farm.KeyNodePortsReleased] = true
	return nil
}

func (r *removal) deletePod(ctx context.Context) error {
	if r.present {
		existed, err := r.Cluster.DeletePod(ctx, r.pod, r.found.UID)
		if err != nil {
			return r.fail(farm.StepDeletePod, farm.PodDeleteFailed, err)
		}
		r.progress[farm.KeyPodDeleteRequested] = existed
		r.present = existed
	}
	if r.present {
		err := r.Cluster.WaitGone(ctx, r.pod, r.found.UID, r.GoneLimit)
		switch {
		case errors.Is(err, farm.ErrWaitTimeout):
			return r.fail(farm.StepDeletePod, farm.PodDeleteTimeout, err)
		case err != nil:
			return r.fail(farm.StepDeletePod, farm.PodDeleteFailed, err)
		}
	}
	r.progress[farm.KeyPodDeleted] = true
	return nil
}

// Delete takes a workspace down and waits until its pod is gone. It may be repeated: a pod that is
// not there is a success. The account and the home stay. Once begun it runs to its end, whether
// the caller waits or not. The error is a *farm.Error whose Progress tells what is done.
func (s *Service) Delete(ctx context.Context, podName string) (Deleted, error) {
	pod := farm.PodName(podName)
	if err := farm.CheckPodName(podName); err != nil {
		return Deleted{}, InvalidPodName(pod, err)
	}
	ctx, cancel := s.detach(ctx)
	defer cancel()

	owner, err := s.ownerOfPod(ctx, pod)
	if err != nil {
		return Deleted{}, err
	}
	user := owner.User
	name := podLock(pod)
	if user != "" {
		name = farm.UserLock(user)
	}
	lock, err := s.Locks.Lock(ctx, name)
	if err != nil {
		return Deleted{}, deleteFailed(pod, fmt.Errorf("another operation on user '%s' is still running: %w", user, err))
	}
	defer lock.Unlock()

	if user != "" {
		// A migration that was cut off speaks of two pods: it is settled while both can be told apart.
		if err := s.settle(ctx, user); err != nil {
			s.Log.WarnContext(ctx, "an earlier operation on the user stays unfinished", "user", user, "error", err)
		}
	}
	// Only what is seen under the lock counts: another call may have removed it meanwhile.
	found, present, err := s.lookUp(ctx, pod)
	if err != nil {
		return Deleted{}, err
	}
	node := found.Node
	if !present {
		node = owner.Node // where its keytab may lie still
	}
	operation := farm.Operation{
		ID: uuid.NewString(), Kind: farm.OperationDelete, User: user, Pod: pod, Node: node,
		Stage: farm.RecordRunning, Instance: s.Instance,
	}
	defer s.finish(operation.ID)
	run := s.newRemoval(user, pod, found, present)
	var warnings []string
	unfinished := false // something stays that nobody has noted but the record
	steps := []saga.Step{{Name: "RECORD", Do: func(ctx context.Context) error {
		if err := s.begin(ctx, operation); err != nil {
			return run.fail(farm.StepReleaseNodePort, farm.NodePortReleaseFailed, err)
		}
		return nil
	}}}
	steps = append(steps, run.steps()...)
	if s.DeviceFiles != nil {
		steps = append(steps, saga.Step{Name: stepReleaseGPUs, Do: func(ctx context.Context) error {
			warning, err := s.releaseGPUs(ctx, pod)
			warnings = append(warnings, warning...)
			unfinished = err != nil
			return nil
		}})
	}
	steps = append(steps,
		saga.Step{Name: stepRemoveKeytab, Do: func(ctx context.Context) error {
			warning, err := s.removeKeytab(ctx, node, user, pod)
			warnings = append(warnings, warning...)
			unfinished = unfinished || err != nil
			return nil
		}},
		saga.Step{Name: "CLOSE", Do: func(ctx context.Context) error {
			if unfinished {
				return nil // recovery goes on with the record
			}
			warnings = append(warnings, s.endRecord(ctx, operation)...)
			return nil
		}})
	told := s.tell(ctx, operation, run.words, nil)
	if err := saga.Run(ctx, told.observed("delete-pod"), steps); err != nil {
		answer := run.failed(err)
		told.failed("delete-pod", err, answer)
		return Deleted{}, answer
	}
	told.ready("the workspace is gone")
	return Deleted{
		Pod: pod, AlreadyAbsent: !run.progress[farm.KeyPodDeleteRequested], Progress: maps.Clone(run.progress), Warnings: warnings,
	}, nil
}

// removeKeytab is best effort: the workspace is gone already, and the caller would not try again. The
// error says that the keytab stays and that nobody has noted it.
func (s *Service) removeKeytab(ctx context.Context, node farm.NodeName, user farm.UserName, pod farm.PodName) (warnings []string, err error) {
	if node == "" || user == "" {
		return nil, nil
	}
	_, err = s.dropKeytab(ctx, node, user, pod)
	if err == nil {
		return nil, nil
	}
	s.Log.WarnContext(ctx, "keytab stays on the node", "user", user, "node", node, "error", err)
	warnings = []string{fmt.Sprintf("keytab of %s stays on node %s: %v", user, node, err)}
	if errors.Is(err, farm.ErrDeferred) {
		err = nil
	}
	return warnings, err
}

// endRecord removes a record of work that is done. If it cannot, recovery finds the work done.
func (s *Service) endRecord(ctx context.Context, operation farm.Operation) []string {
	if err := s.Operations.End(ctx, operation.ID); err != nil {
		s.Log.WarnContext(ctx, "operation record stays", "operation", operation.ID, "pod", operation.Pod, "error", err)
		return []string{fmt.Sprintf("the operation's record stays until recovery removes it: %v", err)}
	}
	return nil
}

// lookUp reads the pod and refuses one that this service did not make.
func (s *Service) lookUp(ctx context.Context, pod farm.PodName) (farm.Pod, bool, error) {
	found, present, err := s.Cluster.Pod(ctx, pod)
	none := s.newRemoval("", pod, farm.Pod{}, false)
	switch {
	case errors.Is(err, farm.ErrClientSetup):
		return farm.Pod{}, false, none.fail(farm.StepDeletePod, farm.K8sClientSetupFailed, err).WithProgress(none.progress, false)
	case err != nil:
		return farm.Pod{}, false, none.fail(farm.StepDeletePod, farm.PodDeleteFailed, err).WithProgress(none.progress, false)
	case present && !found.Guest:
		return farm.Pod{}, false, InvalidPodName(pod, fmt.Errorf("pod %s bears no label %s=%s: it is not a workspace", pod, farm.LabelApp, farm.AppGuest))
	}
	return found, present, nil
}

// ownerOfPod finds whose workspace a pod is: by its label, else by its rows, else by its Services; of a
// pod that is gone the rows tell the node too. The pod's name is never taken apart, because names may
// contain what separates its parts. No user = nothing is known of such a pod.
func (s *Service) ownerOfPod(ctx context.Context, pod farm.PodName) (farm.PortOwner, error) {
	found, present, err := s.lookUp(ctx, pod)
	if err != nil {
		return farm.PortOwner{}, err
	}
	if present && found.User != "" {
		return farm.PortOwner{User: found.User, Pod: pod, Node: found.Node}, nil
	}
	none := s.newRemoval("", pod, farm.Pod{}, false)
	rows, err := s.Ports.RowsOf(ctx, pod)
	if err != nil {
		return farm.PortOwner{}, none.fail(farm.StepReleaseNodePort, farm.NodePortReleaseFailed, err).WithProgress(none.progress, false)
	}
	for _, row := range rows {
		if row.User != "" {
			return farm.PortOwner{User: row.User, Pod: pod, Node: row.Node}, nil
		}
	}
	services, err := s.Cluster.ServicesOf(ctx, pod)
	if err != nil {
		return farm.PortOwner{}, none.fail(farm.StepDeleteNodePortService, farm.NodePortServiceDeleteFailed, err).WithProgress(none.progress, false)
	}
	for _, service := range services {
		if service.User != "" {
			return farm.PortOwner{User: service.User, Pod: pod}, nil
		}
	}
	return farm.PortOwner{}, nil
}

// InvalidPodName is the refusal of a pod that is no workspace of ours.
func InvalidPodName(pod farm.PodName, cause error) *farm.Error {
	e := farm.Failf(farm.Invalid, farm.StepValidateRequest, farm.InvalidPodName, cause, "invalid pod_name")
	e.Pod = pod
	return e.WithProgress(map[string]bool{
		farm.KeyServicesDeleted: false, farm.KeyNodePortsReleased: false,
		farm.KeyPodDeleteRequested: false, farm.KeyPodDeleted: false,
	}, false)
}

func deleteFailed(pod farm.PodName, cause error) *farm.Error {
	e := farm.Failf(farm.Internal, farm.StepDeletePod, farm.DeletePodFailed, cause, "%s", unforeseen(cause))
	e.Pod = pod
	return e
}

// failed makes the caller's error of a failed run: the step's own, with what is done.
func (r *removal) failed(err error) error {
	failure, ok := saga.AsFailure(err)
	if !ok {
		return err
	}
	told, ok := farm.AsError(failure.Err)
	if !ok {
		told = deleteFailed(r.pod, failure.Err)
	}
	return told.WithProgress(r.progress, false)
}
