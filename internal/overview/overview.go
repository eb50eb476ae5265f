// Package overview tells what stands now: workspaces, nodes, free NodePorts and what the last audit
// found. It only reads, from watches and from the database, so that many who look at once cost the
// farm next to nothing.
package overview

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"config-server/internal/audit"
	"config-server/internal/farm"
)

// PhaseTerminating stands where a pod is being removed, whatever phase Kubernetes still gives it.
const PhaseTerminating = "Terminating"

// Cluster has the pods and nodes, from watches while those are well.
type Cluster interface {
	KnownPods(ctx context.Context) ([]farm.Pod, error)
	Nodes(ctx context.Context) ([]farm.Node, error)
}

// Ports has the rows of reserved NodePorts, by port.
type Ports interface {
	Rows(ctx context.Context) ([]farm.Row, error)
}

// Progress tells the stage of each pod on which an operation is under way.
type Progress interface {
	Stages(ctx context.Context) (map[farm.PodName]farm.Stage, error)
}

// Load has the scores of nodes; a node without data is absent.
type Load interface {
	Scores(ctx context.Context, nodes []farm.NodeName) (map[farm.NodeName]float64, error)
}

// Audits has the outcome of the last audit.
type Audits interface {
	Last(ctx context.Context) (audit.Outcome, error)
}

// Options of an Overview.
type Options struct {
	Cluster  Cluster
	Ports    Ports
	Progress Progress
	Load     Load
	Audits   Audits
	// NodePorts counts the NodePorts, as the metrics do.
	NodePorts func(ctx context.Context) (NodePorts, error)
	// GPUs counts the GPUs of the nodes by resource and model, as the metrics do.
	GPUs func(ctx context.Context) ([]farm.GPUCount, error)
}

// Fill counts the NodePorts of a band.
type Fill struct{ Used, Free int }

// NodePorts is the fill of the whole range, and of what callers outside the farm reach.
type NodePorts struct{ All, Reachable Fill }

// Workspace is a user's pod with its ports.
type Workspace struct {
	User      farm.UserName
	Pod       farm.PodName
	Node      farm.NodeName
	Stage     farm.Stage
	Phase     string // Kubernetes' own, or PhaseTerminating
	Ready     bool
	CreatedAt time.Time
	Ports     []farm.Port // by NodePort
	GPUs      int
	// GPUIndexes are the GPUs of the node whose device files it mounts, the lowest first.
	GPUIndexes []int
	GPUOption  string // the ID of the GPU option that it was made with; empty = none
}

// Node is a node of the cluster.
type Node struct {
	Name  farm.NodeName
	Ready bool
	// Schedulable: neither cordoned nor of the control plane.
	Schedulable bool
	Score       *float64 // nil = not known
	Workspaces  int
}

// Nodes is the state of the nodes.
type Nodes struct {
	Nodes     []Node
	NodePorts *NodePorts // nil = could not be counted; a warning says why
	GPUs      []farm.GPUCount
	Warnings  []string
}

const (
	// readLimit bounds one reading of the cluster or the database.
	readLimit = 5 * time.Second
	// loadLimit stands above the scorer's own limit, HTTP_TIMEOUT_SEC, which usually ends first.
	loadLimit = 30 * time.Second
	loadKept  = 5 * time.Second
	gpusKept  = 5 * time.Second
	// gpusWait bounds the wait for a count of the GPUs; whoever asks later finds it.
	gpusWait = 2 * time.Second
)

// Overview reads what stands. It is safe for concurrent use.
type Overview struct {
	opts  Options
	pods  shared[[]farm.Pod]
	nodes shared[[]farm.Node]
	load  shared[map[farm.NodeName]float64]
	gpus  shared[[]farm.GPUCount]
}

// New makes an Overview. It asks nothing yet.
func New(opts Options) *Overview {
	o := &Overview{opts: opts}
	o.pods = shared[[]farm.Pod]{limit: readLimit, read: opts.Cluster.KnownPods}
	o.nodes = shared[[]farm.Node]{limit: readLimit, read: opts.Cluster.Nodes}
	o.gpus = shared[[]farm.GPUCount]{keep: gpusKept, limit: loadLimit, read: opts.GPUs}
	o.load = shared[map[farm.NodeName]float64]{keep: loadKept, limit: loadLimit, read: o.readLoad}
	return o
}

