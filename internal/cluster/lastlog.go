package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"config-server/internal/farm"
)

// LogFunc opens the end of the log of a pod's container, at most so many lines; 0 means all of it, until
// the container ends. previous means that of the run before. ctx bounds the reading too.
type LogFunc func(ctx context.Context, pod farm.PodName, container string, previous bool, lines int64) (io.ReadCloser, error)

const (
	// logLines and logBytes are how much of a log's end is told.
	logLines = 20
	logBytes = 2 << 10
	// logRead bounds what is read for that: lines may be long.
	logRead = 256 << 10
	// logLimit bounds the reading, which only adds to an error that stands already.
	logLimit = 2500 * time.Millisecond
)

// LastLog is the end of what the workspace's container wrote, and of its run before if it was
// restarted: at most 20 lines and 2 KiB of each, headed by which it is. Colours and control
// characters are taken out, and so is what looks like a password hash. It is empty if the container
// never ran, wrote nothing, or if its log cannot be read in 2.5 s: it only adds to an error.
func (c *Cluster) LastLog(ctx context.Context, pod farm.Pod) string {
	if c.logs == nil || c.setupErr != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, logLimit)
	defer cancel()
	now := c.kept(pod.Name, pod.UID)
	if !now.known {
		now = c.look(ctx, pod.Name, pod.UID)
	}
	if now.pod == nil {
		return ""
	}
	var parts []string
	for _, status := range now.pod.Status.ContainerStatuses {
		if status.Name != farm.ContainerName {
			continue
		}
		if status.State.Running != nil || status.State.Terminated != nil {
			parts = append(parts, c.logOf(ctx, pod.Name, status.Name, false)...)
		}
		if status.RestartCount > 0 {
			parts = append(parts, c.logOf(ctx, pod.Name, status.Name, true)...)
		}
	}
	return strings.Join(parts, "\n")
}

// logOf is the end of one log with its heading; nil if there is nothing to tell.
func (c *Cluster) logOf(ctx context.Context, pod farm.PodName, container string, previous bool) []string {
	text, err := c.readLog(ctx, pod, container, previous)
	if err != nil {
		c.log.Debug("log of a container cannot be read", "pod", pod, "container", container, "previous", previous, "error", err)
	}
	if text == "" {
		return nil
	}
	heading := "log of container " + container
	if previous {
		heading += " before its restart"
	}
	return []string{heading + ":\n" + text}
}

// readLog gives what was read also beside an error: a log that breaks off still tells something.
func (c *Cluster) readLog(ctx context.Context, pod farm.PodName, container string, previous bool) (string, error) {
	stream, err := c.logs(ctx, pod, container, previous, logLines)
	if err != nil {
		return "", fmt.Errorf("open log of pod %s: %w", pod, err)
	}
	raw, err := io.ReadAll(io.LimitReader(stream, logRead))
	err = errors.Join(err, stream.Close())
	if err != nil {
		err = fmt.Errorf("read log of pod %s: %w", pod, err)
	}
	return lastLines(string(raw)), err
}

// remoteLogs reads logs through the API server.
func remoteLogs(client kubernetes.Interface, namespace string) LogFunc {
	return func(ctx context.Context, pod farm.PodName, container string, previous bool, lines int64) (io.ReadCloser, error) {
		if lines == 0 {
			return client.CoreV1().Pods(namespace).GetLogs(string(pod), &corev1.PodLogOptions{Container: container, Previous: previous, Follow: true}).Stream(ctx)
		}
		limit := int64(logRead)
		return client.CoreV1().Pods(namespace).GetLogs(string(pod), &corev1.PodLogOptions{
			Container: container, Previous: previous, TailLines: &lines, LimitBytes: &limit,
		}).Stream(ctx)
	}
}

var (
	// colours are the escape sequences of terminals.
	colours = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\^_])`)
	// hashes are password hashes of crypt(3): $id$salt$hash, with parameters between.
	hashes = regexp.MustCompile(`\$[0-9A-Za-z][0-9A-Za-z-]{0,15}\$[^\s"':]+`)
	// passwords are values of the field in which user configurations carry one.
	passwords = regexp.MustCompile(`(?i)(passwd_base64\\?["']?\s*[:=]\s*\\?["']?)[^\s"',}\\]+`)
)

// lastLines makes the end of a log fit for an answer. What is secret goes before anything is cut,
// because half of a hash has no form to know it by.
func lastLines(raw string) string {
	text := colours.ReplaceAllString(strings.ToValidUTF8(raw, "?"), "")
	text = passwords.ReplaceAllString(hashes.ReplaceAllString(text, "***"), "${1}***")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, text)
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimRightFunc(line, unicode.IsSpace); line != "" {
			lines = append(lines, line)
		}
	}
	text = strings.Join(lines[max(0, len(lines)-logLines):], "\n")
	if len(text) > logBytes {
		text = strings.ToValidUTF8(text[len(text)-logBytes:], "")
	}
	return text
}
