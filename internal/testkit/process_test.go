package testkit

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// parentEnv makes this test binary play a test process that starts a part and lives on.
const parentEnv = "TESTKIT_PARENT_LOG"

func TestPartsDieWithTheirProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pidFile := filepath.Join(dir, "pid")
	parent := exec.Command(os.Args[0], "-test.run=^TestBeingAParent$")
	parent.Env = append(os.Environ(), parentEnv+"="+pidFile)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = parent.Wait() }()
	defer func() { _ = parent.Process.Kill() }()
	var pid int
	WaitFor(t, 20*time.Second, "the part", func(context.Context) error {
		text, err := os.ReadFile(pidFile)
		if err != nil {
			return err
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err
	})
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the part does not run: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	WaitFor(t, 20*time.Second, "the end of the part", func(context.Context) error {
		// A zombie that nobody has reaped yet is an end too.
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(status), ") Z ") {
			return nil
		}
		return errors.Join(errors.New("it runs"), err)
	})
}

// TestBeingAParent is the other process of TestPartsDieWithTheirProcess; on its own it has nothing
// to do.
func TestBeingAParent(t *testing.T) {
	pidFile := os.Getenv(parentEnv)
	if pidFile == "" {
		return
	}
	p := &process{name: "part", path: "/bin/sh", args: []string{"-c", "exec sleep 1000"}, log: pidFile + ".log"}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pidFile+".draft", []byte(strconv.Itoa(p.runningPID())), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(pidFile+".draft", pidFile); err != nil {
		t.Fatal(err)
	}
	<-t.Context().Done() // until it is killed
}

func TestProcessTellsWhyItIsNotReady(t *testing.T) {
	t.Parallel()
	p := &process{
		name: "part", path: "/bin/sh", args: []string{"-c", "echo no port; exit 3"}, log: filepath.Join(t.TempDir(), "log"),
		ready: func(context.Context) error { return errors.New("not yet") },
	}
	err := p.start()
	if err == nil {
		t.Fatal("a program that ends counts as started")
	}
	for _, part := range []string{"part is not ready", "exit status 3", "no port"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}

func TestSweepRemovesFoldersOfEndedProcessesAlone(t *testing.T) {
	t.Parallel()
	ended := exec.Command("/bin/true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	old := filepath.Join(parent, dirPrefix+strconv.Itoa(ended.Process.Pid)+"-1")
	mine := filepath.Join(parent, dirPrefix+strconv.Itoa(os.Getpid())+"-1")
	other := filepath.Join(parent, dirPrefix+"else")
	for _, dir := range []string{old, mine, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sweep(parent)
	for dir, want := range map[string]bool{old: false, mine: true, other: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(dir), err == nil, want)
		}
	}
}
