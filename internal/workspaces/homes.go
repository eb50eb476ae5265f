package workspaces

import (
	"context"
	"fmt"
	"slices"

	"config-server/internal/farm"
	"config-server/internal/selfvolumes"
)

// Homes knows what workspaces have of the service's own volumes.
type Homes interface {
	// Find looks at the service's own pod until it has succeeded once, and then asks nobody.
	Find(ctx context.Context) (*selfvolumes.Set, error)
}

// selfVolumes is what workspaces have of the service's own volumes; nil = nothing.
func (s *Service) selfVolumes(ctx context.Context) (*selfvolumes.Set, error) {
	if s.Homes == nil {
		return nil, nil
	}
	return s.Homes.Find(ctx)
}

// findHomes looks up what the workspace has of the service's own volumes.
func (l *launch) findHomes(ctx context.Context) (err error) {
	if l.self, err = l.selfVolumes(ctx); err != nil {
		return l.buildFailed(farm.Internal, err)
	}
	return nil
}

// reaches is the rule that a node reaches what workspaces have of the service's own volumes.
func reaches(set *selfvolumes.Set) rule {
	return func(node farm.Node) string {
		if set == nil {
			return ""
		}
		return set.Elsewhere(node.Name)
	}
}

// blindly lists the nodes that the user configuration names, as it writes them, where nobody may read what nodes there
// are. Of the rules those count that need no more than a node's name.
func blindly(wanted []farm.GPUNode, rules ...rule) ([]farm.NodeName, error) {
	var names []farm.NodeName
	var reasons []string
	for _, entry := range wanted {
		name := foldNode(entry.Name)
		if slices.Contains(names, name) {
			continue
		}
		if reason := firstReason(farm.Node{Name: name}, rules); reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", name, reason))
			continue
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, noSuitable(reasons)
	}
	return names, nil
}
