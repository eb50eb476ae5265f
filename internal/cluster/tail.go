package cluster

import (
	"strings"
	"sync"
)

// tail is a writer that keeps the last bytes: a failing command says why at its end. It may be read
// while a stream that outlived its deadline still writes.
type tail struct {
	limit int

	mu   sync.Mutex
	kept []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	// Cutting at twice the limit keeps the copying linear over many small writes.
	if len(t.kept) > 2*t.limit {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-t.limit:]...)
	}
	return len(p), nil
}

// String is the end of what was written, as valid UTF-8.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept[max(0, len(t.kept)-t.limit):]
	return strings.ToValidUTF8(string(kept), "?")
}
