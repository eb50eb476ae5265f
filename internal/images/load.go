package images

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	maxOutput = 64 << 10 // bytes of the program's output that are kept
	// killDelay is how long a killed program may keep its output open.
	killDelay = 2 * time.Second
)

// dockerLoad runs DOCKER_BIN load -i tar in a process group of its own, which is killed as a whole
// when the limit or the context ends.
func (s *Store) dockerLoad(ctx context.Context, tar, image string) error {
	limited, cancel := context.WithTimeoutCause(ctx, s.opts.LoadTimeout,
		fmt.Errorf("not loaded within %v: %w", s.opts.LoadTimeout, context.DeadlineExceeded))
	defer cancel()

	output := &firstBytes{limit: maxOutput}
	command := exec.CommandContext(limited, s.opts.DockerBin, "load", "-i", tar)
	command.Env = engineEnvironment(os.Environ())
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = killDelay

	begin := time.Now()
	err := command.Run()
	switch {
	case err != nil && limited.Err() != nil:
		err = context.Cause(limited)
	case err != nil:
		err = fmt.Errorf("load %s: %w: %s", tar, err, bounded(output.String()))
	}
	s.opts.Called.Tell(ctx, "load "+tar, begin, err)
	if err != nil {
		return err
	}
	if names := loadedNames(output.String()); len(names) > 0 && !hasImage(names, image) {
		return fmt.Errorf("load %s: it holds %s, not %s", tar, bounded(strings.Join(names, ", ")), image)
	}
	return nil
}

// engineEnvironment keeps what the engine's client needs. The service's own environment has
// passwords, which are nobody else's business.
func engineEnvironment(all []string) []string {
	var kept []string
	for _, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		switch {
		case strings.HasPrefix(name, "DOCKER_"), strings.HasPrefix(name, "CONTAINER_"):
			kept = append(kept, entry)
		case name == "PATH", name == "HOME", name == "TMPDIR", name == "XDG_RUNTIME_DIR", name == "LANG":
			kept = append(kept, entry)
		}
	}
	return kept
}

// loadedNames lists what the engine says that it loaded. An engine that says nothing is believed.
func loadedNames(output string) []string {
	var names []string
	for line := range strings.Lines(output) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), "Loaded image")
		if !found {
			continue
		}
		if _, name, found := strings.Cut(rest, ": "); found {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// hasImage accepts a registry's name before the image's, as some engines add localhost/.
func hasImage(names []string, image string) bool {
	for _, name := range names {
		if name == image || strings.HasSuffix(name, "/"+image) {
			return true
		}
	}
	return false
}

// firstBytes keeps the first limit bytes and lets the rest go.
type firstBytes struct {
	kept  bytes.Buffer
	limit int
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.kept.Write(p[:min(len(p), f.limit-f.kept.Len())])
	return len(p), nil
}

func (f *firstBytes) String() string { return f.kept.String() }
