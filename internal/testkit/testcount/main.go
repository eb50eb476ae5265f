// Command testcount runs go test -json, shows what a person wants to see of it, and counts:
//
//	testcount [-quiet] -- go test -json ...
//
// It ends badly when a test failed, when one was skipped, or when none ran.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// event is one line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// tally is what a run came to. Tests with subtests count as one more test.
type tally struct {
	passed, failed, skipped, packages int
	output                            map[string][]string // by test: kept until its fate is known
	skips                             []string
	quiet                             bool
}

func main() {
	os.Exit(run(os.Args[1:]))
}

// run returns the exit status.
func run(args []string) int {
	t := &tally{output: make(map[string][]string)}
	if len(args) > 0 && args[0] == "-quiet" {
		t.quiet, args = true, args[1:]
	}
	if len(args) < 2 || args[0] != "--" {
		fmt.Fprintln(os.Stderr, "usage: testcount [-quiet] -- go test -json ...")
		return 2
	}
	began := time.Now()
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "testcount: run the tests: %v\n", err)
		return 1
	}
	readErr := t.read(out, os.Stdout)
	err = errors.Join(readErr, cmd.Wait())
	fmt.Printf("%d passed, %d failed, %d skipped in %d packages (%s)\n", t.passed, t.failed, t.skipped, t.packages, time.Since(began).Round(time.Second))
	return t.verdict(err, os.Stdout)
}

// verdict tells what went wrong, and returns the exit status.
func (t *tally) verdict(err error, out io.Writer) int {
	for _, name := range t.skips {
		fmt.Fprintf(out, "skipped, which this run does not allow: %s\n", name)
	}
	switch {
	case err != nil:
		fmt.Fprintf(out, "the tests ended badly: %v\n", err)
	case t.failed > 0, t.skipped > 0:
	case t.passed == 0:
		fmt.Fprintln(out, "no test ran")
	default:
		return 0
	}
	return 1
}

// read takes the events as they come.
func (t *tally) read(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // not an event: what go itself has to say
			continue
		}
		t.take(e, out)
	}
	return lines.Err()
}

// take counts one event and prints what it is worth.
func (t *tally) take(e event, out io.Writer) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		if t.quiet && worthShowing(e) {
			fmt.Fprint(out, e.Output)
		}
		t.output[key] = append(t.output[key], e.Output)
	case "pass", "fail", "skip":
		t.end(e, key, out)
		delete(t.output, key)
	}
}

// worthShowing tells what tests print for people, as against what go test says about them.
func worthShowing(e event) bool {
	text := strings.TrimSpace(e.Output)
	for _, prefix := range []string{"=== ", "--- ", "PASS", "FAIL", "ok ", "coverage:"} {
		if strings.HasPrefix(text, prefix) {
			return false
		}
	}
	return e.Test != "" && text != ""
}

// end counts a test or a package that has ended.
func (t *tally) end(e event, key string, out io.Writer) {
	isPackage := e.Test == ""
	switch {
	case isPackage && e.Action == "skip":
		return // it has no tests
	case isPackage:
		t.packages++
		if e.Action == "fail" || !t.quiet {
			fmt.Fprintf(out, "%-4s %s (%.1f s)\n", e.Action, e.Package, e.Elapsed)
		}
	case e.Action == "pass":
		t.passed++
	case e.Action == "skip":
		t.skipped++
		t.skips = append(t.skips, key)
	case e.Action == "fail":
		t.failed++
	}
	if e.Action == "fail" && (!t.quiet || isPackage) {
		fmt.Fprint(out, strings.Join(t.output[key], ""))
	}
}
