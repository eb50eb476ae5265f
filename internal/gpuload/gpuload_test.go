package gpuload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"config-server/internal/farm"
)

// newScorer asks handler in place of a Prometheus.
func newScorer(t *testing.T, handler http.HandlerFunc, timeout time.Duration) *Scorer {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	scorer, err := New(Options{URL: server.URL, Timeout: timeout, Client: server.Client()})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return scorer
}

// vector answers with samples of the form node/reading/value.
func vector(samples ...string) http.HandlerFunc {
	items := make([]string, len(samples))
	for i, sample := range samples {
		part := strings.Split(sample, "/")
		items[i] = fmt.Sprintf(`{"metric":{"Hostname":%q,"reading":%q},"value":[1,%q]}`, part[0], part[1], part[2])
	}
	body := `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(items, ",") + `]}}`
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

func TestScoreFormula(t *testing.T) {
	t.Parallel()
	type scores map[farm.NodeName]float64
	cases := map[string]struct {
		samples []string
		want    scores
	}{
		"all readings":           {[]string{"a/util/10", "a/fb/1000", "a/temp/40"}, scores{"a": 11.3765625}},
		"order does not matter":  {[]string{"a/temp/40", "a/fb/1000", "a/util/10"}, scores{"a": 11.3765625}},
		"two nodes":              {[]string{"a/util/80", "b/util/10", "a/fb/20000", "b/fb/1000", "a/temp/70", "b/temp/40"}, scores{"a": 100.23125, "b": 11.3765625}},
		"idle":                   {[]string{"a/util/0", "a/fb/0", "a/temp/0"}, scores{"a": 0}},
		"utilisation alone":      {[]string{"a/util/10"}, scores{"a": 10}},
		"no utilisation":         {[]string{"a/fb/1000", "a/temp/40"}, scores{}},
		"utilisation not finite": {[]string{"a/util/NaN", "a/fb/1000", "b/util/+Inf", "c/util/-Inf"}, scores{}},
		"memory not finite":      {[]string{"a/util/10", "a/fb/NaN", "a/temp/+Inf"}, scores{"a": 10}},
		"unknown reading":        {[]string{"a/util/10", "a/power/300"}, scores{"a": 10}},
		"nothing":                {nil, scores{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := newScorer(t, vector(c.samples...), time.Minute).Scores(t.Context(), []farm.NodeName{"a", "b"})
			if err != nil || !maps.Equal(got, c.want) {
				t.Errorf("scores %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

func TestOneQueryForAnyNumberOfNodes(t *testing.T) {
	t.Parallel()
	var queries atomic.Int32
	scorer := newScorer(t, func(w http.ResponseWriter, r *http.Request) {
		queries.Add(1)
		vector()(w, r)
	}, time.Minute)
	for n, want := range map[int]int32{0: 0, 1: 1, 1000: 1} {
		queries.Store(0)
		nodes := make([]farm.NodeName, n)
		for i := range nodes {
			nodes[i] = farm.NodeName(fmt.Sprintf("farm%d", i))
		}
		scores, err := scorer.Scores(t.Context(), nodes)
		if err != nil || scores == nil || queries.Load() != want {
			t.Errorf("%d nodes: %d queries, scores %v, %v, want %d queries", n, queries.Load(), scores, err, want)
		}
	}
}

func TestNodeNamesAreEscaped(t *testing.T) {
	t.Parallel()
	query := queryFor([]farm.NodeName{`farm.5`, `a"} or up{x="`, `b|c`})
	want := `{Hostname=~"farm\\.5|a\"\\} or up\\{x=\"|b\\|c"}`
	if strings.Count(query, want) != 3 {
		t.Errorf("query %s\nlacks three times %s", query, want)
	}
}

func TestFailuresNameTheirReason(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		handler http.HandlerFunc
		says    string
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"status":"error","errorType":"bad_data","error":"parse error"}`)
		}, "bad_data: parse error"},
		"server error": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "503"},
		"HTML":         {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, ""},
		"no vector": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
		}, "not a vector"},
		"broken off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scorer := newScorer(t, c.handler, time.Minute)
			scores, err := scorer.Scores(t.Context(), []farm.NodeName{"a"})
			if err == nil || !strings.Contains(err.Error(), c.says) || scores != nil {
				t.Errorf("scores %v, error %v", scores, err)
			}
			if err := scorer.Check(t.Context()); err == nil {
				t.Error("Check gave no error")
			}
		})
	}
}

