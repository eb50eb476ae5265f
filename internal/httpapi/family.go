package httpapi

import (
	"net/http"

	"config-server/internal/farm"
)

// family is how a route tells failures that have no step and code of their own: an unreadable
// body, a missing token, a panic. A family without codes answers {"error": text}.
type family struct {
	invalidStep farm.Step
	invalid     farm.Code
	otherStep   farm.Step
	other       farm.Code
}

var (
	createPodFamily = family{farm.StepValidateRequest, farm.InvalidCreatePodRequest, farm.StepCreatePod, farm.CreatePodFailed}
	deletePodFamily = family{farm.StepValidateRequest, farm.InvalidDeletePodRequest, farm.StepDeletePod, farm.DeletePodFailed}
	plainFamily     = family{}
)

// familyOf goes by the path, because middleware needs it before the route is known.
func familyOf(r *http.Request) family {
	switch r.URL.Path {
	case "/create-pod":
		return createPodFamily
	case "/delete-pod":
		return deletePodFamily
	default:
		return plainFamily
	}
}

// dress gives an error without a code the step and the code of the family.
func (f family) dress(e *farm.Error) *farm.Error {
	if e.Code != "" || f.other == "" {
		return e
	}
	dressed := *e
	switch e.Kind {
	case farm.Invalid, farm.Unauthorized, farm.TooLarge:
		dressed.Step, dressed.Code = f.invalidStep, f.invalid
	default:
		dressed.Step, dressed.Code = f.otherStep, f.other
	}
	return &dressed
}
