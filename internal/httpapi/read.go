package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"config-server/internal/farm"
)

// textNoObject is the answer to every body that is no JSON object.
const textNoObject = "request body must be a JSON object"

// fields are the members of a request's JSON object, by exact name. A member that is null counts
// as left out; of a member given twice the last one counts.
type fields map[string]json.RawMessage

// read takes the request's body as a JSON object, whatever its Content-Type says. Anything else,
// text behind the object or text that is no UTF-8 is farm.Invalid; a body over the limit is
// farm.TooLarge.
func (a *api) read(w http.ResponseWriter, r *http.Request) (fields, error) {
	raw, err := a.readAll(w, r)
	if err != nil {
		return nil, err
	}
	var in fields
	if !utf8.Valid(raw) || json.Unmarshal(raw, &in) != nil || in == nil {
		return nil, farm.Errorf(farm.Invalid, textNoObject)
	}
	for name, value := range in {
		if isNull(value) {
			delete(in, name)
		}
	}
	return in, nil
}

// readAll reads to the end of the body: only then does net/http watch whether the caller goes away.
func (a *api) readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		// What follows may take longer than the body might have. After a failure the limit stays:
		// net/http reads on behind the answer, and must not wait there for ever.
		setReadDeadline(w, time.Time{})
		return raw, nil
	}
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return nil, tooLarge(long.Limit)
	}
	failure := farm.Errorf(farm.Invalid, "request body could not be read")
	failure.Cause = err
	return nil, failure
}

// readQuery takes the request's query. One that is malformed is farm.Invalid: what net/url makes of it by
// itself lacks parameters, and the answer would be to another question.
func readQuery(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, farm.Errorf(farm.Invalid, "malformed query: %v", err)
	}
	return query, nil
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// text is a member that must be a string; "" if it is left out. The error is farm.Invalid.
func (f fields) text(name string) (string, error) {
	raw, ok := f[name]
	if !ok {
		return "", nil
	}
	text, ok := asText(raw)
	if !ok {
		return "", farm.Errorf(farm.Invalid, "%s must be a string", name)
	}
	return text, nil
}

// missing lists, in the order given, the members that are left out or empty strings.
func (f fields) missing(names ...string) []string {
	var absent []string
	for _, name := range names {
		if raw, ok := f[name]; !ok || string(raw) == `""` {
			absent = append(absent, name)
		}
	}
	return absent
}

// asText decodes a JSON string. A string with half of a surrogate pair is none: it has no UTF-8
// form, and decoding would quietly put another character in its place.
func asText(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' || hasLoneSurrogate(raw) {
		return "", false
	}
	var text string
	err := json.Unmarshal(raw, &text)
	return text, err == nil
}

// asList decodes a JSON list without looking at its items.
func asList(raw json.RawMessage) ([]json.RawMessage, bool) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, false
	}
	var items []json.RawMessage
	err := json.Unmarshal(raw, &items)
	return items, err == nil
}

// asTexts decodes a list of strings.
func asTexts(raw json.RawMessage) ([]string, bool) {
	items, ok := asList(raw)
	if !ok {
		return nil, false
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if texts[i], ok = asText(item); !ok {
			return nil, false
		}
	}
	return texts, true
}
