package client

import "context"

// Project is a team with its nodes and its quota.
type Project struct {
	Name    string            `json:"name"`
	Members []ProjectMember   `json:"members"`
	Nodes   []string          `json:"nodes"` // nil = not known
	Quota   map[string]string `json:"quota"`
}

// ProjectMember is somebody in a project.
type ProjectMember struct {
	Name string `json:"name"`
	Role string `json:"role"`
}

// Projects is the answer of GET /projects, by name.
type Projects struct {
	Projects []Project `json:"projects"`
	Warnings []string  `json:"warnings,omitempty"`
}

// ProjectCheck is the answer of GET /projects/{project}/check.
type ProjectCheck struct {
	Project string      `json:"project"`
	OK      bool        `json:"ok"` // every line is
	Lines   []CheckLine `json:"lines"`
}

// CheckLine is one thing that a project's queue needs.
type CheckLine struct {
	Name   string `json:"name"`
	Result string `json:"result"` // ok, partly, failed or unknown
	Text   string `json:"text"`
	Todo   string `json:"todo"`
}

// ProjectQueue is the answer of GET /projects/{project}/queue.
type ProjectQueue struct {
	Project  string       `json:"project"`
	Priority int64        `json:"priority"`
	Policy   string       `json:"policy"`
	Nodes    []string     `json:"nodes"`
	Observed bool         `json:"observed"`
	Waiting  []WaitingPod `json:"waiting"`
	Blocked  []QueueBlock `json:"blocked"`
}

// WaitingPod is a pod in a queue.
type WaitingPod struct {
	Position  int     `json:"position"` // 1 = the head
	Name      string  `json:"name"`
	Namespace string  `json:"namespace"`
	UID       string  `json:"uid"`
	Since     *string `json:"since"` // nil = not known
}

// QueueBlock says why a queue does not move.
type QueueBlock struct {
	Type    string  `json:"type"`
	Meaning string  `json:"meaning"`
	Reason  string  `json:"reason"`
	Message string  `json:"message"`
	Since   *string `json:"since"`
}

// Projects lists the projects.
func (c *Client) Projects(ctx context.Context) (Projects, error) {
	var list Projects
	err := c.get(ctx, &list, nil, "projects")
	return list, err
}

// CheckProject tells what a project's queue needs.
func (c *Client) CheckProject(ctx context.Context, project string) (ProjectCheck, error) {
	var check ProjectCheck
	err := c.get(ctx, &check, nil, "projects", project, "check")
	return check, err
}

// ProjectQueue tells what waits in a project's queue.
func (c *Client) ProjectQueue(ctx context.Context, project string) (ProjectQueue, error) {
	var queue ProjectQueue
	err := c.get(ctx, &queue, nil, "projects", project, "queue")
	return queue, err
}
