//go:build crashpoints

package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"config-server/internal/nas"
	"config-server/internal/saga"
)

// This build can be killed at any of its points, for the crash matrix:
//
//   - CRASH_LOG names a file to which every point that is passed is appended, one a line.
//   - CRASH_FILE names a file with an order, which is read at every point so that a test can give
//     one to a running process: "kill POINT#K" has the process kill itself (SIGKILL) when it passes
//     POINT for the K-th time since the order was given; "hold POINT#K" has it stop there for ever,
//     so that the test can kill it together with other parts.
//
// Points are named "usecase/step/phase" for the events of a saga, "staged passwd" and the like
// between the instructions of a ledger commit, "POST pods before" and "POST pods after" around calls
// that change the cluster, and "nas chown before" and so on around commands that change the NAS.
var crashes = crasher{log: os.Getenv("CRASH_LOG"), file: os.Getenv("CRASH_FILE")}

// held is what the log says of a process that has stopped at its point.
const held = "held at "

type crasher struct {
	log, file string

	mu    sync.Mutex
	order string
	seen  int // how often the order's point was passed since it was given
}

func crashPoint(name string) { crashes.pass(anonymous(name)) }

// pass holds the mutex for as long as the process stops at a point, so that no other goroutine gets
// past a point of its own.
func (c *crasher) pass(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(name)
	order, _ := os.ReadFile(c.file) // no file = no order
	if text := strings.TrimSpace(string(order)); text != c.order {
		c.order, c.seen = text, 0
	}
	verb, point, _ := strings.Cut(c.order, " ")
	at := strings.LastIndex(point, "#")
	if at < 0 || point[:at] != name {
		return
	}
	c.seen++
	if strconv.Itoa(c.seen) != point[at+1:] {
		return
	}
	if verb == "kill" {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	c.note(held + point)
	select {}
}

func (c *crasher) note(line string) {
	if c.log == "" {
		return
	}
	f, err := os.OpenFile(c.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintln(f, line)
	_ = f.Close()
}

// anonymous takes names of users and journal entries out of a point's name, so that it is the same
// in every run.
func anonymous(name string) string {
	verb, file, found := strings.Cut(name, " ")
	dir := path.Dir(file)
	if found && (path.Base(dir) == "sudoers.d" || path.Ext(file) == ".json") {
		return verb + " " + dir + "/*"
	}
	return name
}

func crashPoints(next saga.Observer) saga.Observer {
	return func(ctx context.Context, event saga.Event) {
		next(ctx, event)
		crashPoint(fmt.Sprintf("%s/%s/%s", event.UseCase, event.Step, event.Phase))
	}
}

func crashTransport() func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return crashingTransport{next} }
}

type crashingTransport struct{ next http.RoundTripper }

// RoundTrip passes a point before and after each request that changes something.
func (c crashingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return c.next.RoundTrip(r)
	}
	// /api/v1/namespaces/NAMESPACE/KIND/...
	kind := "others"
	if parts := strings.Split(r.URL.Path, "/"); len(parts) > 5 {
		kind = parts[5]
	}
	crashPoint(r.Method + " " + kind + " before")
	response, err := c.next.RoundTrip(r)
	crashPoint(r.Method + " " + kind + " after")
	return response, err
}

func crashRunner(next nas.Runner) nas.Runner { return crashingRunner{next} }

type crashingRunner struct{ next nas.Runner }

// changing are the commands that change the NAS.
var changing = []string{"mkdir", "chown", "chmod", "rm"}

// Run passes a point before and after each command that changes something.
func (c crashingRunner) Run(ctx context.Context, argv []string, stdin []byte) (string, error) {
	if len(argv) < 2 || !slices.Contains(changing, argv[1]) {
		return c.next.Run(ctx, argv, stdin)
	}
	crashPoint("nas " + argv[1] + " before")
	out, err := c.next.Run(ctx, argv, stdin)
	crashPoint("nas " + argv[1] + " after")
	return out, err
}
