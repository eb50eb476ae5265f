package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/tmaxmax/go-sse"

	"config-server/internal/farm"
)

// Port is a port of a workspace that is open on the farm's nodes.
type Port struct {
	Internal int    `json:"internal_port"`
	NodePort int    `json:"node_port"`
	Purpose  string `json:"purpose"`
}

// Workspace is a pod of a user.
type Workspace struct {
	User      string    `json:"username"`
	Pod       string    `json:"pod_name"`
	Node      string    `json:"node"`
	Stage     string    `json:"stage"`
	Phase     string    `json:"phase"` // Kubernetes' own, or Terminating
	Ready     bool      `json:"ready"`
	CreatedAt time.Time `json:"created_at"`
	Ports     []Port    `json:"ports"`
	GPUs      int       `json:"gpus"`
	// GPUIndexes are the GPUs of the node whose device files it mounts.
	GPUIndexes []int  `json:"gpu_indexes,omitempty"`
	GPUOption  string `json:"gpu_option,omitempty"` // that it was made with
}

// Workspaces is the answer of GET /workspaces, by user and age.
type Workspaces struct {
	Workspaces []Workspace `json:"workspaces"`
}

// Workspaces lists all workspaces.
func (c *Client) Workspaces(ctx context.Context) (Workspaces, error) {
	var list Workspaces
	err := c.get(ctx, &list, nil, "workspaces")
	return list, err
}

// Step is a step of an operation, and what it came to.
type Step struct {
	Step    string  `json:"step"`
	Result  string  `json:"result"` // running, ok or error
	Seconds float64 `json:"seconds"`
}

// Undo is a step that was taken back, and what that came to.
type Undo struct {
	Step   string `json:"step"`
	What   string `json:"what"`   // services, pod, secret, keytab, ports or record
	Result string `json:"result"` // undone, none or error
}

// Operation is a create, delete or migrate. Times are RFC 3339, nil if they are not known; texts
// without a value are empty.
type Operation struct {
	ID        string  `json:"id"`
	Kind      string  `json:"operation"`
	User      string  `json:"username"`
	Pod       string  `json:"pod_name"`
	Node      string  `json:"node"`
	OldPod    string  `json:"old_pod_name"`
	OldNode   string  `json:"old_node"`
	Stage     string  `json:"stage"`
	Message   string  `json:"message"`
	Code      string  `json:"code"`
	Detail    string  `json:"detail"`
	RequestID string  `json:"request_id"`
	StartedAt *string `json:"started_at"`
	UpdatedAt *string `json:"updated_at"`
	Done      bool    `json:"done"`
	Steps     []Step  `json:"steps"`
	Undo      []Undo  `json:"undo"`
}

// Operations is the answer of GET /operations, newest first.
type Operations struct {
	Operations []Operation `json:"operations"`
}

// Operations lists at most limit operations on workspaces: a user's, or with an empty name those of
// all.
func (c *Client) Operations(ctx context.Context, user string, limit int) (Operations, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if user != "" {
		query.Set("username", user)
	}
	var list Operations
	err := c.get(ctx, &list, query, "operations")
	return list, err
}

// Stages of a Status at which a watch may end.
const (
	StageReady   = "ready"
	StageFailed  = "failed"
	StageUnknown = "unknown" // there is no workspace
)

// Status is how a user's workspace is. Times are RFC 3339, nil if they are not known; texts without
// a value are empty.
type Status struct {
	User        string  `json:"username"`
	Stage       string  `json:"stage"`
	Message     string  `json:"message"`
	UpdatedAt   *string `json:"updated_at"`
	StartedAt   *string `json:"started_at"`
	Pod         string  `json:"pod_name"`
	Node        string  `json:"node"`
	Operation   string  `json:"operation"`
	OperationID string  `json:"operation_id"`
	RequestID   string  `json:"request_id"`
	Code        string  `json:"code"`
	Detail      string  `json:"detail"`
}

// Status tells of a user's workspace. The error wraps farm.ErrBadName for a name that cannot exist.
func (c *Client) Status(ctx context.Context, user string) (Status, error) {
	var status Status
	if err := farm.CheckPossible(user); err != nil {
		return status, err
	}
	err := c.get(ctx, &status, nil, "pods", user, "status")
	return status, err
}

// ErrCutOff is wrapped by the error of a watch whose stream ended before there was an outcome.
var ErrCutOff = errors.New("the stream ended before there was an outcome")

// Watch tells each state of a user's workspace to told until it is ready, failed or gone, and returns
// the last. Of a user without a workspace it waits until there is one. Errors wrap ErrCutOff, what
// told returned, or what Status may return.
func (c *Client) Watch(ctx context.Context, user string, told func(Status) error) (Status, error) {
	var last Status
	if err := farm.CheckPossible(user); err != nil {
		return last, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	response, address, err := c.send(ctx, "text/event-stream", nil, "pods", user, "status")
	if err != nil {
		return last, err
	}
	defer func() { _ = response.Body.Close() }()
	end := time.AfterFunc(c.silence, func() { cancel(fmt.Errorf("it said nothing for %s", c.silence)) })
	defer end.Stop()
	seen := false
	for event, err := range sse.Read(lively{response.Body, end, c.silence}, &sse.ReadConfig{MaxEventSize: 1 << 20}) {
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return last, fmt.Errorf("watch %s: %w", address, err)
		}
		if err := json.Unmarshal([]byte(event.Data), &last); err != nil {
			return last, fmt.Errorf("watch %s: read an event: %w", address, err)
		}
		if err := told(last); err != nil {
			return last, err
		}
		if last.Stage == StageReady || last.Stage == StageFailed || last.Stage == StageUnknown && seen {
			return last, nil
		}
		seen = seen || last.Stage != StageUnknown
	}
	return last, fmt.Errorf("watch %s: %w: the service may be restarting; ask again", address, ErrCutOff)
}

// lively puts off the end by silence whenever something is read.
type lively struct {
	io.Reader
	end   *time.Timer
	after time.Duration
}

func (l lively) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	l.end.Reset(l.after)
	return n, err
}
