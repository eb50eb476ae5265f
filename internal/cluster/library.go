package cluster

import (
	"context"
	"log/slog"

	"k8s.io/klog/v2"
)

// AdoptLibrary has the Kubernetes client library log to log what it would print to standard error by
// itself. It is the process's own and not a Cluster's: the library has one such logger. It is to be
// called before anything else of the library.
func AdoptLibrary(log *slog.Logger) { klog.SetSlogLogger(slog.New(forUsers{log.Handler()})) }

// forUsers lets through what the library tells its users. Below info it talks to its own developers, at
// length.
type forUsers struct{ slog.Handler }

func (f forUsers) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && f.Handler.Enabled(ctx, level)
}

func (f forUsers) WithAttrs(attrs []slog.Attr) slog.Handler {
	return forUsers{f.Handler.WithAttrs(attrs)}
}

func (f forUsers) WithGroup(name string) slog.Handler { return forUsers{f.Handler.WithGroup(name)} }
