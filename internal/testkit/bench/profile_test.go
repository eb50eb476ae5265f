//go:build bench

package bench_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"config-server/internal/testkit"
)

// profile begins to profile the service, if BENCH_PROFILE names a folder, and returns what ends it
// and writes the profiles of processor, waiting and allocations.
func (b *bench) profile(t *testing.T, s *testkit.ServiceProcess, name string) (end func()) {
	t.Helper()
	folder := os.Getenv("BENCH_PROFILE")
	if folder == "" {
		return func() {}
	}
	base := "http://" + b.profiles[s] + "/debug/pprof/"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// One short one after the other, until the measure ends; what the last one has by then is lost.
		// go tool pprof adds the files up.
		for i := 0; ctx.Err() == nil; i++ {
			fetch(ctx, t, base+"profile?seconds=1", filepath.Join(folder, fmt.Sprintf("%s-cpu-%03d.pb.gz", name, i)))
		}
	}()
	return func() {
		cancel()
		<-done
		for _, kind := range []string{"block", "allocs", "heap"} {
			fetch(t.Context(), t, base+kind, filepath.Join(folder, name+"-"+kind+".pb.gz"))
		}
		t.Logf("%s: %v of processor time, %+v", name, usage(t, s).CPU.Round(time.Millisecond), usage(t, s))
	}
}

// fetch writes an answer to a file. A measure that ends before is no failure.
func fetch(ctx context.Context, t *testing.T, url, path string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if ctx.Err() == nil {
			t.Errorf("profile: %v", err)
		}
		return
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Error(err)
	}
}

// stepTimes is what the service's own metrics say of a use case's steps that went well: of each, the
// seconds of all and their number.
type stepTimes map[string]struct{ seconds, count float64 }

func (c *client) stepTimes(t *testing.T, useCase string) stepTimes {
	t.Helper()
	status, body, err := c.send(t.Context(), http.MethodGet, "/metrics", "")
	if status != http.StatusOK {
		t.Fatalf("GET /metrics: %d %v", status, err)
	}
	series := regexp.MustCompile(`(?m)^config_server_step_duration_seconds_(sum|count)\{result="ok",step="([^"]+)",use_case="` + useCase + `"\} (\S+)$`)
	times := stepTimes{}
	for _, found := range series.FindAllStringSubmatch(string(body), -1) {
		value, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		step := times[found[2]]
		if found[1] == "sum" {
			step.seconds = value
		} else {
			step.count = value
		}
		times[found[2]] = step
	}
	return times
}

// since tells how long each step took on average since an earlier look.
func (now stepTimes) since(earlier stepTimes) string {
	var lines []string
	for _, step := range slices.Sorted(maps.Keys(now)) {
		if count := now[step].count - earlier[step].count; count > 0 {
			lines = append(lines, fmt.Sprintf("%s %.2f ms", step, 1000*(now[step].seconds-earlier[step].seconds)/count))
		}
	}
	return strings.Join(lines, ", ")
}