// Workspaces lists the workspaces by user, age and pod. Without the cluster or the database there is
// no list but an error: an empty list means that there are no workspaces.
func (o *Overview) Workspaces(ctx context.Context) ([]Workspace, error) {
	pods, err := o.pods.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the pods: %w", err)
	}
	ports, err := o.ports(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the ports: %w", err)
	}
	stages, err := o.opts.Progress.Stages(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the operations: %w", err)
	}
	all := make([]Workspace, len(pods))
	for i, pod := range pods {
		all[i] = Workspace{
			User: pod.User, Pod: pod.Name, Node: pod.Node, Stage: cmp.Or(stages[pod.Name], settled(pod)), Phase: phase(pod), Ready: pod.Ready,
			CreatedAt: pod.CreatedAt.UTC(), Ports: ports[pod.Name],
			GPUs: pod.GPUs, GPUIndexes: pod.GPUIndexes.Indexes(), GPUOption: pod.GPUOption,
		}
	}
	slices.SortFunc(all, func(a, b Workspace) int {
		return cmp.Or(cmp.Compare(a.User, b.User), a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.Pod, b.Pod))
	})
	return all, nil
}

func (o *Overview) ports(ctx context.Context) (map[farm.PodName][]farm.Port, error) {
	rows, err := o.opts.Ports.Rows(ctx)
	if err != nil {
		return nil, err
	}
	ports := make(map[farm.PodName][]farm.Port, len(rows)/2)
	for _, row := range rows {
		ports[row.Pod] = append(ports[row.Pod], row.Port)
	}
	return ports, nil
}

// settled is the stage of a pod on which no operation is under way.
func settled(pod farm.Pod) farm.Stage {
	switch {
	case pod.Phase == "Failed" || pod.Phase == "Succeeded":
		return farm.StageFailed
	case pod.Phase == "Running" && pod.Ready:
		return farm.StageReady
	}
	return farm.StageWaitingReady
}

func phase(pod farm.Pod) string {
	if pod.Terminating {
		return PhaseTerminating
	}
	return pod.Phase
}

// Nodes tells the state of all nodes, by name. What counts load, NodePorts or GPUs being down costs these
// figures, with a warning; without the cluster there is an error.
func (o *Overview) Nodes(ctx context.Context) (Nodes, error) {
	nodes, err := o.nodes.get(ctx)
	if err != nil {
		return Nodes{}, fmt.Errorf("read the nodes: %w", err)
	}
	pods, err := o.pods.get(ctx)
	if err != nil {
		return Nodes{}, fmt.Errorf("read the pods: %w", err)
	}
	workspaces := make(map[farm.NodeName]int, len(nodes))
	for _, pod := range pods {
		workspaces[pod.Node]++
	}
	told := Nodes{Nodes: make([]Node, len(nodes))}
	if told.GPUs, err = o.countGPUs(ctx); err != nil {
		told.Warnings = append(told.Warnings, fmt.Sprintf("the GPUs are not counted: %v", err))
	}
	scores, err := o.load.get(ctx)
	if err != nil {
		told.Warnings = append(told.Warnings, fmt.Sprintf("the load is not known: %v", err))
	}
	for i, node := range nodes {
		told.Nodes[i] = Node{
			Name: node.Name, Ready: node.Ready, Schedulable: !node.Cordoned && !node.ControlPlane, Workspaces: workspaces[node.Name],
		}
		if score, known := scores[node.Name]; known {
			told.Nodes[i].Score = &score
		}
	}
	fill, err := o.opts.NodePorts(ctx)
	if err != nil {
		told.Warnings = append(told.Warnings, fmt.Sprintf("the NodePorts are not counted: %v", err))
		return told, nil
	}
	told.NodePorts = &fill
	return told, nil
}

// countGPUs waits a moment at most: the count is one figure among others, and asks the API server.
func (o *Overview) countGPUs(ctx context.Context) ([]farm.GPUCount, error) {
	ctx, cancel := context.WithTimeout(ctx, gpusWait)
	defer cancel()
	return o.gpus.get(ctx)
}

// readLoad asks for all nodes at once.
func (o *Overview) readLoad(ctx context.Context) (map[farm.NodeName]float64, error) {
	nodes, err := o.nodes.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the nodes: %w", err)
	}
	names := make([]farm.NodeName, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return o.opts.Load.Scores(ctx, names)
}

// Findings tells the outcome of the last audit.
func (o *Overview) Findings(ctx context.Context) (audit.Outcome, error) {
	found, err := o.opts.Audits.Last(ctx)
	if err != nil {
		return audit.Outcome{}, fmt.Errorf("read the outcome of the last audit: %w", err)
	}
	return found, nil
}
