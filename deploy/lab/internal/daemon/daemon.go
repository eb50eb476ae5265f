// Package daemon runs programs that outlive the program that started them. Each is known by a file
// with its process id and the time of its start, so that an id that the kernel has given to somebody
// else in the meantime is never taken for it.
package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// friendly is how long a program may take to end after SIGTERM before it is killed.
	friendly = 15 * time.Second
	// startLimit bounds the wait until a program is ready.
	startLimit = 2 * time.Minute
	pause      = 50 * time.Millisecond
)

// Daemon is one program of the lab.
type Daemon struct {
	Name string
	Path string
	Args []string
	Env  []string // NAME=value, all that the program sees beside PATH and HOME
	Dir  string   // the folder in which it runs; "" = /
	// RunDir holds the pid file, LogDir the log; both are on this machine's own file tree.
	RunDir, LogDir string
	// Namespace, when set, is the file of a mount namespace in which the program runs.
	Namespace string
	// NewNamespace starts the program in a mount namespace of its own.
	NewNamespace bool
	// Ready is asked until it returns nil; nil = ready once started.
	Ready func(context.Context) error
}

// Running returns the program's process id, 0 when it does not run.
func (d *Daemon) Running() int {
	pid, start, _ := d.read()
	if pid == 0 || StartTime(pid) != start {
		return 0
	}
	return pid
}

// Current tells whether the program runs as it is described now.
func (d *Daemon) Current() bool {
	_, _, was := d.read()
	return d.Running() != 0 && was == d.fingerprint()
}

// Start runs the program unless it runs already as it is described now, and waits until it is
// ready. A program that runs as it was described earlier is ended first.
func (d *Daemon) Start(ctx context.Context) error {
	if err := d.Launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	err := Wait(ctx, func(ctx context.Context) error {
		if d.Running() == 0 {
			return Final(errors.New("it has ended"))
		}
		if d.Ready == nil {
			return nil
		}
		return d.Ready(ctx)
	})
	if err != nil {
		return fmt.Errorf("start %s: %w\n%s", d.Name, err, d.LogTail())
	}
	return nil
}

// Launch is Start without the wait.
func (d *Daemon) Launch() error {
	if d.Current() {
		return nil
	}
	if err := d.Stop(); err != nil {
		return err
	}
	for _, dir := range []string{d.RunDir, d.LogDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("start %s: %w", d.Name, err)
		}
	}
	logFile, err := os.OpenFile(d.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	defer func() { _ = logFile.Close() }()
	path, args := d.Path, d.Args
	if d.Namespace != "" {
		path, args = "/usr/bin/nsenter", append([]string{"--mount=" + d.Namespace, "--", d.Path}, d.Args...)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}, d.Env...)
	cmd.Dir = d.Dir
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Stdout, cmd.Stderr = logFile, logFile
	// A session of its own: the terminal's end and its Ctrl-C are not the program's.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if d.NewNamespace {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	pid := cmd.Process.Pid
	text := fmt.Sprintf("%d %s %s\n", pid, StartTime(pid), d.fingerprint())
	if err := os.WriteFile(d.pidFile(), []byte(text), 0o644); err != nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	// Reaped here as long as this program lives, by init afterwards.
	go func() { _ = cmd.Wait() }()
	return nil
}

// Stop ends the program, with SIGKILL if SIGTERM is not enough. One that does not run is no error.
func (d *Daemon) Stop() error {
	if err := d.end(syscall.SIGTERM, friendly); err == nil {
		return nil
	}
	return d.Kill()
}

// Kill ends the program at once.
func (d *Daemon) Kill() error {
	if err := d.end(syscall.SIGKILL, friendly); err != nil {
		return fmt.Errorf("end %s: %w", d.Name, err)
	}
	return nil
}

func (d *Daemon) end(sig syscall.Signal, limit time.Duration) error {
	pid := d.Running()
	if pid != 0 {
		_ = syscall.Kill(pid, sig)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := Wait(ctx, func(context.Context) error {
		if d.Running() != 0 {
			return errors.New("it still runs")
		}
		return nil
	})
	if err != nil {
		return err
	}
	_ = os.Remove(d.pidFile())
	return nil
}

// LogFile is where everything goes that the program prints.
func (d *Daemon) LogFile() string { return filepath.Join(d.LogDir, d.Name+".log") }

// LogTail is the end of that.
func (d *Daemon) LogTail() string {
	f, err := os.Open(d.LogFile())
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	const limit = 3 << 10
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		_, _ = f.Seek(-limit, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	return string(text)
}

func (d *Daemon) pidFile() string { return filepath.Join(d.RunDir, d.Name+".pid") }

func (d *Daemon) read() (pid int, start, fingerprint string) {
	text, err := os.ReadFile(d.pidFile())
	if err != nil {
		return 0, "", ""
	}
	fields := strings.Fields(string(text))
	if len(fields) != 3 {
		return 0, "", ""
	}
	pid, err = strconv.Atoi(fields[0])
	if err != nil {
		return 0, "", ""
	}
	return pid, fields[1], fields[2]
}

// fingerprint tells whether a running program is the one that is described now: same binary, same
// arguments, same surroundings.
func (d *Daemon) fingerprint() string {
	hash := sha256.New()
	if f, err := os.Open(d.Path); err == nil {
		// Go and the C linker write the build's own id to the head of the file; its time changes with
		// every call of the compiler.
		_, _ = io.CopyN(hash, f, 16<<10)
		if info, err := f.Stat(); err == nil {
			_, _ = fmt.Fprintln(hash, info.Size())
		}
		_ = f.Close()
	}
	_, _ = fmt.Fprintf(hash, "%q %q %q %q", d.Path, d.Args, d.Env, d.Namespace)
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// StartTime is when a process began, in clock ticks since the machine's start, as text; "" when
// there is no such process, or only its zombie.
func StartTime(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The second field is a name in parentheses that may hold anything.
	_, rest, found := strings.Cut(string(text), ") ")
	if i := strings.LastIndex(string(text), ") "); i >= 0 {
		rest = string(text)[i+2:]
	}
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

// finalError ends a Wait.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// Final marks an error after which waiting is of no use.
func Final(err error) error { return finalError{err} }

// Wait asks until ask returns nil or a Final error, or ctx is done; it returns the last error.
func Wait(ctx context.Context, ask func(context.Context) error) error {
	for {
		err := ask(ctx)
		var final finalError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &final):
			return final.error
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}
