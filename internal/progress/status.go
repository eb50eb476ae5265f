package progress

import (
	"context"
	"fmt"
	"slices"

	"config-server/internal/farm"
)

// View tells how a user's workspace is, from what operations reported and from the cluster.
type View struct{ *Store }

// NewView makes a View.
func NewView(store *Store) *View { return &View{Store: store} }

// lookedAt is how many of a user's last operations a status is taken from.
const lookedAt = 20

// Status tells of the user's operation that is under way; else of the last create or migrate, or of
// a delete that failed after it. A user of whom nothing is known has stage unknown.
func (v *View) Status(ctx context.Context, user farm.UserName) (farm.Status, error) {
	all, err := v.Operations(ctx, user, lookedAt)
	if err != nil {
		return farm.Status{}, fmt.Errorf("status of %s: %w", user, err)
	}
	last, _, found := telling(all)
	if !found {
		return farm.Status{User: user, Stage: farm.StageUnknown, Message: "nothing is known of a workspace"}, nil
	}
	return statusOf(last), nil
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

func statusOf(p farm.Progress) farm.Status {
	return farm.Status{
		User: p.User, Stage: p.Stage, Message: p.Message, Pod: p.Pod, Node: p.Node,
		Operation: p.Kind, OperationID: p.ID, RequestID: p.RequestID, Code: p.Code, Detail: p.Detail,
		StartedAt: p.StartedAt, UpdatedAt: p.UpdatedAt,
	}
}
