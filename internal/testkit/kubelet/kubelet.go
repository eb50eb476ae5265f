// Package kubelet plays the part of a kubelet that kwok lacks: it answers the API server's exec
// calls over the real streaming protocol, and its calls for logs, with what tests set in files.
package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"
)

// Result is how a command in a pod ends. Without a result a command does nothing and exits 0.
type Result struct {
	Contains string `json:"contains"` // hits commands whose words, joined by spaces, have this text; "" = all
	Exit     int    `json:"exit"`
	Stdout   string `json:"stdout,omitempty"`
	Stderr   string `json:"stderr,omitempty"`
	Hang     bool   `json:"hang,omitempty"`  // runs until the caller goes
	Break    bool   `json:"break,omitempty"` // the stream breaks without an exit status
}

// Log is what containers wrote. Without one there is no log, and the call fails.
type Log struct {
	Contains string `json:"contains"`           // hits pods whose name has this text; "" = all
	Text     string `json:"text"`               // of the present run
	Previous string `json:"previous,omitempty"` // of the run before
	Hang     bool   `json:"hang,omitempty"`     // sends the text, and then nothing until the caller goes
}

// Call is one exec that arrived.
type Call struct {
	Pod       string   `json:"pod"`
	Container string   `json:"container"`
	Command   []string `json:"command"`
}

const (
	streamIdle   = 4 * time.Hour
	streamCreate = 30 * time.Second
)

// Server answers exec calls and calls for logs. Folder has NAMESPACE.json, the results of a namespace
// (a list of Result, the first that fits wins; absent = all commands exit 0), and NAMESPACE.logs, a
// list of Log, likewise. It gets NAMESPACE.calls, one Call in JSON a line.
type Server struct {
	Folder string

	mu sync.Mutex // one writer of the call lists
}

// ServeHTTP answers /exec/NAMESPACE/POD/CONTAINER, with or without a pod uid before the container,
// and /containerLogs/NAMESPACE/POD/CONTAINER, as a kubelet does; anything else is 404.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) == 4 && parts[0] == "containerLogs" {
		s.serveLog(w, r, parts[1], parts[2])
		return
	}
	if len(parts) < 4 || len(parts) > 5 || parts[0] != "exec" {
		http.NotFound(w, r)
		return
	}
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	namespace, pod, container := parts[1], parts[2], parts[len(parts)-1]
	command := r.URL.Query()["command"]
	if err := s.note(namespace, Call{Pod: pod, Container: container, Command: command}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	result, err := s.resultOf(namespace, strings.Join(command, " "))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	remotecommand.ServeExec(w, r, result, pod, "", container, command, options, streamIdle, streamCreate,
		remotecommand.SupportedStreamingProtocols)
}

func (s *Server) note(namespace string, call Call) error {
	line, err := json.Marshal(call)
	if err != nil {
		return fmt.Errorf("note exec in %s: %w", call.Pod, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(filepath.Join(s.Folder, namespace+".calls"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("note exec in %s: %w", call.Pod, err)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func (s *Server) resultOf(namespace, command string) (Result, error) {
	var results []Result
	if err := s.load(namespace+".json", &results); err != nil {
		return Result{}, err
	}
	for _, result := range results {
		if strings.Contains(command, result.Contains) {
			return result, nil
		}
	}
	return Result{}, nil
}

// load reads what a test has set; a file that is not there leaves target as it is.
func (s *Server) load(name string, target any) error {
	text, err := os.ReadFile(filepath.Join(s.Folder, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, target)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// serveLog sends the end of a log, bounded as the query says.
func (s *Server) serveLog(w http.ResponseWriter, r *http.Request, namespace, pod string) {
	var logs []Log
	if err := s.load(namespace+".logs", &logs); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	at := slices.IndexFunc(logs, func(l Log) bool { return strings.Contains(pod, l.Contains) })
	if at < 0 {
		http.NotFound(w, r)
		return
	}
	query := r.URL.Query()
	text := logs[at].Text
	if query.Get("previous") == "true" {
		text = logs[at].Previous
	}
	if n, err := strconv.Atoi(query.Get("tailLines")); err == nil {
		lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
		text = strings.Join(lines[max(0, len(lines)-n):], "")
	}
	if n, err := strconv.Atoi(query.Get("limitBytes")); err == nil {
		text = text[:min(n, len(text))]
	}
	_, _ = io.WriteString(w, text)
	if logs[at].Hang {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

// ExecInContainer gives the result over the streams of the call.
func (r Result) ExecInContainer(ctx context.Context, _, _, _ string, _ []string, in io.Reader, out, errOut io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if in != nil {
		go func() { _, _ = io.Copy(io.Discard, in) }()
	}
	if out != nil {
		_, _ = io.WriteString(out, r.Stdout)
	}
	if errOut != nil {
		_, _ = io.WriteString(errOut, r.Stderr)
	}
	switch {
	case r.Hang:
		<-ctx.Done()
		return ctx.Err()
	case r.Break:
		return errors.New("the container runtime is gone")
	case r.Exit != 0:
		return exec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", r.Exit), Code: r.Exit}
	}
	return nil
}
