package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"config-server/internal/farm"
)

// How many operations are listed unless the caller says so, and at most.
const (
	defaultOperations = 100
	maxOperations     = 500
)

// operation is what a create, delete or migrate does or did, as callers read it.
type operation struct {
	ID        string             `json:"id"`
	Kind      farm.OperationKind `json:"operation"`
	User      farm.UserName      `json:"username"`
	Pod       farm.PodName       `json:"pod_name"`
	Node      farm.NodeName      `json:"node"`
	OldPod    farm.PodName       `json:"old_pod_name"`
	OldNode   farm.NodeName      `json:"old_node"`
	Stage     farm.Stage         `json:"stage"`
	Message   string             `json:"message"`
	Code      farm.Code          `json:"code"`
	Detail    string             `json:"detail"`
	RequestID string             `json:"request_id"`
	StartedAt *string            `json:"started_at"`
	UpdatedAt *string            `json:"updated_at"`
	Done      bool               `json:"done"`
	Steps     []farm.StepResult  `json:"steps"`
	Undo      []farm.UndoResult  `json:"undo"`
}

func operationJSON(p farm.Progress) operation {
	return operation{
		ID: p.ID, Kind: p.Kind, User: p.User, Pod: p.Pod, Node: p.Node, OldPod: p.OldPod, OldNode: p.OldNode,
		Stage: p.Stage, Message: p.Message, Code: p.Code, Detail: p.Detail, RequestID: p.RequestID,
		StartedAt: timestamp(p.StartedAt), UpdatedAt: timestamp(p.UpdatedAt), Done: p.Done, Steps: list(p.Steps), Undo: list(p.Undo),
	}
}

// listOperations answers GET /operations.
func (a *api) listOperations(w http.ResponseWriter, r *http.Request) error {
	user, limit, err := readListOperations(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookLimit)
	defer cancel()
	found, err := a.Progress.Operations(ctx, user, limit)
	if err != nil {
		return err
	}
	told := make([]operation, len(found))
	for i, p := range found {
		told[i] = operationJSON(p)
	}
	return answerView(w, r, object{"operations": told})
}

func readListOperations(r *http.Request) (user farm.UserName, limit int, err error) {
	query, err := readQuery(r)
	if err != nil {
		return "", 0, err
	}
	if name := query.Get("username"); name != "" {
		if err := farm.CheckPossible(name); err != nil {
			return "", 0, farm.Errorf(farm.Invalid, "%v", err)
		}
		user = farm.UserName(name)
	}
	limit = defaultOperations
	if text := query.Get("limit"); text != "" {
		limit, err = strconv.Atoi(text)
		if err != nil || limit < 1 || limit > maxOperations {
			return "", 0, farm.Errorf(farm.Invalid, "limit must be a number from 1 to %d", maxOperations)
		}
	}
	return user, limit, nil
}
