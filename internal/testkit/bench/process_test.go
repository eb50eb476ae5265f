//go:build bench

package bench_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"config-server/internal/testkit"
	"config-server/internal/testkit/load"
)

// start measures the time from the process's beginning to the first answer, and what it uses idle.
func (b *bench) start(t *testing.T) {
	var times []time.Duration
	var idle []float64
	for range b.runs {
		took, memory := b.startOnce(t)
		times, idle = append(times, took), append(idle, memory)
	}
	b.add(t, load.Row{
		Measure: "start to first answer", Target: "under 300 ms", Figure: ms(load.Median(times)), Met: load.Median(times) < 300*time.Millisecond, Runs: inMilliseconds(times), Unit: "ms",
	})
	b.add(t, load.Row{
		Measure: "memory idle, 3 s after the start (RSS)", Target: "under 40 MB", Figure: fmt.Sprintf("%.0f MB", load.Median(idle)), Met: load.Median(idle) < 40, Runs: idle, Unit: "MB",
	})
}

// startOnce runs the binary on a port that is known before, and asks until it answers.
func (b *bench) startOnce(t *testing.T) (took time.Duration, memory float64) {
	t.Helper()
	binary, err := testkit.ServiceBinary(build())
	if err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	state := t.TempDir()
	command := exec.CommandContext(t.Context(), binary, "serve")
	command.Env = append(b.world.Environ(), "PATH="+os.Getenv("PATH"), "HOME="+state, "LISTEN_ADDR="+address, "STATE_DIR="+filepath.Join(state, "state"))
	begin := time.Now()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait() // killed: its status tells nothing
	}()
	limit := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		response, err := http.Get("http://" + address + "/health")
		if err == nil {
			took = time.Since(begin)
			_ = response.Body.Close()
			break
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("no answer: %v", err)
		}
	}
	testkit.WaitFor(t, time.Minute, "three idle seconds", after(3*time.Second))
	u, err := load.UsageOf(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return took, megabytes(u.RSS)
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
