// Package replay plays recorded requests against a running service and compares its answers with the
// recorded ones.
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
)

// Exchange is one recorded request with its answer.
type Exchange struct {
	ID           string          `json:"id"`
	Method       string          `json:"method"`
	Path         string          `json:"path"`
	Body         json.RawMessage `json:"body"` // an object; or a string, which is sent as raw text; or null
	Status       int             `json:"status"`
	ContentType  string          `json:"content_type"`
	Response     json.RawMessage `json:"response"`
	ResponseText *string         `json:"response_text"` // of answers that are not JSON
	Save         string          `json:"save"`          // the answer's pod_name is remembered under this name
	Free         []string        `json:"free"`          // keys of the answer whose value may differ
	Note         string          `json:"note"`
}

// Answer is what the service said to an exchange.
type Answer struct {
	Exchange Exchange
	Path     string // as sent, with remembered names filled in
	Sent     []byte // body as sent; nil = none
	Status   int
	Header   http.Header
	Body     []byte
}

// Report counts the exchanges of a run.
type Report struct {
	Passed   int
	Failures []Failure
}

// Failure is an exchange that went otherwise than recorded.
type Failure struct {
	ID          string
	Differences []string
}

// String is the report in readable form: each failure, then the count in the form "62 passed, 0 failed".
func (r Report) String() string {
	var b strings.Builder
	for _, failure := range r.Failures {
		fmt.Fprintf(&b, "%s:\n", failure.ID)
		for _, difference := range failure.Differences {
			fmt.Fprintf(&b, "    %s\n", difference)
		}
	}
	fmt.Fprintf(&b, "%d passed, %d failed", r.Passed, len(r.Failures))
	return b.String()
}

// Load reads a transcript: a JSON list of exchanges.
func Load(path string) ([]Exchange, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read transcript: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	// A field that nobody compares would be a check that never fails.
	decoder.DisallowUnknownFields()
	var exchanges []Exchange
	if err := decoder.Decode(&exchanges); err != nil {
		return nil, fmt.Errorf("read transcript %s: %w", path, err)
	}
	return exchanges, nil
}

// Run sends the exchanges in order to the service at base (a URL without a final slash) and compares
// the answers. Each of checks, too, is asked about every answer; its error is a difference. The error
// of Run is that of the context alone: everything else is in the report.
func Run(ctx context.Context, client *http.Client, base string, exchanges []Exchange, checks ...func(Answer) error) (Report, error) {
	var report Report
	saved := make(map[string]string)
	for _, exchange := range exchanges {
		differences := one(ctx, client, base, exchange, saved, checks)
		if err := context.Cause(ctx); err != nil {
			return report, fmt.Errorf("replay %s: %w", exchange.ID, err)
		}
		if len(differences) > 0 {
			report.Failures = append(report.Failures, Failure{ID: exchange.ID, Differences: differences})
			continue
		}
		report.Passed++
	}
	return report, nil
}

// one plays one exchange and returns how its answer differs.
func one(ctx context.Context, client *http.Client, base string, exchange Exchange, saved map[string]string, checks []func(Answer) error) []string {
	answer, err := send(ctx, client, base, exchange, saved)
	if err != nil {
		return []string{err.Error()}
	}
	differences := compare(answer, saved)
	for _, check := range checks {
		if err := check(answer); err != nil {
			differences = append(differences, err.Error())
		}
	}
	return differences
}

func send(ctx context.Context, client *http.Client, base string, exchange Exchange, saved map[string]string) (Answer, error) {
	answer := Answer{Exchange: exchange, Path: fill(exchange.Path, saved)}
	if len(exchange.Body) > 0 && string(exchange.Body) != "null" {
		answer.Sent = []byte(fill(string(exchange.Body), saved))
		var raw string
		if json.Unmarshal(answer.Sent, &raw) == nil {
			answer.Sent = []byte(raw)
		}
	}
	// A nil *bytes.Reader would be a body; an empty interface is none.
	var body io.Reader
	if answer.Sent != nil {
		body = bytes.NewReader(answer.Sent)
	}
	req, err := http.NewRequestWithContext(ctx, exchange.Method, base+answer.Path, body)
	if err != nil {
		return answer, fmt.Errorf("make the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Do(req)
	if err != nil {
		return answer, fmt.Errorf("send: %w", err)
	}
	defer res.Body.Close()
	answer.Status, answer.Header = res.StatusCode, res.Header
	if answer.Body, err = io.ReadAll(res.Body); err != nil {
		return answer, fmt.Errorf("read the answer: %w", err)
	}
	return answer, nil
}

// fill puts remembered names in the place of {name}.
func fill(text string, saved map[string]string) string {
	for name, value := range saved {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// compare returns how the answer differs from the recorded one, and remembers what it has to.
func compare(answer Answer, saved map[string]string) []string {
	want := answer.Exchange
	var differences []string
	if answer.Status != want.Status {
		differences = append(differences, fmt.Sprintf("status %d, want %d: %s", answer.Status, want.Status, answer.Body))
	}
	if want.ResponseText != nil {
		if string(answer.Body) != *want.ResponseText {
			differences = append(differences, fmt.Sprintf("text %q, want %q", answer.Body, *want.ResponseText))
		}
		return differences
	}
	if err := sameMediaType(answer.Header.Get("Content-Type"), want.ContentType); err != nil {
		differences = append(differences, err.Error())
	}
	var got, recorded any
	if err := json.Unmarshal(answer.Body, &got); err != nil {
		return append(differences, fmt.Sprintf("the answer is not JSON: %v: %s", err, answer.Body))
	}
	if object, ok := got.(map[string]any); ok && want.Save != "" {
		name, ok := object["pod_name"].(string)
		if !ok {
			return append(differences, fmt.Sprintf("no pod_name to remember: %s", answer.Body))
		}
		saved[want.Save] = name
	}
	if err := json.Unmarshal([]byte(fill(string(want.Response), saved)), &recorded); err != nil {
		return append(differences, fmt.Sprintf("the recorded answer is not JSON: %v", err))
	}
	if object, ok := got.(map[string]any); ok {
		differences = append(differences, prepare(object, recorded, want)...)
	}
	return append(differences, Differences("", recorded, got)...)
}

// prepare takes out of the answer what may differ: free keys, which must be there and have the
// recorded type, and keys that were added to an error.
func prepare(got map[string]any, recorded any, want Exchange) []string {
	object, ok := recorded.(map[string]any)
	if !ok {
		return nil
	}
	var differences []string
	for _, key := range want.Free {
		if fmt.Sprintf("%T", got[key]) != fmt.Sprintf("%T", object[key]) {
			differences = append(differences, fmt.Sprintf("%s is %v, want some %T", key, got[key], object[key]))
		}
		delete(got, key)
		delete(object, key)
	}
	if want.Status < http.StatusBadRequest {
		return differences
	}
	for key := range got {
		if _, recorded := object[key]; !recorded && !slices.Contains(want.Free, key) {
			delete(got, key)
		}
	}
	return differences
}

func sameMediaType(got, want string) error {
	gotType, _, err := mime.ParseMediaType(got)
	wantType, _, wantErr := mime.ParseMediaType(want)
	if err := errors.Join(err, wantErr); err != nil {
		return fmt.Errorf("content type %q: %w", got, err)
	}
	if gotType != wantType {
		return fmt.Errorf("content type %s, want %s", gotType, wantType)
	}
	return nil
}
