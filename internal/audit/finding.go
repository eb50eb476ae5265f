package audit

import "config-server/internal/farm"

// Kind says what sort of thing does not fit. docs/operations.md tells of each what it means and what
// to do.
type Kind string

// The kinds of finding.
const (
	Unreadable        Kind = "unreadable"         // a part could not be read
	InterruptedCommit Kind = "interrupted-commit" // a change of the account files is half written
	StaleJournal      Kind = "stale-journal"      // an account operation that nobody ends
	StaleOperation    Kind = "stale-operation"    // a workspace operation that nobody ends
	DamagedLine       Kind = "damaged-line"       // a line that no program understands

	DuplicateName   Kind = "duplicate-name"         // a name twice in one file
	DuplicateNumber Kind = "duplicate-number"       // one number of two accounts or two groups
	SharedPrimary   Kind = "shared-primary"         // an account whose primary group has others in it
	RetiredNumber   Kind = "retired-number"         // a number that was somebody else's
	NoShadow        Kind = "no-shadow"              // an account without a shadow line
	NoPrimaryGroup  Kind = "no-primary-group"       // an account whose gid no group has
	ShadowOfNobody  Kind = "shadow-of-nobody"       // a shadow line without an account
	SudoersOfNobody Kind = "sudoers-of-nobody"      // a sudo policy without an account
	MemberOfNothing Kind = "member-without-account" // a group's member that is no account

	NoHome       Kind = "no-home"        // an account without a home
	ForeignHome  Kind = "foreign-home"   // a home that is another uid's
	HomeOfNobody Kind = "home-of-nobody" // a home without an account

	RowWithoutPod     Kind = "row-without-pod"     // ports reserved for a pod that is gone
	ServiceWithoutPod Kind = "service-without-pod" // a Service whose pod is gone
	PodWithoutRow     Kind = "pod-without-row"     // a pod that has no port at all
	ServiceWithoutRow Kind = "service-without-row" // a port in use that the table does not know
	RowWithoutService Kind = "row-without-service" // a port reserved for a pod and not opened
	PortMismatch      Kind = "port-mismatch"       // row and Service of one port tell different things
	DuplicatePort     Kind = "duplicate-port"      // two rows of one port
	PodOfNobody       Kind = "pod-of-nobody"       // a pod whose user is no account
	EndedPod          Kind = "ended-pod"           // a pod that has ended and holds ports

	SharedGPU        Kind = "shared-gpu"          // two pods have one GPU that nobody may share
	GPURowWithoutPod Kind = "gpu-row-without-pod" // a GPU is assigned to a pod that does not have it
	PodWithoutGPURow Kind = "pod-without-gpu-row" // a pod has a GPU that is not assigned to it
)

// order is how findings are listed: what hides others first.
var order = []Kind{
	Unreadable, InterruptedCommit, StaleJournal, StaleOperation, DamagedLine,
	DuplicateName, DuplicateNumber, SharedPrimary, RetiredNumber, NoShadow, NoPrimaryGroup, ShadowOfNobody, SudoersOfNobody, MemberOfNothing,
	NoHome, ForeignHome, HomeOfNobody,
	RowWithoutPod, ServiceWithoutPod, PodWithoutRow, ServiceWithoutRow, RowWithoutService, PortMismatch, DuplicatePort, PodOfNobody, EndedPod,
	SharedGPU, GPURowWithoutPod, PodWithoutGPURow,
}

// Kinds lists all kinds in the order in which they are reported.
func Kinds() []Kind { return append([]Kind(nil), order...) }

// Finding is one thing that does not fit.
type Finding struct {
	Kind   Kind          `json:"kind"`
	Object string        `json:"object"`
	User   farm.UserName `json:"user,omitempty"`
	// Detail says what is wrong.
	Detail string `json:"detail"`
	// Remedy is a shell command: it mends, or it shows what a person has to decide upon. None
	// removes anything of a user's without asking.
	Remedy string `json:"remedy"`
}

// identity is the finding without the texts that differ between two readings of one fault.
func (f Finding) identity() Finding { return Finding{Kind: f.Kind, Object: f.Object, User: f.User} }
