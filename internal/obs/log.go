// Package obs is what the service tells about itself: structured logs that carry the request id and
// hide secrets, and metrics on a registry of its own.
//
// It knows no rules of the farm. The names of the metrics are in docs/operations.md.
package obs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Redacted stands in a log line where a secret would have been.
const Redacted = "[redacted]"

// KeyRequestID is the key under which a log line carries the request's id.
const KeyRequestID = "request_id"

// NewLogger writes one JSON object a line to w. Lines logged with a request's context carry its id
// as request_id. Values under keys that name a secret (password, hash, token, keytab, body and the
// like, in any case and spelling) are replaced, also inside groups; byte slices are told by their
// length alone, because no log needs their content.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	json := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: redact})
	return slog.New(&handler{json})
}

// handler adds the request id of the context to each record.
type handler struct{ slog.Handler }

func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	if id := RequestID(ctx); id != "" {
		record = record.Clone()
		record.AddAttrs(slog.String(KeyRequestID, id))
	}
	return h.Handler.Handle(ctx, record)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.Handler.WithAttrs(attrs)}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.Handler.WithGroup(name)}
}

// Words that make a key secret wherever they stand in it, and whole keys that are secret. Keys are
// compared in lower case and without separators.
var (
	secretWords = []string{"password", "passwd", "token", "keytab", "authorization", "cookie", "credential"}
	secretKeys  = []string{"hash", "shadow", "secret", "body", "userconfig", "privatekey"}

	// separators is built once: every key of every line passes it.
	separators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")
)

func redact(_ []string, attr slog.Attr) slog.Attr {
	if isSecret(attr.Key) {
		return slog.String(attr.Key, Redacted)
	}
	if attr.Value.Kind() != slog.KindAny {
		return attr
	}
	if raw, ok := attr.Value.Any().([]byte); ok {
		return slog.String(attr.Key, fmt.Sprintf("%d bytes", len(raw)))
	}
	return attr
}

func isSecret(key string) bool {
	plain := separators.Replace(strings.ToLower(key))
	for _, word := range secretWords {
		if strings.Contains(plain, word) {
			return true
		}
	}
	for _, whole := range secretKeys {
		if plain == whole {
			return true
		}
	}
	return false
}
