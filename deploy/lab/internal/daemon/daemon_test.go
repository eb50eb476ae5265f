package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func sleeper(t *testing.T, seconds string) *Daemon {
	t.Helper()
	d := &Daemon{Name: "sleeper", Path: "/bin/sleep", Args: []string{seconds}, RunDir: t.TempDir(), LogDir: t.TempDir()}
	t.Cleanup(func() { _ = d.Kill() })
	return d
}

func TestStartRunsOnceUntilItIsDescribedDifferently(t *testing.T) {
	t.Parallel()
	d := sleeper(t, "1000")
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := d.Running()
	if first == 0 || !d.Current() {
		t.Fatalf("it does not run: pid %d", first)
	}
	if err := d.Start(t.Context()); err != nil || d.Running() != first {
		t.Fatalf("a second start: pid %d, %v; want pid %d", d.Running(), err, first)
	}
	d.Args = []string{"2000"}
	if d.Current() {
		t.Error("it is current after a change of its arguments")
	}
	if err := d.Start(t.Context()); err != nil || d.Running() == first {
		t.Fatalf("after a change: pid %d, %v; want another than %d", d.Running(), err, first)
	}
	if StartTime(first) != "" {
		t.Error("the former process still runs")
	}
	if err := d.Stop(); err != nil || d.Running() != 0 {
		t.Errorf("after its end: pid %d, %v", d.Running(), err)
	}
	if err := d.Stop(); err != nil {
		t.Errorf("a second end: %v", err)
	}
}

func TestSomebodyElsesProcessIsNeverTakenForIt(t *testing.T) {
	t.Parallel()
	d := sleeper(t, "1000")
	// This test's own process, with another time of start: as if the kernel had given its number again.
	if err := os.WriteFile(filepath.Join(d.RunDir, "sleeper.pid"), fmt.Appendf(nil, "%d 1 x\n", os.Getpid()), 0o644); err != nil {
		t.Fatal(err)
	}
	if pid := d.Running(); pid != 0 {
		t.Errorf("process %d is taken for the program", pid)
	}
	if err := d.Kill(); err != nil {
		t.Error(err)
	}
}

func TestAProgramThatEndsAtOnceIsAnErrorWithItsWords(t *testing.T) {
	t.Parallel()
	d := sleeper(t, "no-number")
	d.Ready = func(context.Context) error { return errors.New("not yet") }
	err := d.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "it has ended") || !strings.Contains(err.Error(), "invalid time interval") {
		t.Errorf("the error is %v", err)
	}
}
