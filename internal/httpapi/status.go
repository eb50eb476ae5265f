package httpapi

import (
	"context"
	"net/http"
	"strings"
	"time"

	"config-server/internal/farm"
)

// Progress tells what operations on workspaces do and did. What fails is an error of this service's
// parts, never of the caller.
type Progress interface {
	// Status is what is known of a user's workspace. A user of whom nothing is known is no error.
	Status(ctx context.Context, user farm.UserName) (farm.Status, error)
	// Changes returns a channel that has a value after something of the user changed in this process,
	// and the function that ends it. What other processes do is seen by asking again.
	Changes(user farm.UserName) (<-chan struct{}, func())
	// Operations lists at most limit operations, the newest first; with an empty name those of all users.
	Operations(ctx context.Context, user farm.UserName, limit int) ([]farm.Progress, error)
}

// lookLimit bounds one look at progress, which reads the database and may ask the API server.
const lookLimit = 10 * time.Second

// status is a workspace's state as callers read it. What is not known is null or empty.
type status struct {
	User        farm.UserName      `json:"username"`
	Stage       farm.Stage         `json:"stage"`
	Message     string             `json:"message"`
	UpdatedAt   *string            `json:"updated_at"`
	StartedAt   *string            `json:"started_at"`
	Pod         farm.PodName       `json:"pod_name"`
	Node        farm.NodeName      `json:"node"`
	Operation   farm.OperationKind `json:"operation"`
	OperationID string             `json:"operation_id"`
	RequestID   string             `json:"request_id"`
	Code        farm.Code          `json:"code"`
	Detail      string             `json:"detail"`
}

func statusJSON(s farm.Status) status {
	return status{
		User: s.User, Stage: s.Stage, Message: s.Message, UpdatedAt: timestamp(s.UpdatedAt), StartedAt: timestamp(s.StartedAt),
		Pod: s.Pod, Node: s.Node, Operation: s.Operation, OperationID: s.OperationID, RequestID: s.RequestID, Code: s.Code, Detail: s.Detail,
	}
}

// timestamp is a time as callers read it, in UTC and to the millisecond; nil = not known.
func timestamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return &text
}

// getStatus answers GET /pods/{username}/status, once or as a stream.
func (a *api) getStatus(w http.ResponseWriter, r *http.Request) error {
	name, err := pathParam(r, "username")
	if err != nil {
		return err
	}
	w.Header().Set("Vary", "Accept")
	w.Header().Set("Cache-Control", "no-store")
	if wantsStream(r) {
		return a.streamStatus(w, r, farm.UserName(name))
	}
	found, err := a.lookStatus(r.Context(), farm.UserName(name))
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, statusJSON(found))
}

func (a *api) lookStatus(ctx context.Context, user farm.UserName) (farm.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	return a.Progress.Status(ctx, user)
}

// badStatusPath answers paths below /pods/ whose name is empty or has a slash.
func (a *api) badStatusPath(w http.ResponseWriter, r *http.Request) error {
	if strings.HasSuffix(r.URL.Path, "/status") {
		return a.badPathName(w, r)
	}
	return a.unknownRoute(w, r)
}
