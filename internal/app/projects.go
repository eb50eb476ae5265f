package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"config-server/internal/cluster"
	"config-server/internal/config"
	"config-server/internal/farm"
	"config-server/internal/ledger"
	"config-server/internal/projects"
	"config-server/internal/projects/reader"
	"config-server/internal/projects/source"
)

// openProjects makes what looks at projects; nil if they are switched off.
func (a *App) openProjects(c *cluster.Cluster, l *ledger.Ledger) (*reader.Reader, error) {
	if a.config.Projects.Show != config.ProjectsOn {
		return nil, nil
	}
	opts := reader.Options{Cluster: c, Keys: projectKeys(a.config.Projects), Reserved: a.config.ReservedNames()}
	if a.config.Projects.Source == config.ProjectsOfLedger {
		groups, err := ledgerProjects(a.config.Projects, l, a.log)
		if err != nil {
			return nil, err
		}
		opts.Source = groups
	}
	return reader.New(opts), nil
}

// ledgerProjects makes projects of Linux groups.
func ledgerProjects(c config.Projects, l *ledger.Ledger, log *slog.Logger) (*source.Ledger, error) {
	made, err := source.New(source.Options{Groups: ledgerGroups{l}, Names: c.Groups, Settings: c.Settings, Log: log})
	if err != nil {
		return nil, fmt.Errorf("PROJECT_SETTINGS: %w", err)
	}
	return made, nil
}

// projectKeys are the keys of labels and annotations.
func projectKeys(c config.Projects) projects.Keys {
	return projects.Keys{
		NodePrefix: c.NodePrefix, Gate: c.Gate, Managed: c.Managed, Namespace: c.Namespace, Provisioning: c.Provisioning, Selector: c.Selector,
	}
}

// ledgerGroups lists groups with those members too whose primary group they are.
type ledgerGroups struct{ ledger *ledger.Ledger }

// Groups implements source.Groups.
func (g ledgerGroups) Groups(ctx context.Context) ([]farm.Group, string, error) {
	view, err := g.ledger.View(ctx)
	if err != nil {
		return nil, "", err
	}
	all := view.Memo("groups with all members", func() any {
		primary := map[farm.ID][]farm.UserName{}
		for _, account := range view.Users() {
			primary[account.GID] = append(primary[account.GID], account.Name)
		}
		groups := slices.Clone(view.Groups())
		for i, group := range groups {
			for _, user := range primary[group.GID] {
				if !slices.Contains(groups[i].Members, user) {
					groups[i].Members = append(slices.Clip(groups[i].Members), user)
				}
			}
		}
		return groups
	})
	return all.([]farm.Group), view.Version(), nil
}
