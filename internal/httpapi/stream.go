package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"config-server/internal/farm"
)

const (
	// maxStreams bounds the streams that are open at once.
	maxStreams = 256
	// streamPoll is how often a stream looks for what other replicas and kubelet did.
	streamPoll = time.Second
	// heartbeat is how often a silent stream says that it lives, so that no proxy cuts it.
	heartbeat = 15 * time.Second
	// writeLimit bounds one write to a watcher who does not read.
	writeLimit = 10 * time.Second
)

// wantsStream reports whether Accept names text/event-stream without refusing it by q=0.
func wantsStream(r *http.Request) bool {
	if r.Method == http.MethodHead {
		return false
	}
	return acceptedWeights(r.Header.Values("Accept"))[contentEvents] > 0
}

const contentEvents = "text/event-stream"

// streamStatus sends the status, and again whenever it has changed, until the workspace is ready,
// failed or gone, the watcher goes or the service ends.
func (a *api) streamStatus(w http.ResponseWriter, r *http.Request, user farm.UserName) error {
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		w.Header().Set("Retry-After", "5")
		return farm.Errorf(farm.Unavailable, "%d streams are open, more are not served", maxStreams)
	}
	// From before the first look on, so that no change falls between the two.
	changed, end := a.Progress.Changes(user)
	defer end()
	now, err := a.lookStatus(r.Context(), user)
	if err != nil {
		return err
	}
	out := openEvents(w)
	defer out.close()
	poll, beat := time.NewTicker(streamPoll), time.NewTicker(heartbeat)
	defer poll.Stop()
	defer beat.Stop()
	var last []byte
	seen := false // a workspace, or an operation on one
	for {
		body, err := json.Marshal(statusJSON(now))
		if err != nil {
			panic(err) // texts always encode
		}
		if !bytes.Equal(body, last) {
			last = body
			if err := out.send("event: status\ndata: %s\n\n", body); err != nil || isOver(now.Stage, seen) {
				return nil
			}
			seen = seen || now.Stage != farm.StageUnknown
		}
		select {
		case <-r.Context().Done():
			return nil
		case <-a.Ending:
			return nil
		case <-beat.C:
			if out.send(": still here\n\n") != nil {
				return nil
			}
			continue
		case <-changed:
		case <-poll.C:
		}
		// A look that fails is made up for by the next; the watcher has the heartbeat meanwhile.
		if next, err := a.lookStatus(r.Context(), user); err == nil {
			now = next
		}
	}
}

// isOver reports whether nothing follows that a watcher waits for. A delete ends as unknown.
func isOver(stage farm.Stage, seen bool) bool {
	return stage == farm.StageReady || stage == farm.StageFailed || stage == farm.StageUnknown && seen
}

// events is an answer of server-sent events.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func openEvents(w http.ResponseWriter) events {
	w.Header().Set("Content-Type", contentEvents)
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that gathers would hold events back
	w.WriteHeader(http.StatusOK)
	return events{w: w, control: http.NewResponseController(w)}
}

// send writes at once. The error says that the watcher is gone or does not read.
func (e events) send(format string, args ...any) error {
	// A recorder in tests has no deadlines; a real connection has.
	_ = e.control.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, err := fmt.Fprintf(e.w, format, args...); err != nil {
		return err
	}
	return e.control.Flush()
}

// close lifts the deadline: the connection may serve further requests.
func (e events) close() { _ = e.control.SetWriteDeadline(time.Time{}) }
