package workspaces

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// Teams knows which nodes are kept for projects.
type Teams interface {
	// KeptFrom tells how nodes are kept from a user, as it is now.
	KeptFrom(ctx context.Context, user farm.UserName) (Kept, error)
}

// Kept says for one user which nodes are others'.
type Kept struct {
	// Reasons has the nodes on which the user's workspaces may not be, each with why.
	Reasons map[farm.NodeName]string
	// Tolerations has what a workspace has to tolerate on a node on which it may be.
	Tolerations map[farm.NodeName][]corev1.Toleration
}

// fits is the rule that a node is not kept for others.
func (k Kept) fits(node farm.Node) string { return k.Reasons[node.Name] }

// keptFrom asks how nodes are kept from a user; not at all unless there is somebody to ask.
func (s *Service) keptFrom(ctx context.Context, user farm.UserName) (Kept, error) {
	if s.Teams == nil {
		return Kept{}, nil
	}
	return s.Teams.KeptFrom(ctx, user)
}
