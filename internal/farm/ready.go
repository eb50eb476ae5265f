package farm

import (
	"errors"
	"time"
)

// ReadyReason says in one word why a workspace did not get Ready. It is a closed set, for figures;
// the error that has it tells the whole story.
type ReadyReason string

// The reasons.
const (
	ReadyImageNeverPull ReadyReason = "image_never_pull" // the image is not on the node, and pulling is forbidden
	ReadyImagePull      ReadyReason = "image_pull"       // the image's name is wrong, or it cannot be pulled
	ReadyConfigError    ReadyReason = "config_error"     // kubelet refuses the container's configuration, say a missing Secret
	ReadyCreateError    ReadyReason = "create_error"     // the container, or the pod's sandbox, cannot be made
	ReadyRunError       ReadyReason = "run_error"        // the container cannot be started, or its hook fails
	ReadyMount          ReadyReason = "mount"            // a volume cannot be mounted
	ReadyUnschedulable  ReadyReason = "unschedulable"    // no node takes the pod
	ReadyRejected       ReadyReason = "rejected"         // kubelet refused or evicted the pod: GPUs, processor, memory or disk are short
	ReadyExited         ReadyReason = "exited"           // the container ended
	ReadyDeleted        ReadyReason = "deleted"          // somebody deleted or replaced the pod meanwhile
	ReadyTimeout        ReadyReason = "timeout"          // not Ready in time, and nobody says why
	ReadyUnreadable     ReadyReason = "unreadable"       // the API server does not tell how the pod is
	ReadyOther          ReadyReason = "other"
)

// ReadyReasons lists all of them.
func ReadyReasons() []ReadyReason {
	return []ReadyReason{
		ReadyImageNeverPull, ReadyImagePull, ReadyConfigError, ReadyCreateError, ReadyRunError, ReadyMount, ReadyUnschedulable,
		ReadyRejected, ReadyExited, ReadyDeleted, ReadyTimeout, ReadyUnreadable, ReadyOther,
	}
}

// ReadyLimits bound the wait for a new pod.
type ReadyLimits struct {
	// Total bounds the whole wait.
	Total time.Duration
	// Unschedulable bounds the time in which no node takes the pod, PullGrace that in which the pull of
	// an image fails and is tried again; 0 = Total alone counts.
	Unschedulable, PullGrace time.Duration
}

// NotReadyError is a wait for Ready that failed, with its reason. Its text is the wrapped error's.
type NotReadyError struct {
	Reason ReadyReason
	Err    error
}

// Error is the text of the wrapped error.
func (e *NotReadyError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *NotReadyError) Unwrap() error { return e.Err }

// ReadyReasonOf is the reason in an error's chain; ReadyOther if there is none.
func ReadyReasonOf(err error) ReadyReason {
	var notReady *NotReadyError
	if errors.As(err, &notReady) {
		return notReady.Reason
	}
	return ReadyOther
}
