package cluster

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

// maxBody bounds the API server's words that are kept for a caller, in characters.
const maxBody = 4096

// apiError turns an error of the client into a *farm.APIError. Status is 0 if the API server gave
// no answer.
func apiError(err error) error {
	var already *farm.APIError
	if errors.As(err, &already) {
		return err
	}
	var answered apierrors.APIStatus
	if !errors.As(err, &answered) {
		return &farm.APIError{Err: err}
	}
	status := answered.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, jsonErr := json.Marshal(status)
	if jsonErr != nil {
		body = []byte(status.Message)
	}
	return &farm.APIError{
		Status: int(status.Code),
		Reason: string(status.Reason),
		Body:   farm.CutText(string(body), maxBody),
		Err:    err,
	}
}

// unanswered is nil if the API server answered in good order, be it with a no about the object that
// was asked for: then the server itself is well and lets us in.
func unanswered(err error) error {
	if err == nil {
		return nil
	}
	var answer *farm.APIError
	if errors.As(apiError(err), &answer) {
		switch answer.Status {
		case http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity:
			return nil
		}
	}
	return err
}

// isPortTaken recognises the answer to a Service whose nodePort belongs to another Service. The
// API server has no reason of its own for it: 422, the field and the words are all there is.
func isPortTaken(err error) bool {
	var answered apierrors.APIStatus
	if !errors.As(err, &answered) {
		return false
	}
	status := answered.Status()
	if status.Code != http.StatusUnprocessableEntity || status.Details == nil {
		return false
	}
	for _, cause := range status.Details.Causes {
		if strings.HasSuffix(cause.Field, "nodePort") && strings.Contains(cause.Message, "already allocated") {
			return true
		}
	}
	return false
}
