//go:build bench

package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"config-server/internal/testkit"
	"config-server/internal/testkit/load"
	"config-server/internal/testkit/world"
)

// manyUsers is the size of the big ledger.
const manyUsers = 20000

// The tag bench keeps the measures out of make test: they take long and judge nothing by time.

// TestBench measures the service on real parts and prints each figure beside its target. With
// -update the table goes into docs/performance.md. BENCH_RUNS (5) sets of how many runs the medians
// are; BENCH_PROFILE names a folder for profiles of each measure, of a build that can be profiled.
func TestBench(t *testing.T) {
	b := newBench(t, "Benchmark")
	for _, measure := range []struct {
		name string
		run  func(b *bench, t *testing.T)
	}{
		{"start", (*bench).start},
		{"create", (*bench).createOne},
		{"calls", (*bench).countCalls},
		{"burst", (*bench).createMany},
		{"waiting", (*bench).whileWaiting},
		{"lists", (*bench).readUsers},
		{"accounts", (*bench).createUsers},
		{"memory", (*bench).memory},
	} {
		if !t.Run(measure.name, func(t *testing.T) { measure.run(b, t) }) {
			return
		}
	}
	b.print(t, "bench", "docs/performance.md")
}

// bench is the stand of all measures and their table.
type bench struct {
	world *world.World
	table *load.Table
	runs  int
	// shares by their number of users
	shares map[int]string
	// profiles has the address of each service's profiles, where it was built to serve them.
	profiles map[*testkit.ServiceProcess]string
}

func newBench(t *testing.T, title string) *bench {
	b := &bench{runs: number(t, "BENCH_RUNS", 5), shares: map[int]string{}, profiles: map[*testkit.ServiceProcess]string{}}
	b.table = &load.Table{
		Title: title, Machine: load.Machine(),
		Setting: fmt.Sprintf("%s, %s, medians of %d runs", time.Now().UTC().Format(time.DateOnly), runtime.Version(), b.runs),
	}
	b.world = world.New(t, world.Options{})
	for _, users := range []int{1000, manyUsers} {
		b.shares[users] = writeShare(t, users)
	}
	return b
}

// number is a whole number from the environment.
func number(t testing.TB, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no positive number", name, text)
	}
	return n
}

// service starts the binary, without the race detector, over a share with so many users.
func (b *bench) service(t *testing.T, users int, env map[string]string) (*testkit.ServiceProcess, *client) {
	t.Helper()
	full := map[string]string{"BASE_ETC_DIR": b.shares[users], "PROFILE_ADDR": freeAddress(t)}
	for name, value := range env {
		full[name] = value
	}
	s := b.world.NewService(t, build(), full)
	s.Start(t)
	b.profiles[s] = full["PROFILE_ADDR"]
	c := newClient(s.URL)
	// Connections and watches are made at first use; figures are those of a service that runs.
	status, _, err := c.send(t.Context(), "GET", "/readyz", "")
	if status != 200 {
		t.Fatalf("the service is not ready: %d %v", status, err)
	}
	return s, c
}

// build is that of the release, or the one that can be profiled.
func build() testkit.Build {
	if os.Getenv("BENCH_PROFILE") != "" {
		return testkit.Build{NoRace: true, Tags: "profiling"}
	}
	return testkit.Build{NoRace: true, Release: true}
}

// usage reads what the service uses.
func usage(t testing.TB, s *testkit.ServiceProcess) load.Usage {
	t.Helper()
	u, err := load.UsageOf(s.PID())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// print shows the table in both forms and, under -update, puts it into the page.
func (b *bench) print(t *testing.T, name, page string) {
	t.Helper()
	text := b.table.Markdown()
	encoded, err := b.table.JSON()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\n%s\n%s\n", text, encoded)
	if !testkit.Updating() {
		return
	}
	root, err := testkit.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := load.Embed(filepath.Join(root, page), name, text); err != nil {
		t.Fatal(err)
	}
}

// add puts a row into the table and shows it at once.
func (b *bench) add(t *testing.T, row load.Row) {
	t.Helper()
	b.table.Add(row)
	t.Logf("%s: %s (target: %s, met: %v) %v", row.Measure, row.Figure, row.Target, row.Met, row.Runs)
}
