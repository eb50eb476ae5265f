package load_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/testkit/load"
)

func TestTableTellsTargetsThatAreNotMet(t *testing.T) {
	t.Parallel()
	table := load.Table{Machine: "2 cores", Setting: "5 runs"}
	table.Add(load.Row{Measure: "a | b", Target: "< 1 ms", Figure: "0.5 ms", Met: true, Original: "1 s"})
	table.Add(load.Row{Measure: "c", Target: "< 1 ms", Figure: "2 ms"})
	table.Add(load.Row{Measure: "d", Figure: "3 ms"})
	text := table.Markdown()
	for _, line := range []string{
		"2 cores; 5 runs.",
		`| a \| b | < 1 ms | 0.5 ms | met | 1 s |`,
		"| c | < 1 ms | 2 ms | **not met** |  |",
		"| d |  | 3 ms |  |  |",
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	encoded, err := table.JSON()
	var read load.Table
	if err == nil {
		err = json.Unmarshal([]byte(encoded), &read)
	}
	if err != nil || !cmp.Equal(read, table) {
		t.Errorf("JSON: %v\n%s", err, encoded)
	}
}

func TestEmbedReplacesOnlyWhatStandsBetweenItsComments(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("before\n<!-- bench: begin -->\nold\n<!-- bench: end -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time changes nothing more
		if err := load.Embed(path, "bench", "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n<!-- bench: begin -->\n\nnew\n\n<!-- bench: end -->\nafter\n"; string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := load.Embed(path, "scale", "new\n"); err == nil {
		t.Error("a page without the comments was written")
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	t.Parallel()
	before, err := load.UsageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	// Burns processor time until it shows; on a busy machine that takes a while.
	for begin := time.Now(); after.CPU <= before.CPU && time.Since(begin) < 30*time.Second; {
		if after, err = load.UsageOf(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	if after.CPU <= before.CPU {
		t.Errorf("processor time went from %v to %v", before.CPU, after.CPU)
	}
	if after.RSS < 1<<20 || after.PeakRSS < after.RSS/2 || after.Files < 3 || after.Threads < 1 {
		t.Errorf("usage %+v", after)
	}
	if _, err := load.UsageOf(0); err == nil {
		t.Error("process 0 has a usage")
	}
	if machine := load.Machine(); !strings.Contains(machine, " cores (") || strings.HasPrefix(machine, "0 ") {
		t.Errorf("machine %q", machine)
	}
}

func TestCounterNotesWhatPasses(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(server.Close)
	counter := load.NewCounter(t, server.URL, nil)
	response, err := http.Post(counter.URL+"/api?limit=1", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	calls := counter.Take()
	if response.StatusCode != http.StatusTeapot || len(calls) != 1 || calls[0].Method != "POST" || calls[0].URL.String() != "/api?limit=1" {
		t.Errorf("status %d, calls %v", response.StatusCode, calls)
	}
	if left := counter.Take(); len(left) != 0 {
		t.Errorf("calls were told twice: %v", left)
	}
}
