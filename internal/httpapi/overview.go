package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"config-server/internal/farm"
	"config-server/internal/overview"
)

type workspace struct {
	User      farm.UserName   `json:"username"`
	Pod       farm.PodName    `json:"pod_name"`
	Node      farm.NodeName   `json:"node"`
	Stage     farm.Stage      `json:"stage"`
	Phase     string          `json:"phase"`
	Ready     bool            `json:"ready"`
	CreatedAt time.Time       `json:"created_at"`
	Ports     []workspacePort `json:"ports"`
	GPUs      int             `json:"gpus"`
	Indexes   []int           `json:"gpu_indexes,omitempty"`
	GPUOption string          `json:"gpu_option,omitempty"`
}

type workspacePort struct {
	Internal int    `json:"internal_port"`
	NodePort int    `json:"node_port"`
	Purpose  string `json:"purpose"`
}

// listWorkspaces answers GET /workspaces.
func (a *api) listWorkspaces(w http.ResponseWriter, r *http.Request) error {
	all, err := a.Overview.Workspaces(r.Context())
	if err != nil {
		return unseen(err)
	}
	told := make([]workspace, len(all))
	for i, one := range all {
		ports := make([]workspacePort, len(one.Ports))
		for j, p := range one.Ports {
			ports[j] = workspacePort{Internal: p.Internal, NodePort: p.External, Purpose: p.Purpose}
		}
		told[i] = workspace{one.User, one.Pod, one.Node, one.Stage, one.Phase, one.Ready, one.CreatedAt, ports, one.GPUs, one.GPUIndexes, one.GPUOption}
	}
	return answerView(w, r, object{"workspaces": told})
}

type node struct {
	Name        farm.NodeName `json:"name"`
	Ready       bool          `json:"ready"`
	Schedulable bool          `json:"schedulable"`
	Score       any           `json:"score"`
	Workspaces  int           `json:"workspaces"`
}

type gpuCount struct {
	Resource string `json:"resource"`
	Model    string `json:"model"`
	Used     int64  `json:"used"`
	Free     int64  `json:"free"`
}

type fill struct {
	Used int `json:"used"`
	Free int `json:"free"`
}

// listNodes answers GET /nodes.
func (a *api) listNodes(w http.ResponseWriter, r *http.Request) error {
	all, err := a.Overview.Nodes(r.Context())
	if err != nil {
		return unseen(err)
	}
	told := make([]node, len(all.Nodes))
	for i, one := range all.Nodes {
		told[i] = node{one.Name, one.Ready, one.Schedulable, number(one.Score), one.Workspaces}
	}
	gpus := make([]gpuCount, len(all.GPUs))
	for i, kind := range all.GPUs {
		gpus[i] = gpuCount{kind.Resource, kind.Model, kind.Total - kind.Free, kind.Free}
	}
	return answerView(w, r, addWarnings(object{"nodes": told, "nodeports": nodePortsJSON(all.NodePorts), "gpus": gpus}, all.Warnings))
}

func nodePortsJSON(ports *overview.NodePorts) any {
	if ports == nil {
		return nil
	}
	return map[string]fill{"all": fill(ports.All), "reachable": fill(ports.Reachable)}
}

// listFindings answers GET /findings.
func (a *api) listFindings(w http.ResponseWriter, r *http.Request) error {
	last, err := a.Overview.Findings(r.Context())
	if err != nil {
		return unseen(err)
	}
	var checked *time.Time
	if !last.CheckedAt.IsZero() {
		checked = &last.CheckedAt
	}
	body := object{"checked_at": checked, "total": last.Total(), "findings": list(last.Findings)}
	if last.Error != "" {
		body["error"] = last.Error
	}
	return answerView(w, r, body)
}

// unseen says that a part cannot be looked at, and why: whoever looks has to tell that from an empty
// farm.
func unseen(err error) error {
	return &farm.Error{Kind: farm.Unavailable, Detail: err.Error(), Cause: err}
}

// answerView answers with what stands now. Pages ask again and again, so what has not changed since
// is told by 304.
func answerView(w http.ResponseWriter, r *http.Request, body object) error {
	plain, err := encode(body)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	sum := sha256.Sum256(plain)
	return answerTagged(w, r, contentJSON, hex.EncodeToString(sum[:12]), func() *encodedList { return zipped(plain) })
}
