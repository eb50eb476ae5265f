package gpuload_test

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"config-server/internal/farm"
	"config-server/internal/gpuload"
	"config-server/internal/testkit"
)

func TestScoresOfARealPrometheus(t *testing.T) {
	t.Parallel()
	loads := testkit.GoldenLoads()
	// The average over GPUs of different load, names that a regular expression would misread, and a
	// GPU that reports no number beside one that does.
	loads["farm.9"] = []testkit.GPU{{Util: 0, Used: 0, Temp: 20}, {Util: 100, Used: 2048, Temp: 60}}
	loads["farmx9"] = []testkit.GPU{{Util: 1}}
	server := testkit.Prometheus(t, loads)
	scorer, err := gpuload.New(gpuload.Options{URL: server.URL, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := scorer.Check(t.Context()); err != nil {
		t.Errorf("Check: %v", err)
	}
	order := []farm.NodeName{"farm5", "farm6", "farm7", "farm8", "farm.9", `"}`}
	got, err := scorer.Scores(t.Context(), order)
	if err != nil {
		t.Fatalf("Scores: %v", err)
	}
	want := map[farm.NodeName]float64{
		"farm5":  80 + 20000.0/1024 + 0.7,
		"farm6":  11.3765625,
		"farm7":  50 + 8000.0/1024 + 0.6,
		"farm.9": 50 + 1 + 0.4,
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if !maps.EqualFunc(got, want, near) {
		t.Errorf("scores %v, want %v", got, want)
	}
	if node, ok := gpuload.Choose(order, got); node != "farm6" || !ok {
		t.Errorf("chose %q", node)
	}

	// A query for many nodes names none of them; hosts that nobody asked for, farmx9 here, stay out.
	many := slices.Clone(order)
	for i := range 1000 {
		many = append(many, farm.NodeName(fmt.Sprintf("node%04d", i)))
	}
	if got, err := scorer.Scores(t.Context(), many); err != nil || !maps.EqualFunc(got, want, near) {
		t.Errorf("scores among %d nodes: %v, %v, want %v", len(many), got, err, want)
	}
}

func TestGPUsWithoutANumberDoNotCount(t *testing.T) {
	t.Parallel()
	server := testkit.Prometheus(t, map[string][]testkit.GPU{
		"half": {{Util: math.Inf(1), Used: math.Inf(1), Temp: math.Inf(1)}, {Util: 10, Used: 1000, Temp: 40}},
		"none": {{Util: math.Inf(1), Used: 1000, Temp: 40}},
	})
	scorer, err := gpuload.New(gpuload.Options{URL: server.URL, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	got, err := scorer.Scores(t.Context(), []farm.NodeName{"half", "none"})
	if want := map[farm.NodeName]float64{"half": 11.3765625}; err != nil || !maps.Equal(got, want) {
		t.Errorf("scores %v, %v, want %v", got, err, want)
	}
}

func TestPrometheusThatStopsAndComesBack(t *testing.T) {
	t.Parallel()
	server := testkit.Prometheus(t, testkit.GoldenLoads())
	scorer, err := gpuload.New(gpuload.Options{URL: server.URL, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	server.Stop()
	if _, err := scorer.Scores(t.Context(), []farm.NodeName{"farm6"}); err == nil {
		t.Error("a stopped Prometheus gave scores")
	}
	server.Start(t)
	if _, err := scorer.Scores(t.Context(), []farm.NodeName{"farm6"}); err != nil {
		t.Errorf("after the outage: %v", err)
	}
}

// Each GPU of each node is told by its index, whatever the name of the node.
func TestAssignmentDevicesOfARealPrometheus(t *testing.T) {
	t.Parallel()
	server := testkit.Prometheus(t, map[string][]testkit.GPU{
		"farm.9": {{Util: 5}, {Util: math.Inf(1)}, {Util: 70}}, "farmx9": {{Util: 1}}, "farm5": {{Util: 80}},
	})
	scorer, err := gpuload.New(gpuload.Options{URL: server.URL, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	order := []farm.NodeName{"farm.9", "farm5", "farm8"}
	want := map[farm.NodeName]map[int]float64{"farm.9": {0: 5, 1: math.Inf(1), 2: 70}, "farm5": {0: 80}}
	if got, err := scorer.Devices(t.Context(), order); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("devices %v, %v, want %v", got, err, want)
	}
	for i := range 1000 {
		order = append(order, farm.NodeName(fmt.Sprintf("node%04d", i)))
	}
	if got, err := scorer.Devices(t.Context(), order); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("devices among %d nodes: %v, %v, want %v", len(order), got, err, want)
	}
}
