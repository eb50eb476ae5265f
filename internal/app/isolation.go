package app

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/config"
	"config-server/internal/farm"
	"config-server/internal/projects"
	"config-server/internal/projects/reader"
	"config-server/internal/workspaces"
)

// openTeams makes what keeps the nodes of projects for their members; nil if nothing does.
func openTeams(c config.Projects, teams *reader.Reader) workspaces.Teams {
	mode := projects.Isolation(c.Isolation)
	if mode == projects.IsolationOff || teams == nil {
		return nil
	}
	return teamNodes{teams, mode, projectKeys(c)}
}

// teamNodes keeps the nodes of projects for their members. It asks the API server anew for every workspace, so that a project's change
// counts from the next one on.
type teamNodes struct {
	teams *reader.Reader
	mode  projects.Isolation
	keys  projects.Keys
}

// KeptFrom implements workspaces.Teams.
func (k teamNodes) KeptFrom(ctx context.Context, user farm.UserName) (workspaces.Kept, error) {
	own, err := k.teams.OfUser(ctx, user)
	if err != nil {
		return workspaces.Kept{}, err
	}
	labelled, err := k.teams.OfNodes(ctx)
	if err != nil {
		return workspaces.Kept{}, err
	}
	kept := workspaces.Kept{Reasons: map[farm.NodeName]string{}, Tolerations: map[farm.NodeName][]corev1.Toleration{}}
	for node, teams := range labelled {
		if slices.ContainsFunc(teams, func(team string) bool { return slices.Contains(own, team) }) {
			kept.Tolerations[node] = projects.Tolerations(teams, k.mode, k.keys)
			continue
		}
		kept.Reasons[node] = "kept for project " + strings.Join(teams, ", ")
	}
	return kept, nil
}
