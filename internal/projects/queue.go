package projects

import (
	"encoding/json"
	"fmt"
	"time"
)

// Cueue is a project's queue, which another product makes and runs.
type Cueue struct {
	Name                           string
	Generation, ObservedGeneration int64
	Priority                       int64  // higher goes first
	Policy                         string // FirstAllocating or FirstScheduling; empty = the queue's own default
	Nodes                          []string
	// Waiting are the pods, the head first.
	Waiting []Waiting
	// Blocks say why the queue does not move; none = nothing is known to be in its way.
	Blocks []Block
}

// Waiting is a pod in a queue.
type Waiting struct {
	Name, Namespace, UID string
	Since                time.Time // zero = not known
}

// The conditions of a Cueue that say why it does not move.
const (
	HeadBlocked          = "HeadBlocked"
	BlockedByHigherCueue = "BlockedByHigherCueue"
)

// Block is a condition that holds a queue up.
type Block struct {
	Type            string // HeadBlocked or BlockedByHigherCueue
	Reason, Message string // the queue's words
	Since           time.Time
}

// Meaning says what a block means.
func (b Block) Meaning() string {
	if b.Type == HeadBlocked {
		return "the pod at the head cannot be placed, and those behind it wait for it"
	}
	return "a queue of a higher priority on the same nodes goes first"
}

// cueueObject is what is read of the API's object.
type cueueObject struct {
	Metadata struct {
		Name       string `json:"name"`
		Generation int64  `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		Priority *int64      `json:"priority"`
		Policy   string      `json:"policy"`
		Pods     []podInLine `json:"pods"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64            `json:"observedGeneration"`
		Nodes              []nodeName       `json:"nodes"`
		Pods               []podInLine      `json:"pods"`
		Conditions         []cueueCondition `json:"conditions"`
	} `json:"status"`
}

type podInLine struct {
	Name        string    `json:"name"`
	Namespace   string    `json:"namespace"`
	UID         string    `json:"uid"`
	EnqueueTime time.Time `json:"enqueueTime"`
}

type cueueCondition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// nodeName is a node in a list of names, or of objects that have one.
type nodeName string

// UnmarshalJSON reads "farm5" and {"name": "farm5"}.
func (n *nodeName) UnmarshalJSON(text []byte) error {
	var named struct{ Name string }
	if err := json.Unmarshal(text, (*string)(n)); err == nil {
		return nil
	}
	if err := json.Unmarshal(text, &named); err != nil {
		return err
	}
	*n = nodeName(named.Name)
	return nil
}

// ReadCueue reads a Cueue as the API server tells it. The order is that of spec.pods; the times are those that the status has for
// the same pods, and one that only the status has still waits for nothing.
func ReadCueue(object []byte) (Cueue, error) {
	var o cueueObject
	if err := json.Unmarshal(object, &o); err != nil {
		return Cueue{}, fmt.Errorf("read Cueue: %w", err)
	}
	c := Cueue{
		Name: o.Metadata.Name, Generation: o.Metadata.Generation, ObservedGeneration: o.Status.ObservedGeneration, Priority: 1, Policy: o.Spec.Policy,
	}
	if o.Spec.Priority != nil {
		c.Priority = *o.Spec.Priority
	}
	for _, n := range o.Status.Nodes {
		c.Nodes = append(c.Nodes, string(n))
	}
	since := make(map[string]time.Time, len(o.Status.Pods))
	for _, p := range o.Status.Pods {
		since[p.UID] = p.EnqueueTime
	}
	for _, p := range o.Spec.Pods {
		c.Waiting = append(c.Waiting, Waiting{p.Name, p.Namespace, p.UID, since[p.UID]})
	}
	for _, held := range o.Status.Conditions {
		if held.Status == "True" && (held.Type == HeadBlocked || held.Type == BlockedByHigherCueue) {
			c.Blocks = append(c.Blocks, Block{held.Type, held.Reason, held.Message, held.LastTransitionTime})
		}
	}
	return c, nil
}
