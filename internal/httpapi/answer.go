package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"config-server/internal/farm"
	"config-server/internal/obs"
)

const contentJSON = "application/json"

// object is a JSON object that is answered. Its keys are sorted on the wire.
type object map[string]any

// write answers with a status and a body as JSON. It returns an error, and has sent nothing, if
// the body cannot be encoded.
func write(w http.ResponseWriter, status int, body any) error {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	w.Header().Set("Content-Type", contentJSON)
	w.Header().Set("Content-Length", strconv.Itoa(buf.Len()))
	w.WriteHeader(status)
	// A caller that is gone cannot be told so; the access log has the number of bytes.
	_, _ = w.Write(buf.Bytes())
	return nil
}

// statuses is the table from an error's kind to its HTTP status.
var statuses = map[farm.Kind]int{
	farm.Invalid:      http.StatusBadRequest,
	farm.Unauthorized: http.StatusUnauthorized,
	farm.NotFound:     http.StatusNotFound,
	farm.Conflict:     http.StatusConflict,
	farm.TooLarge:     http.StatusRequestEntityTooLarge,
	farm.Internal:     http.StatusInternalServerError,
	farm.Upstream:     http.StatusBadGateway,
	farm.Unavailable:  http.StatusServiceUnavailable,
}

// statusOf is the status of an error; a kind that the table lacks is a fault of ours.
func statusOf(e *farm.Error) int {
	if status, ok := statuses[e.Kind]; ok {
		return status
	}
	return http.StatusInternalServerError
}

// methodError is a 405: the one status that no use case can cause and that therefore has no kind.
type methodError struct{ error }

// fail answers with an error and leaves it to the access log.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	e, status := a.translate(r, err)
	noteFailure(r.Context(), err, e.Code)
	if err := write(w, status, errorBody(e, err)); err != nil {
		// An error body has only texts, numbers and booleans, so this cannot happen.
		panic(err)
	}
}

// translate gives every error the shape of its route's family.
func (a *api) translate(r *http.Request, err error) (*farm.Error, int) {
	fam := familyOf(r)
	e, ok := farm.AsError(err)
	if !ok {
		e = &farm.Error{Kind: farm.Internal, Cause: err,
			Detail: "internal error (request id " + obs.RequestID(r.Context()) + ")"}
	}
	e = fam.dress(e)
	var wrongMethod methodError
	if errors.As(err, &wrongMethod) {
		return e, http.StatusMethodNotAllowed
	}
	return e, statusOf(e)
}

// errorBody is the body of a failure: the pod family's for an error with a code, else the
// accounts family's.
func errorBody(e *farm.Error, err error) object {
	if e.Code == "" {
		body := object{"error": e.Detail}
		if e.Reason != "" {
			body["detail"] = e.Reason
		}
		return body
	}
	progress := progressJSON(e.Progress)
	body := object{"step": e.Step, "error": e.Code, "detail": e.Detail, "progress": progress}
	if e.RolledBack {
		body["rollback"] = progress
	}
	if e.Pod != "" {
		body["pod_name"] = e.Pod
	}
	if e.WASStatus != 0 {
		body["was_status"] = e.WASStatus
	}
	addKubernetes(body, err)
	return body
}

// addKubernetes tells what the API server said, if it was its refusal.
func addKubernetes(body object, err error) {
	var refusal *farm.APIError
	if !errors.As(err, &refusal) || refusal.Status == 0 {
		return
	}
	body["k8s_status"] = refusal.Status
	if refusal.Reason != "" {
		body["k8s_reason"] = refusal.Reason
	}
	if refusal.Body != "" {
		body["k8s_body"] = refusal.Body
	}
}

// addWarnings tells warnings if there are some.
func addWarnings(body object, warnings []string) object {
	if len(warnings) > 0 {
		body["warnings"] = warnings
	}
	return body
}

// number is a score as JSON has it: null if it is unknown, because JSON has no NaN and no Infinity.
func number(score *float64) any {
	if score == nil || math.IsNaN(*score) || math.IsInf(*score, 0) {
		return nil
	}
	return *score
}

// list makes nil an empty JSON list: callers need a list, null is none.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// progressJSON makes nil an empty JSON object: the pod family always has a progress.
func progressJSON(progress map[string]bool) map[string]bool {
	if progress == nil {
		return map[string]bool{}
	}
	return progress
}
