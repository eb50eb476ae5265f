package farm

import "time"

// Stage is how far an operation on a workspace has come, in words for people.
type Stage string

// The stages. Those of create and migrate follow one another in this order and never go back; ready
// and failed end an operation.
const (
	// StageUnknown: there is no workspace, and nothing is known of one that is being made.
	StageUnknown Stage = "unknown"
	// StageStarted: the operation has begun. It is the only stage of a delete that is under way.
	StageStarted            Stage = "started"
	StageSelectingNode      Stage = "selecting_node"
	StageBuildingPodSpec    Stage = "building_pod_spec"
	StageAllocatingNodePort Stage = "allocating_nodeport"
	StageDeployingKrb5      Stage = "deploying_krb5"
	StageCreatingPod        Stage = "creating_pod"
	StageWaitingReady       Stage = "waiting_ready"
	StageCreatingServices   Stage = "creating_services"
	// StageReady: all is done. The workspace stands; that of a delete is gone.
	StageReady Stage = "ready"
	// StageFailed: the operation failed; what it had made is taken back.
	StageFailed Stage = "failed"
)

// Stages are all stages, in their order.
var Stages = []Stage{
	StageUnknown, StageStarted, StageSelectingNode, StageBuildingPodSpec, StageAllocatingNodePort, StageDeployingKrb5,
	StageCreatingPod, StageWaitingReady, StageCreatingServices, StageReady, StageFailed,
}

// The results of a step and of an undo, as progress tells them.
const (
	ResultRunning = "running" // of a step that has begun
	ResultOK      = "ok"
	ResultError   = "error"
	ResultUndone  = "undone" // of an undo: what the step had done is taken back
	ResultNone    = "none"   // of an undo: there was nothing to take back
)

// What undos take back, as progress tells it.
const (
	WhatServices = "services"
	WhatPod      = "pod"
	WhatSecret   = "secret" // the pod's own, with the password hash
	WhatKeytab   = "keytab" // on the node
	WhatGPUs     = "gpus"   // that are assigned
	WhatPorts    = "ports"  // the rows of the NodePorts
	WhatRecord   = "record" // of the operation
)

// Whats are all that undos take back.
var Whats = []string{WhatServices, WhatPod, WhatSecret, WhatKeytab, WhatPorts, WhatGPUs, WhatRecord}

// StepResult is what became of one step.
type StepResult struct {
	Step    string  `json:"step"`
	Result  string  `json:"result"`  // ResultRunning, ResultOK or ResultError
	Seconds float64 `json:"seconds"` // that it took, to the millisecond; 0 while it runs
}

// UndoResult is what became of one undo.
type UndoResult struct {
	Step   string `json:"step"`
	What   string `json:"what"`   // that it takes back; empty in rows of older versions
	Result string `json:"result"` // ResultUndone, ResultNone or ResultError
}

// Progress is what one create, delete or migrate does or did, for people to read. It carries no
// secret.
type Progress struct {
	ID   string // that of the Operation, a UUID
	Kind OperationKind
	User UserName
	// Pod is the pod that is made or deleted, Node its node; empty = not known yet.
	Pod  PodName
	Node NodeName
	// OldPod and OldNode are what a migration leaves.
	OldPod  PodName
	OldNode NodeName
	Stage   Stage
	// Message is one short line about the stage.
	Message string
	// Code and Detail say of a failure what the caller was told.
	Code   Code
	Detail string
	Steps  []StepResult // in the order in which they began
	Undo   []UndoResult // in the order in which they ran
	// RequestID is that of the request that asked for the operation.
	RequestID string
	// Instance is the process that runs the operation, or that recovered it.
	Instance  string
	StartedAt time.Time // UTC, to the millisecond
	UpdatedAt time.Time
	// Done: nothing more is done; the stage is ready or failed.
	Done bool
}

// Status is what is known of a user's workspace: of the operation under way, of the last one, or of
// the pod itself.
type Status struct {
	User    UserName
	Stage   Stage
	Message string
	Pod     PodName
	Node    NodeName
	// Operation and what belongs to it; empty = the status was read off the pod alone.
	Operation   OperationKind
	OperationID string
	RequestID   string
	Code        Code
	Detail      string
	StartedAt   time.Time // zero = not known
	UpdatedAt   time.Time
}
