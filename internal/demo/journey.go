package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Tour is what a journey needs to know.
type Tour struct {
	URL     string        // base URL of the service
	Around  *Surroundings // whose farm the service lives on
	Out     io.Writer
	Timeout time.Duration // of one request; 0 = 60 s
}

// step is one call and what is told about it.
type step struct {
	title  string
	behind string // what happens, in a sentence or two
	before func(*journey)
	method string
	path   string // {pod} stands for the pod of the last answer that named one
	body   string // JSON, or what is meant to be none; {pod} as in path
	status int    // expected
	says   []string
	look   string // user whose traces are told and counted afterwards
	traces []string
}

// journey is a tour under way.
type journey struct {
	Tour
	client *http.Client
	pod    string // the pod of the last answer that named one
	faults []error
	calls  int
	begin  time.Time
}

// Journey goes through the service's main use cases over HTTP, prints each request and answer and
// what is behind it, and checks both. It ends early only if a request gets no answer. The error
// names everything that was not as told.
func Journey(ctx context.Context, tour Tour) error {
	if tour.Timeout == 0 {
		tour.Timeout = time.Minute
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	j := &journey{Tour: tour, client: &http.Client{Transport: transport, Timeout: tour.Timeout}, begin: time.Now()}
	synced, cancel := context.WithTimeout(ctx, tour.Timeout)
	tour.Around.WaitSynced(synced)
	cancel()
	for _, chapter := range chapters() {
		fmt.Fprintf(j.Out, "\n%s\n%s\n", chapter.title, strings.Repeat("=", len(chapter.title)))
		for _, step := range chapter.steps {
			if err := j.take(ctx, step); err != nil {
				return errors.Join(append(j.faults, err)...)
			}
		}
	}
	if len(j.faults) > 0 {
		return errors.Join(j.faults...)
	}
	fmt.Fprintf(j.Out, "\nAll %d answers were as told, in %.1f s.\n", j.calls, time.Since(j.begin).Seconds())
	return nil
}

// take does one step. An error is a request without an answer.
func (j *journey) take(ctx context.Context, s step) error {
	j.calls++
	fmt.Fprintf(j.Out, "\n%d. %s\n", j.calls, s.title)
	if s.behind != "" {
		printWrapped(j.Out, s.behind)
	}
	if s.before != nil {
		s.before(j)
	}
	path, body := strings.ReplaceAll(s.path, "{pod}", j.pod), strings.ReplaceAll(s.body, "{pod}", j.pod)
	printRequest(j.Out, s.method, path, body)
	answer, err := j.call(ctx, s.method, path, body)
	if err != nil {
		return fmt.Errorf("step %d (%s): %s %s: %w", j.calls, s.title, s.method, path, err)
	}
	printAnswer(j.Out, answer)
	if answer.pod() != "" {
		j.pod = answer.pod()
	}
	j.check(s, path, answer)
	if s.look != "" {
		j.lookBehind(s)
	}
	return nil
}

func (j *journey) fault(s step, format string, args ...any) {
	err := fmt.Errorf("step %d (%s): %s", j.calls, s.title, fmt.Sprintf(format, args...))
	fmt.Fprintf(j.Out, "   NOT AS TOLD: %v\n", err)
	j.faults = append(j.faults, err)
}

func (j *journey) check(s step, path string, answer answer) {
	if answer.status != s.status {
		j.fault(s, "%s %s answered %d, expected %d", s.method, path, answer.status, s.status)
	}
	for _, wanted := range s.says {
		if wanted = strings.ReplaceAll(wanted, "{pod}", j.pod); !strings.Contains(answer.compact(), wanted) {
			j.fault(s, "%s %s answered without %s", s.method, path, wanted)
		}
	}
}

// lookBehind tells the traces of the user and checks that they are those expected, in their order.
func (j *journey) lookBehind(s step) {
	lines := j.Around.Behind(s.look)
	fmt.Fprintf(j.Out, "   behind it, of %s:\n", s.look)
	for _, line := range lines {
		fmt.Fprintf(j.Out, "     %s\n", line)
	}
	if len(lines) == 0 {
		fmt.Fprintln(j.Out, "     nothing")
	}
	if len(lines) != len(s.traces) {
		j.fault(s, "%d things are there of %s, expected %d", len(lines), s.look, len(s.traces))
		return
	}
	for i, wanted := range s.traces {
		if !strings.Contains(lines[i], wanted) {
			j.fault(s, "%q was found of %s, expected %q in it", lines[i], s.look, wanted)
		}
	}
}
