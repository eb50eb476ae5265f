// Package apitest checks answers of the service against its description. Only tests import it.
package apitest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"config-server/api"
)

// Validator holds the description, ready to be compared with.
type Validator struct {
	Document *openapi3.T
	router   routers.Router
}

// New reads the embedded description. The error says where it is no valid OpenAPI document, or
// which of its examples does not fit its schema.
func New(ctx context.Context) (*Validator, error) {
	decodeTexts()
	document, err := openapi3.NewLoader().LoadFromData(api.YAML())
	if err != nil {
		return nil, fmt.Errorf("read the API description: %w", err)
	}
	if err := document.Validate(ctx, openapi3.EnableExamplesValidation(), openapi3.EnableSchemaFormatValidation()); err != nil {
		return nil, fmt.Errorf("validate the API description: %w", err)
	}
	// Routes are matched by path alone, wherever the service listens.
	document.Servers = nil
	router, err := gorillamux.NewRouter(document)
	if err != nil {
		return nil, fmt.Errorf("route the API description: %w", err)
	}
	return &Validator{Document: document, router: router}, nil
}

// ValidateAnswer compares an answer with what the description says of the request's route and of
// the answer's status: media type and every field. A route, a status or a field that the
// description lacks is an error. The answer's body can be read again afterwards.
func (v *Validator) ValidateAnswer(req *http.Request, resp *http.Response) error {
	route, params, err := v.router.FindRoute(req)
	if err != nil {
		return fmt.Errorf("%s %s is not in the API description: %w", req.Method, req.URL.Path, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the answer of %s %s: %w", req.Method, req.URL.Path, err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 resp.StatusCode,
		Header:                 resp.Header,
		Body:                   io.NopCloser(bytes.NewReader(body)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(req.Context(), input); err != nil {
		return fmt.Errorf("answer %d of %s %s differs from the API description: %w", resp.StatusCode, req.Method, req.URL.Path, err)
	}
	return nil
}

// decodeTexts makes the library compare pages and streams of events as it compares plain text.
var decodeTexts = sync.OnceFunc(func() {
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("text/event-stream", openapi3filter.PlainBodyDecoder)
})
