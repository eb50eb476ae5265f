package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ServiceProcess is the real binary, running as a process of its own.
type ServiceProcess struct {
	// URL is the base URL after Start, without a final slash. Each start listens on a new port.
	URL string

	proc    *process
	logFrom int64 // where the log of the present run begins
}

// Build says how the binary is built.
type Build struct {
	Tags   string // build tags, separated by commas
	NoRace bool   // without the race detector, for measurements
	// Release is as make build builds it: static, without symbols.
	Release bool
}

// builtServices holds the binaries that this process has built.
var builtServices = struct {
	sync.Mutex
	paths map[Build]string
}{paths: make(map[Build]string)}

// Service builds the binary with -race and runs it on a free port of 127.0.0.1 with the environment
// given; beside it the process sees only PATH, HOME and TMPDIR. It is stopped after the test.
func Service(t testing.TB, env map[string]string) *ServiceProcess {
	t.Helper()
	s := NewService(t, Build{}, env)
	s.Start(t)
	return s
}

// NewService is Service of another build, and without the start.
func NewService(t testing.TB, build Build, env map[string]string) *ServiceProcess {
	t.Helper()
	Need(t, "service process", "golang", "go")
	binary, err := ServiceBinary(build)
	if err != nil {
		t.Fatal(err)
	}
	dir := testPartDir(t, "service")
	full := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": dir, "TMPDIR": dir, "LISTEN_ADDR": "127.0.0.1:0",
		"STATE_DIR": filepath.Join(dir, "state"), "GORACE": "halt_on_error=1",
	}
	maps.Copy(full, env)
	s := new(ServiceProcess)
	s.proc = &process{
		name: "config-server", path: binary, args: []string{"serve"}, dir: dir, log: filepath.Join(dir, "service.log"), cleanEnv: true,
		ready: func(context.Context) error { return s.findURL() },
	}
	for _, name := range slices.Sorted(maps.Keys(full)) {
		s.proc.env = append(s.proc.env, name+"="+full[name])
	}
	t.Cleanup(func() {
		s.proc.stop()
		if t.Failed() {
			t.Logf("end of the log of the service:\n%s", s.proc.logTail())
		}
	})
	return s
}

// Start runs the binary and waits until it listens.
func (s *ServiceProcess) Start(t testing.TB) {
	t.Helper()
	if info, err := os.Stat(s.proc.log); err == nil {
		s.logFrom = info.Size()
	}
	s.URL = ""
	controlled{s.proc}.restart(t)
}

// Kill ends the process at once (SIGKILL) and waits for its end.
func (s *ServiceProcess) Kill() { s.proc.kill() }

// Term asks the process to end (SIGTERM) and does not wait.
func (s *ServiceProcess) Term() { s.proc.signal(syscall.SIGTERM) }

// Alive tells whether the process runs.
func (s *ServiceProcess) Alive() bool { return s.proc.alive() }

// PID is the process's id, 0 when it does not run.
func (s *ServiceProcess) PID() int { return s.proc.runningPID() }

// Wait waits for the end of the process and returns how it ended: "exit status N" or "signal NAME".
func (s *ServiceProcess) Wait(t testing.TB, limit time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := s.proc.waitEnd(ctx); err != nil {
		t.Fatal(err)
	}
	return s.proc.ending()
}

// Log returns everything that all runs of the process have printed.
func (s *ServiceProcess) Log(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(s.proc.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// findURL reads the address from the line that says that the service listens.
func (s *ServiceProcess) findURL() error {
	text, err := os.ReadFile(s.proc.log)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text[min(s.logFrom, int64(len(text))):])) {
		var entry struct{ Msg, Address string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			s.URL = "http://" + entry.Address
			return nil
		}
	}
	return errors.New("it does not listen yet")
}

// ServiceBinary builds the binary, once for this process, and returns its path.
func ServiceBinary(build Build) (string, error) {
	builtServices.Lock()
	defer builtServices.Unlock()
	if path, ok := builtServices.paths[build]; ok {
		return path, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir, err := partDir("service-binary")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "config-server")
	cmd := exec.Command("go", "build", "-race="+strconv.FormatBool(!build.NoRace), "-tags", build.Tags)
	if build.Release {
		cmd.Args = append(cmd.Args, "-trimpath", "-ldflags", "-s -w")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	cmd.Args = append(cmd.Args, "-o", path, "./cmd/config-server")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the service: %w\n%s", err, out)
	}
	builtServices.paths[build] = path
	return path, nil
}
