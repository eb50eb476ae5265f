package client

import "context"

// Node is a node of the cluster.
type Node struct {
	Name        string   `json:"name"`
	Ready       bool     `json:"ready"`
	Schedulable bool     `json:"schedulable"`
	Score       *float64 `json:"score"` // lower is better; nil = not known
	Workspaces  int      `json:"workspaces"`
}

// PortFill counts NodePorts.
type PortFill struct {
	Used int `json:"used"`
	Free int `json:"free"`
}

// NodePorts counts the whole range, and the part that callers outside the farm reach.
type NodePorts struct {
	All       PortFill `json:"all"`
	Reachable PortFill `json:"reachable"`
}

// GPUs counts those that nodes offer as resources, by resource and model, which is empty where nodes name none.
type GPUs struct {
	Resource string `json:"resource"`
	Model    string `json:"model"`
	Used     int64  `json:"used"`
	Free     int64  `json:"free"`
}

// Nodes is the answer of GET /nodes, by name. NodePorts is nil if they are not known; a warning
// then says why.
type Nodes struct {
	Nodes     []Node     `json:"nodes"`
	NodePorts *NodePorts `json:"nodeports"`
	GPUs      []GPUs     `json:"gpus"`
	Warnings  []string   `json:"warnings,omitempty"`
}

// Nodes lists all nodes with their load.
func (c *Client) Nodes(ctx context.Context) (Nodes, error) {
	var list Nodes
	err := c.get(ctx, &list, nil, "nodes")
	return list, err
}
