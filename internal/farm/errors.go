package farm

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// Kind says what sort of failure an error is. The HTTP edge turns it into a status.
type Kind string

// The kinds of failure.
const (
	Invalid      Kind = "invalid"      // the request is wrong: 400
	Unauthorized Kind = "unauthorized" // the token is missing or wrong: 401
	NotFound     Kind = "not found"    // the object does not exist: 404
	Conflict     Kind = "conflict"     // the object exists already: 409
	TooLarge     Kind = "too large"    // the body is over the limit: 413
	Internal     Kind = "internal"     // one of the service's parts failed: 500
	Upstream     Kind = "upstream"     // admin_be failed: 502
	Unavailable  Kind = "unavailable"  // the service is shutting down, or cannot look: 503
)

// Error is a failure as a caller is told it. It has a Code in the pod family and for the NAS and
// Kerberos failures of PUT /accounts/users; the accounts family has Detail alone.
type Error struct {
	Kind   Kind
	Step   Step
	Code   Code
	Detail string // for the caller; it never carries a secret
	Pod    PodName
	// Reason says more in the accounts family and in /migrate, whose Detail is a fixed text; it is
	// told as "detail" beside "error". Empty = nothing more to say.
	Reason string
	// WASStatus is the HTTP status that admin_be answered with; 0 = none.
	WASStatus int
	// Progress is the map of what was undone, or in delete-pod of what was done; nil reads as {}.
	Progress map[string]bool
	// RolledBack says that Progress is an undo map: it is then told as rollback too.
	RolledBack bool
	// Cause is the internal error; only logs see it.
	Cause error
}

// Error gives the step, the code, the detail and the cause, unless the detail begins with it.
func (e *Error) Error() string {
	text := string(e.Kind)
	if e.Code != "" {
		text = string(e.Step) + " " + string(e.Code)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Cause != nil && !strings.HasPrefix(e.Detail, e.Cause.Error()) {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the internal cause.
func (e *Error) Unwrap() error { return e.Cause }

// WithProgress returns a copy that tells what was undone.
func (e *Error) WithProgress(progress map[string]bool, rolledBack bool) *Error {
	c := *e
	c.Progress = maps.Clone(progress)
	c.RolledBack = rolledBack
	return &c
}

// Errorf makes an error of the accounts family and of /migrate: a kind and a text for the caller.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// Failf makes an error of the pod family.
func Failf(kind Kind, step Step, code Code, cause error, format string, args ...any) *Error {
	return &Error{Kind: kind, Step: step, Code: code, Cause: cause, Detail: fmt.Sprintf(format, args...)}
}

// AsError finds the Error in a chain. The second result is false if there is none.
func AsError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// APIError is a refusal or failure of the Kubernetes API. Adapters return it wrapped with the
// operation and the object; the edge tells Status, Reason and Body as k8s_status, k8s_reason and
// k8s_body.
type APIError struct {
	Status int    // HTTP status; 0 = the API server was not reached
	Reason string // metav1.StatusReason
	Body   string // the Status object as JSON text, bounded
	Err    error
}

// Error is the API server's message.
func (e *APIError) Error() string { return e.Err.Error() }

// Unwrap returns the client's error.
func (e *APIError) Unwrap() error { return e.Err }

// IsForbidden tells an answer of the API server that means a missing right: 403.
func IsForbidden(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.Status == 403
}

// Sentinels that adapters wrap with the object they speak of.
var (
	// ErrNotFound: the object does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists: an object of that name exists already.
	ErrExists = errors.New("already exists")
	// ErrPortTaken: the NodePort belongs to somebody else's Service.
	ErrPortTaken = errors.New("port is already allocated")
	// ErrPortsExhausted: no NodePort of the range is free.
	ErrPortsExhausted = errors.New("no free NodePort left")
	// ErrGPUsTaken: no node has as many GPU device files to give as a workspace wants.
	ErrGPUsTaken = errors.New("not enough GPUs")
	// ErrNeverReady: the pod can no longer become Ready.
	ErrNeverReady = errors.New("the pod can no longer become Ready")
	// ErrWaitTimeout: a wait ended by its own limit.
	ErrWaitTimeout = errors.New("timed out")
	// ErrLockTimeout: a lock was not had within its limit.
	ErrLockTimeout = errors.New("lock not obtained in time")
	// ErrClientSetup: there is no usable configuration of the Kubernetes client.
	ErrClientSetup = errors.New("kubernetes client is not configured")
	// ErrDeferred: it failed, is noted, and is tried again later; nobody has to do anything.
	ErrDeferred = errors.New("will be tried again")
	// ErrOwner: a home belongs to somebody else.
	ErrOwner = errors.New("belongs to another owner")
)
