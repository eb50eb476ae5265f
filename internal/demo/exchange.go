package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxShown is how many lines of an answer are printed, and maxWidth where prose is wrapped.
const (
	maxShown = 34
	maxWidth = 96
	maxBody  = 4 << 20
)

// answer is what came back on a request.
type answer struct {
	status int
	body   []byte
	took   time.Duration
}

func (j *journey) call(ctx context.Context, method, path, body string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, j.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	begin := time.Now()
	response, err := j.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err != nil {
		return answer{}, err
	}
	return answer{response.StatusCode, text, time.Since(begin)}, nil
}

// pod is the name of the pod that the answer tells, "" if none.
func (a answer) pod() string {
	var told struct {
		Pod    string `json:"pod_name"`
		NewPod string `json:"new_pod"`
	}
	if a.status > 299 || json.Unmarshal(a.body, &told) != nil {
		return ""
	}
	if told.NewPod != "" {
		return told.NewPod
	}
	return told.Pod
}

// compact is the body without the white space between its parts.
func (a answer) compact() string {
	var b bytes.Buffer
	if json.Compact(&b, a.body) != nil {
		return string(a.body)
	}
	return b.String()
}

func printRequest(out io.Writer, method, path, body string) {
	fmt.Fprintf(out, "\n   > %s %s\n", method, path)
	if body != "" {
		printIndented(out, "   > ", pretty([]byte(body)))
	}
}

func printAnswer(out io.Writer, a answer) {
	fmt.Fprintf(out, "\n   < %d %s, took %s\n", a.status, http.StatusText(a.status), milliseconds(a.took))
	lines := strings.Split(pretty(a.body), "\n")
	if bytes.ContainsRune(a.body, 0) {
		lines = []string{fmt.Sprintf("(a file of %d bytes)", len(a.body))}
	}
	if left := len(lines) - maxShown; left > 0 {
		lines = append(lines[:maxShown/2], append([]string{fmt.Sprintf("... %d lines left out ...", left)}, lines[maxShown/2+left:]...)...)
	}
	printIndented(out, "   < ", strings.Join(lines, "\n"))
	fmt.Fprintln(out)
}

func milliseconds(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// pretty indents JSON. Anything else is as it is.
func pretty(body []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, bytes.TrimSpace(body), "", "  ") != nil {
		return strings.TrimSpace(string(body))
	}
	return b.String()
}

func printIndented(out io.Writer, indent, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(out, "%s%s\n", indent, line)
	}
}

// printWrapped prints prose below a heading.
func printWrapped(out io.Writer, text string) {
	width := 0
	for _, word := range strings.Fields(text) {
		switch {
		case width == 0:
			fmt.Fprint(out, "   ", word)
		case width+1+len(word) > maxWidth:
			fmt.Fprint(out, "\n   ", word)
			width = 0
		default:
			fmt.Fprint(out, " ", word)
		}
		width += len(word) + 1
	}
	fmt.Fprintln(out)
}
