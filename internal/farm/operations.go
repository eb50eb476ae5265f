package farm

import "time"

// PortOwner is whom a reserved NodePort belongs to.
type PortOwner struct {
	User UserName
	Pod  PodName
	Node NodeName
}

// OperationKind says what an operation does to a workspace.
type OperationKind string

// The kinds of operation that leave a record while they run.
const (
	OperationCreate  OperationKind = "create"
	OperationDelete  OperationKind = "delete"
	OperationMigrate OperationKind = "migrate"
)

// The stages of an operation's record, as far as recovery needs to know.
const (
	// RecordRunning: a create or a migrate can be undone, a delete is to be finished.
	RecordRunning = "running"
	// RecordOldPodTouched: a migration whose new workspace stands; the old one is to be removed.
	RecordOldPodTouched = "old-pod-touched"
)

// Operation is the record of a create, delete or migrate that is under way. It is written before
// the first side effect and removed last.
type Operation struct {
	ID   string // UUID
	Kind OperationKind
	User UserName
	// Pod is the pod that is made or deleted, Node its node as far as it is known.
	Pod  PodName
	Node NodeName
	// OldPod and OldNode are what a migration leaves.
	OldPod  PodName
	OldNode NodeName
	Stage   string
	// Instance is the process that runs the operation, or that has claimed it for recovery.
	Instance  string
	StartedAt time.Time
	UpdatedAt time.Time
}
