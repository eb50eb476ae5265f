package progress

import (
	"context"
	"fmt"
	"slices"

	"config-server/internal/farm"
)

// Cluster is what Kubernetes says of workspaces.
type Cluster interface {
	// KnownPods lists all workspace pods, from a watch while that is well.
	KnownPods(ctx context.Context) ([]farm.Pod, error)
	// Pod looks one pod up, live. The second result is false if there is none.
	Pod(ctx context.Context, name farm.PodName) (farm.Pod, bool, error)
	// Doing tells in one line what is done with a pod that is not Ready yet; empty = not known.
	Doing(ctx context.Context, pod farm.PodName) string
}

// View tells how a user's workspace is, from what operations reported and from the cluster.
type View struct {
	*Store
	cluster Cluster
}

// NewView makes a View.
func NewView(store *Store, cluster Cluster) *View { return &View{Store: store, cluster: cluster} }

// lookedAt is how many of a user's last operations a status is taken from.
const lookedAt = 20

// Status tells of the user's operation that is under way; else of the last create or migrate, or of
// a delete that failed after it; else of the pod. What stands or is gone by now is read off the
// cluster, as far as that can be read. A user of whom nothing is known has stage unknown.
func (v *View) Status(ctx context.Context, user farm.UserName) (farm.Status, error) {
	all, err := v.Operations(ctx, user, lookedAt)
	if err != nil {
		return farm.Status{}, fmt.Errorf("status of %s: %w", user, err)
	}
	last, deleted, found := telling(all)
	if found && !last.Done {
		return v.underWay(ctx, last), nil
	}
	pods, readable := v.podsOf(ctx, user)
	stands := newest(pods)
	switch {
	case found && last.Stage == farm.StageFailed:
		status := statusOf(last)
		if stands != nil {
			status.Message += fmt.Sprintf("; workspace %s on %s is still there", stands.Name, stands.Node)
		}
		return status, nil
	case found && !readable:
		return statusOf(last), nil
	case found:
		return v.settled(ctx, last, pods, stands, deleted), nil
	case stands != nil:
		return v.ofPod(ctx, *stands), nil
	case !readable:
		return unknown(user, "no operation is known, and the cluster cannot be read"), nil
	default:
		return unknown(user, "there is no workspace"), nil
	}
}

// telling chooses the operation that a user's status tells of. Deletes that went well tell nothing
// themselves: their pods are returned, and one that failed before them is forgotten.
func telling(newestFirst []farm.Progress) (told farm.Progress, deleted []farm.PodName, found bool) {
	for _, p := range newestFirst {
		switch {
		case p.Kind != farm.OperationDelete || !p.Done:
			return p, deleted, true
		case p.Stage == farm.StageReady:
			deleted = append(deleted, p.Pod)
		case !slices.Contains(deleted, p.Pod):
			return p, deleted, true
		}
	}
	return farm.Progress{}, deleted, false
}

// underWay adds what kubelet does to an operation that waits for it.
func (v *View) underWay(ctx context.Context, p farm.Progress) farm.Status {
	status := statusOf(p)
	if status.Stage == farm.StageWaitingReady {
		if doing := v.cluster.Doing(ctx, p.Pod); doing != "" {
			status.Message = fmt.Sprintf("%s: %s", p.Node, doing)
		}
	}
	return status
}

// settled tells of the workspace that the last operation made, as it is now.
func (v *View) settled(ctx context.Context, last farm.Progress, pods []farm.Pod, stands *farm.Pod, deleted []farm.PodName) farm.Status {
	at := slices.IndexFunc(pods, func(p farm.Pod) bool { return p.Name == last.Pod })
	switch {
	case at >= 0:
		return v.now(ctx, statusOf(last), pods[at])
	case stands != nil:
		return v.ofPod(ctx, *stands)
	case slices.Contains(deleted, last.Pod):
		return unknown(last.User, fmt.Sprintf("workspace %s was deleted", last.Pod))
	}
	// A watch may not have seen yet what another replica has just made.
	pod, found, err := v.cluster.Pod(ctx, last.Pod)
	switch {
	case err != nil:
		return statusOf(last)
	case !found:
		return unknown(last.User, fmt.Sprintf("workspace %s is gone", last.Pod))
	default:
		return v.now(ctx, statusOf(last), pod)
	}
}

// podsOf are the user's pods; false if they cannot be read.
func (v *View) podsOf(ctx context.Context, user farm.UserName) ([]farm.Pod, bool) {
	pods, err := v.cluster.KnownPods(ctx)
	return slices.DeleteFunc(pods, func(p farm.Pod) bool { return p.User != user }), err == nil
}

// newest is the youngest pod that is not being deleted; nil = there is none.
func newest(pods []farm.Pod) *farm.Pod {
	var found *farm.Pod
	for i, p := range pods {
		if !p.Terminating && (found == nil || p.CreatedAt.After(found.CreatedAt)) {
			found = &pods[i]
		}
	}
	return found
}

// ofPod is what a pod alone tells.
func (v *View) ofPod(ctx context.Context, pod farm.Pod) farm.Status {
	status := farm.Status{
		User: pod.User, Stage: farm.StageReady, Message: fmt.Sprintf("the workspace stands on %s", pod.Node),
		Pod: pod.Name, Node: pod.Node, StartedAt: pod.CreatedAt, UpdatedAt: pod.CreatedAt,
	}
	return v.now(ctx, status, pod)
}

// now corrects the status of a workspace that stood once by its pod as it is.
func (v *View) now(ctx context.Context, status farm.Status, pod farm.Pod) farm.Status {
	switch {
	case pod.Terminating:
		status.Stage, status.Message = farm.StageUnknown, fmt.Sprintf("workspace %s is being removed", pod.Name)
	case pod.Phase == "Failed" || pod.Phase == "Succeeded":
		status.Stage, status.Message = farm.StageFailed, "the pod has ended"
	case pod.Phase != "Running" || !pod.Ready:
		status.Stage, status.Message = farm.StageWaitingReady, "the pod is not Ready"
	default:
		return status
	}
	if doing := v.cluster.Doing(ctx, pod.Name); doing != "" && !pod.Terminating {
		status.Message = fmt.Sprintf("%s: %s", pod.Node, doing)
	}
	return status
}

func unknown(user farm.UserName, message string) farm.Status {
	return farm.Status{User: user, Stage: farm.StageUnknown, Message: message}
}

func statusOf(p farm.Progress) farm.Status {
	return farm.Status{
		User: p.User, Stage: p.Stage, Message: p.Message, Pod: p.Pod, Node: p.Node,
		Operation: p.Kind, OperationID: p.ID, RequestID: p.RequestID, Code: p.Code, Detail: p.Detail,
		StartedAt: p.StartedAt, UpdatedAt: p.UpdatedAt,
	}
}