func TestHangingPrometheusIsLeftAfterTheLimit(t *testing.T) {
	t.Parallel()
	scorer := newScorer(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // A server sees that its client is gone once it has read the body.
		<-r.Context().Done()
	}, 50*time.Millisecond)
	_, err := scorer.Scores(t.Context(), []farm.NodeName{"a"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("error %v", err)
	}
}

func TestErrorsHoldNoCredential(t *testing.T) {
	t.Parallel()
	scorer, err := New(Options{URL: "http://user:tokentoken@127.0.0.1:1/x"})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if _, err := scorer.Scores(t.Context(), []farm.NodeName{"a"}); err == nil || strings.Contains(err.Error(), "tokentoken") {
		t.Errorf("error %v", err)
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"http://prometheus:9090": true, "https://prometheus/sub/path": true,
		"": false, "prometheus:9090": false, "http://": false, "ftp://prometheus": false, "http://a b": false,
	} {
		if _, err := New(Options{URL: text}); (err == nil) != good {
			t.Errorf("New(%q): %v, want good = %v", text, err, good)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	type scores map[farm.NodeName]float64
	cases := map[string]struct {
		order  []farm.NodeName
		scores scores
		want   farm.NodeName
		ok     bool
	}{
		"lowest":                      {[]farm.NodeName{"a", "b", "c"}, scores{"a": 3, "b": 1, "c": 2}, "b", true},
		"tie: the first in order":     {[]farm.NodeName{"c", "b", "a"}, scores{"a": 1, "b": 1, "c": 1}, "c", true},
		"tie behind a worse one":      {[]farm.NodeName{"a", "c", "b"}, scores{"a": 2, "b": 1, "c": 1}, "c", true},
		"unscored ranks last":         {[]farm.NodeName{"a", "b"}, scores{"b": 1000}, "b", true},
		"unscored is not 0":           {[]farm.NodeName{"a", "b"}, scores{"b": 0.5}, "b", true},
		"nobody has a score":          {[]farm.NodeName{"b", "a"}, scores{}, "b", true},
		"nil scores":                  {[]farm.NodeName{"b", "a"}, nil, "b", true},
		"negative":                    {[]farm.NodeName{"a", "b"}, scores{"a": 0, "b": -1}, "b", true},
		"scores of others":            {[]farm.NodeName{"a"}, scores{"z": 0}, "a", true},
		"nobody to choose":            {nil, scores{"a": 1}, "", false},
		"scored first, unscored next": {[]farm.NodeName{"a", "b"}, scores{"a": 5}, "a", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if node, ok := Choose(c.order, c.scores); node != c.want || ok != c.ok {
				t.Errorf("Choose = %q, %v, want %q, %v", node, ok, c.want, c.ok)
			}
		})
	}
}

func TestQueriesAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		failed  bool
	}{
		"well":   {vector("a/util/10"), false},
		"broken": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told []string
			scorer := newScorer(t, c.handler, time.Minute)
			scorer.called = func(_ context.Context, call string, _ time.Duration, err error) {
				told = append(told, fmt.Sprint(call, ", failed ", err != nil))
			}
			for _, nodes := range [][]farm.NodeName{nil, {"a", "b"}} {
				_, _ = scorer.Scores(t.Context(), nodes)
			}
			if want := fmt.Sprint("query GPU load of 2 nodes, failed ", c.failed); len(told) != 1 || told[0] != want {
				t.Errorf("told %q, want %q", told, want)
			}
		})
	}
}
