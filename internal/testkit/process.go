package testkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startLimit bounds the start of one part. It is wide because many packages may build meanwhile.
	startLimit = 90 * time.Second
	// stopLimit bounds a friendly stop; a part that needs longer is killed.
	stopLimit = 20 * time.Second
	// probeInterval is the pause between two readiness probes.
	probeInterval = 20 * time.Millisecond
)

// process is a program that can be started, stopped, killed and started again with the same
// arguments. It runs no goroutine, so that leak detectors in tests see none of it.
type process struct {
	name string
	path string
	args []string
	env  []string // added to the environment of this process, or all of it when cleanEnv is set
	// cleanEnv keeps the environment of this process from the program.
	cleanEnv bool
	dir      string
	log      string // file that receives standard output and error of every run
	// attr, when set, changes how the process is created (namespaces).
	attr func(*syscall.SysProcAttr)
	// ready is asked until it returns nil.
	ready func(context.Context) error

	mu     sync.Mutex
	pid    int // 0 = not running
	exited string
}

// start runs the program and waits until it is ready. The error has the end of its log.
func (p *process) start() error {
	if err := p.launch(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := p.waitReady(ctx); err != nil {
		err = fmt.Errorf("%s is not ready: %w\n%s", p.name, err, p.logTail())
		p.kill()
		return err
	}
	return nil
}

// launch runs the program without waiting for readiness. Launching a running program is no error.
func (p *process) launch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.aliveLocked() {
		return nil
	}
	logFile, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer logFile.Close()
	cmd := exec.Command(p.path, p.args...)
	if !p.cleanEnv {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, p.env...)
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = logFile, logFile
	// Go keeps its threads for the life of the process, so that the death of the parent's thread is
	// the death of the parent.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if p.attr != nil {
		p.attr(cmd.SysProcAttr)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.pid, p.exited = cmd.Process.Pid, ""
	// The process is watched by its id with wait4 below; the handle is not needed.
	return cmd.Process.Release()
}

// waitReady probes until the program is ready, has ended, or ctx is done.
func (p *process) waitReady(ctx context.Context) error {
	return Eventually(ctx, func(ctx context.Context) error {
		if !p.alive() {
			return fatal(fmt.Errorf("it has ended: %s", p.ending()))
		}
		if p.ready == nil {
			return nil
		}
		return p.ready(ctx)
	})
}

// alive tells whether the program runs, and reaps it if it has ended.
func (p *process) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aliveLocked()
}

func (p *process) aliveLocked() bool {
	if p.pid == 0 {
		return false
	}
	var status syscall.WaitStatus
	for {
		got, err := syscall.Wait4(p.pid, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err == nil && got == 0:
			return true
		}
		p.pid = 0
		p.exited = describeStatus(status)
		return false
	}
}

func describeStatus(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "signal " + status.Signal().String()
	}
	return "exit status " + strconv.Itoa(status.ExitStatus())
}

// runningPID is the id of the running program, 0 when it does not run.
func (p *process) runningPID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.aliveLocked() {
		return 0
	}
	return p.pid
}

// ending tells how the last run ended: "exit status N" or "signal NAME".
func (p *process) ending() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// signal sends sig; a program that has ended is no error.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.aliveLocked() {
		_ = syscall.Kill(p.pid, sig)
	}
}

// stop ends the program in a friendly way, kills it when that takes too long, and waits for its end.
func (p *process) stop() {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT) // a frozen program cannot see the first signal
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if p.waitEnd(ctx) != nil {
		p.kill()
	}
}

// kill ends the program at once and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	_ = p.waitEnd(ctx)
}

// waitEnd waits until the program has ended.
func (p *process) waitEnd(ctx context.Context) error {
	return Eventually(ctx, func(context.Context) error {
		if p.alive() {
			return fmt.Errorf("%s still runs", p.name)
		}
		return nil
	})
}

// descendants returns the ids of all processes below pid, parents first.
func descendants(pid int) []int {
	if pid == 0 {
		return nil
	}
	var found []int
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				continue
			}
			found = append(found, child)
			found = append(found, descendants(child)...)
		}
	}
	return found
}

// logTail returns the end of the program's log.
func (p *process) logTail() string {
	return tail(p.log, 4<<10)
}

// tail returns at most limit bytes from the end of a file.
func tail(path string, limit int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		_, _ = f.Seek(-limit, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	return string(text)
}

// freePorts returns count loopback TCP ports that nobody listens on. They are all held until the
// last one is found, so that they differ.
func freePorts(count int) ([]int, error) {
	ports := make([]int, 0, count)
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// dialTCP is the readiness probe of parts that are ready when they accept connections.
func dialTCP(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
