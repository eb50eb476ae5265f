package workspaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"config-server/internal/farm"
)

// dropKeytab takes the user's keytab from a node, unless another workspace of that user is there, and
// reports whether none is there by now.
func (s *Service) dropKeytab(ctx context.Context, node farm.NodeName, user farm.UserName, gone farm.PodName) (removed bool, err error) {
	if !s.Kerberos.Enabled() {
		return false, nil
	}
	used, err := s.hasPodOn(ctx, node, user, gone)
	if err != nil || used {
		return false, err
	}
	err = s.Kerberos.Remove(ctx, node, user)
	return err == nil, err
}

// hasPodOn tells whether a user has a workspace on a node beside the one that is gone.
func (s *Service) hasPodOn(ctx context.Context, node farm.NodeName, user farm.UserName, gone farm.PodName) (bool, error) {
	pods, err := s.Cluster.PodsOf(ctx, user)
	if err != nil {
		return false, fmt.Errorf("see whether %s has another pod on node %s: %w", user, node, err)
	}
	return slices.ContainsFunc(pods, func(p farm.Pod) bool {
		return strings.EqualFold(string(p.Node), string(node)) && p.Name != gone
	}), nil
}

// RemoveLeftKeytabs tries again to take keytabs from farm nodes where that failed, one line for each
// that is settled: removed, or kept because the user has a workspace there again. A user who is busy,
// and a node that still fails, wait for the next time and are no error; a node that fails once is not
// asked again for other users.
func (s *Service) RemoveLeftKeytabs(ctx context.Context) ([]string, error) {
	all, err := s.Kerberos.Left(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	var errs []error
	down := map[farm.NodeName]bool{}
	for _, left := range all {
		if down[left.Node] {
			continue
		}
		line, err := s.removeLeftKeytab(ctx, left)
		switch {
		case errors.Is(err, farm.ErrDeferred):
			down[left.Node] = true
			s.Log.WarnContext(ctx, "keytab still stays on the node", "user", left.User, "node", left.Node, "error", err)
		case err != nil:
			errs = append(errs, err)
		case line != "":
			lines = append(lines, line)
		}
	}
	return lines, errors.Join(errs...)
}

func (s *Service) removeLeftKeytab(ctx context.Context, left farm.KeytabLeft) (string, error) {
	lock, free, err := s.Locks.TryLock(ctx, farm.UserLock(left.User))
	if err != nil || !free {
		return "", err
	}
	defer lock.Unlock()
	used, err := s.hasPodOn(ctx, left.Node, left.User, "")
	if err != nil {
		return "", err
	}
	if used {
		return fmt.Sprintf("keytab of %s on node %s is in use again", left.User, left.Node), s.Kerberos.Keep(ctx, left)
	}
	if err := s.Kerberos.Remove(ctx, left.Node, left.User); err != nil {
		return "", err
	}
	return fmt.Sprintf("keytab of %s removed from node %s", left.User, left.Node), nil
}
