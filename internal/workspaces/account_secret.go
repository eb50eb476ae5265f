package workspaces

import (
	"context"
	"errors"
	"fmt"

	"config-server/internal/farm"
)

// stepAccountSecret gives a new pod its user's password hash, or takes it away with the pod. Its
// failures are told as those of the step before it, because callers know no other.
const stepAccountSecret = "ACCOUNT_SECRET"

// putAccountSecret makes the Secret that the new pod waits for. It belongs to the pod, whose UID is
// known only now.
func (l *launch) putAccountSecret(ctx context.Context) error {
	hash, err := l.Accounts.ShadowHash(ctx, l.user)
	if errors.Is(err, farm.ErrNotFound) {
		hash, err = "*", nil // no password fits
		l.warn(ctx, "user '%s' has no line in shadow: no password will let them into the workspace", l.user)
	}
	if err != nil {
		return l.fail(farm.Internal, farm.StepCreatePod, farm.PodCreateFailed, err)
	}
	l.secretive = true
	err = l.Cluster.PutSecret(ctx, farm.Secret{
		Name: farm.AccountSecretName(l.pod), User: l.user, Pod: l.pod, PodUID: l.created.UID,
		Data: map[string][]byte{farm.ShadowKey: []byte(hash)},
	})
	if err != nil {
		return l.fail(farm.Internal, farm.StepCreatePod, farm.PodCreateFailed, err)
	}
	return nil
}

func (l *launch) undoAccountSecret(ctx context.Context) (bool, error) {
	if !l.secretive || l.undecided {
		return false, nil
	}
	removed, err := l.Cluster.DeleteSecret(ctx, farm.AccountSecretName(l.pod))
	if err != nil {
		l.leftover = true
	}
	return removed, err
}

// deleteAccountSecret removes the pod's Secret where there can be one: not every cluster collects
// what belonged to a pod.
func (r *removal) deleteAccountSecret(ctx context.Context) error {
	if _, err := r.Cluster.DeleteSecret(ctx, farm.AccountSecretName(r.pod)); err != nil {
		return r.fail(farm.StepDeletePod, farm.PodDeleteFailed, fmt.Errorf("the pod is gone, but not its Secret: %w", err))
	}
	return nil
}
