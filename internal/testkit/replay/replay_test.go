package replay_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"config-server/internal/testkit/replay"
)

func TestRunComparesByTheRulesOfTheRecording(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		recorded string // status, content_type, response and the like of the exchange
		status   int
		media    string
		body     string
		want     string // part of the difference; "" = none
	}{
		{"key order and white space", `"response":{"a":1,"b":[1,2]}`, 200, "application/json", `{"b": [1, 2], "a": 1}`, ""},
		{"media type counts without parameters", `"response":{}`, 200, "application/json; charset=utf-8", `{}`, ""},
		{"another media type", `"response":{}`, 200, "text/html", `{}`, "content type text/html, want application/json"},
		{"another status", `"response":{}`, 201, "application/json", `{}`, "status 201, want 200"},
		{"another value", `"response":{"a":{"b":1}}`, 200, "application/json", `{"a":{"b":2}}`, "a.b is 2, want 1"},
		{"another type", `"response":{"a":1}`, 200, "application/json", `{"a":"1"}`, `a is "1", want 1`},
		{"list order", `"response":{"a":[1,2]}`, 200, "application/json", `{"a":[2,1]}`, "a[0] is 2, want 1"},
		{"list length", `"response":{"a":[1]}`, 200, "application/json", `{"a":[1,1]}`, "a has 2 entries, want 1"},
		{"missing key", `"response":{"a":null}`, 200, "application/json", `{}`, "a is missing"},
		{"added key in a success", `"response":{}`, 200, "application/json", `{"b":1}`, "b is 1, want none"},
		{"added key in an error", `"status":400,"response":{"a":1}`, 400, "application/json", `{"a":1,"rollback":{}}`, ""},
		{"added key deep in an error", `"status":400,"response":{"a":{}}`, 400, "application/json", `{"a":{"b":1}}`, "a.b is 1, want none"},
		{"free key", `"status":400,"free":["a"],"response":{"a":"x"}`, 400, "application/json", `{"a":"y"}`, ""},
		{"free key of another type", `"free":["a"],"response":{"a":"x"}`, 200, "application/json", `{"a":1}`, "a is 1, want some string"},
		{"free key missing", `"free":["a"],"response":{"a":"x"}`, 200, "application/json", `{}`, "a is <nil>, want some string"},
		{"eight hex digits", `"response":{"a":"p-<8 hex>-q"}`, 200, "application/json", `{"a":"p-0123abcd-q"}`, ""},
		{"nine hex digits", `"response":{"a":"p-<8 hex>"}`, 200, "application/json", `{"a":"p-0123abcde"}`, "want"},
		{"upper case digits", `"response":{"a":"p-<8 hex>"}`, 200, "application/json", `{"a":"p-0123ABCD"}`, "want"},
		{"text", `"response_text":"OK"`, 200, "text/plain", "OK", ""},
		{"another text", `"response_text":"OK"`, 200, "text/plain", "OK\n", `text "OK\n", want "OK"`},
		{"not JSON", `"response":{}`, 200, "application/json", "<html>", "not JSON"},
		{"nothing to remember", `"save":"pod","response":{}`, 200, "application/json", "{}", "no pod_name"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.media)
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			defer server.Close()
			exchanges := load(t, `[{"id":"one","method":"GET","path":"/","status":200,"content_type":"application/json",`+test.recorded+`}]`)
			report, err := replay.Run(t.Context(), server.Client(), server.URL, exchanges)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" && report.String() != "1 passed, 0 failed" {
				t.Errorf("unexpected: %s", report)
			}
			if test.want != "" && (!strings.Contains(report.String(), test.want) || !strings.Contains(report.String(), "0 passed, 1 failed")) {
				t.Errorf("report %q, want %q in it", report, test.want)
			}
		})
	}
}

func TestRunRemembersNamesAndSendsRawText(t *testing.T) {
	t.Parallel()
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"pod_name":"ailab-kim-00000000"}`)
	}))
	defer server.Close()
	exchanges := load(t, `[
		{"id":"make","method":"POST","path":"/make","body":{"a":1},"status":200,"content_type":"application/json","save":"pod1","response":{"pod_name":"{pod1}"}},
		{"id":"use","method":"PUT","path":"/x/{pod1}","body":{"pod":"{pod1}"},"status":200,"content_type":"application/json","response":{"pod_name":"{pod1}"}},
		{"id":"raw","method":"PUT","path":"/raw","body":"nonsense","status":200,"content_type":"application/json","response":{"pod_name":"{pod1}"}},
		{"id":"none","method":"GET","path":"/none","body":null,"status":200,"content_type":"application/json","response":{"pod_name":"{pod1}"}}]`)
	checked := 0
	report, err := replay.Run(t.Context(), server.Client(), server.URL, exchanges, func(answer replay.Answer) error {
		checked++
		if answer.Exchange.ID == "none" {
			return errors.New("the schema says no")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "none:\n    the schema says no\n3 passed, 1 failed"; report.String() != want || checked != 4 {
		t.Errorf("report %q after %d checks, want %q", report, checked, want)
	}
	want := `POST /make {"a":1}|PUT /x/ailab-kim-00000000 {"pod":"ailab-kim-00000000"}|PUT /raw nonsense|GET /none `
	if got := strings.Join(seen, "|"); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
}

func TestTheRecordingLoads(t *testing.T) {
	t.Parallel()
	exchanges, err := replay.Load(filepath.Join("..", "..", "..", "testdata", "golden", "transcript.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(exchanges) != 62 {
		t.Errorf("%d exchanges, want 62", len(exchanges))
	}
	for _, exchange := range exchanges {
		if exchange.ResponseText == nil && !json.Valid(exchange.Response) {
			t.Errorf("%s has no answer", exchange.ID)
		}
	}
}

func load(t *testing.T, text string) []replay.Exchange {
	t.Helper()
	path := filepath.Join(t.TempDir(), "transcript.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	exchanges, err := replay.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return exchanges
}
