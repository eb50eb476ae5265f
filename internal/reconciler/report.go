package reconciler

import "config-server/internal/farm"

// Kind says what sort of thing was found.
type Kind string

// The kinds of finding.
const (
	KindStaleRow      Kind = "stale-row"       // a row whose pod and Services are gone
	KindOrphanPod     Kind = "orphan-pod"      // a pod of ours that does not run and has neither row nor Service
	KindOrphanService Kind = "orphan-service"  // a Service of ours whose pod is gone
	KindMissingRow    Kind = "missing-row"     // a live Service without its row
	KindPortConflict  Kind = "port-conflict"   // a live Service whose port another pod's row has
	KindBareRunning   Kind = "bare-running"    // a running pod of ours with neither row nor Service
	KindSuspicious    Kind = "suspicious"      // listings that contradict one another
	KindStaleGPURow   Kind = "stale-gpu-row"   // a GPU that is assigned to a pod that does not have it
	KindMissingGPURow Kind = "missing-gpu-row" // a running pod with a GPU that is not assigned to it
	KindTask          Kind = "task"            // a recovery
)

// Kinds lists all of them.
func Kinds() []Kind {
	return []Kind{
		KindStaleRow, KindOrphanPod, KindOrphanService, KindMissingRow, KindPortConflict, KindBareRunning, KindSuspicious,
		KindStaleGPURow, KindMissingGPURow, KindTask,
	}
}

// Action says what was done about a finding.
type Action string

// The actions.
const (
	ActionWait     Action = "wait"      // seen for the first time, or an operation holds the lock
	ActionDone     Action = "done"      // mended
	ActionReported Action = "reported"  // only told: a person has to decide
	ActionWould    Action = "would-fix" // dry run
	ActionFailed   Action = "failed"    // tried in vain; the next pass tries again
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind   Kind          `json:"kind"`
	Object string        `json:"object"`
	User   farm.UserName `json:"user,omitempty"`
	Action Action        `json:"action"`
	Detail string        `json:"detail"`
}

// Report is the outcome of a pass.
type Report struct {
	Findings []Finding `json:"findings"`
	// Busy: another instance was at it, so only the tasks were run.
	Busy bool `json:"busy,omitempty"`
}

func (r *Report) add(f Finding) { r.Findings = append(r.Findings, f) }

// Count counts the findings with this action.
func (r Report) Count(action Action) int {
	n := 0
	for _, f := range r.Findings {
		if f.Action == action {
			n++
		}
	}
	return n
}
