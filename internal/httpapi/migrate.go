package httpapi

import (
	"net/http"

	"config-server/internal/farm"
	"config-server/internal/workspaces"
)

// defaultRatio is the min_improvement_ratio of a request that names none.
const defaultRatio = 0.2

// migrate answers POST /migrate.
func (a *api) migrate(w http.ResponseWriter, r *http.Request) error {
	request, err := a.readMigrate(w, r)
	if err != nil {
		return err
	}
	outcome, err := a.Workspaces.Migrate(r.Context(), request)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, addWarnings(migratedJSON(outcome), outcome.Warnings))
}

// readMigrate checks username and nodes, then the ratio.
func (a *api) readMigrate(w http.ResponseWriter, r *http.Request) (workspaces.MigrateRequest, error) {
	var none workspaces.MigrateRequest
	in, err := a.read(w, r)
	if err != nil {
		return none, err
	}
	user, err := in.text("username")
	nodes, ok := asTexts(in["nodes"])
	if err != nil || user == "" || !ok || len(nodes) == 0 {
		return none, farm.Errorf(farm.Invalid, "username and nodes(list) are required")
	}
	ratio := defaultRatio
	if raw, named := in["min_improvement_ratio"]; named {
		if ratio, ok = asRatio(raw); !ok {
			return none, farm.Errorf(farm.Invalid, "min_improvement_ratio must be a number in [0,1)")
		}
	}
	if err := farm.UserName(user).CheckPod(); err != nil {
		return none, farm.Errorf(farm.Invalid, "%v", err)
	}
	return workspaces.MigrateRequest{User: user, Nodes: nodes, Ratio: ratio}, nil
}

// migratedJSON tells the three outcomes: moved, no candidate, not better.
func migratedJSON(m workspaces.Migrated) object {
	switch {
	case m.Status == workspaces.StatusMigrated:
		return object{"status": m.Status, "from": m.From, "to": m.To, "new_pod": m.NewPod, "ports": portsJSON(m.Ports)}
	case m.Reason == workspaces.ReasonNoSignificantImprovement:
		return object{"status": m.Status, "reason": m.Reason,
			"current_node": m.CurrentNode, "current_score": number(m.CurrentScore),
			"best_candidate": m.BestCandidate, "best_score": number(m.BestScore)}
	default:
		return object{"status": m.Status, "reason": m.Reason}
	}
}
