package obs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"config-server/internal/farm"
	"config-server/internal/saga"
)

// Calls returns the observer of the calls to one outside part: each is a debug line, with the request's
// id, and counts.
func (m *Metrics) Calls(part string, log *slog.Logger) farm.CallObserver {
	part = oneOf(part, PartAdminBE, PartPrometheus, PartKubernetes, PartDatabase, PartNAS, PartFarm, PartKDC, PartEngine, PartRedis, PartRegistry)
	return func(ctx context.Context, call string, took time.Duration, err error) {
		m.calls.WithLabelValues(part, outcome(err)).Observe(took.Seconds())
		if !log.Enabled(ctx, slog.LevelDebug) {
			return
		}
		attrs := []slog.Attr{slog.String("part", part), slog.String("call", call), slog.Float64("ms", milliseconds(took))}
		if err != nil {
			attrs = append(attrs, slog.String("error", err.Error()))
		}
		log.LogAttrs(ctx, slog.LevelDebug, "call", attrs...)
	}
}

// outcome is the result of a call. A call that nobody waits for any more says nothing of its part.
func outcome(err error) string {
	if errors.Is(err, context.Canceled) {
		return ResultCancelled
	}
	return result(err, ResultOK)
}

// LogSteps is a saga.Observer that writes one line for each step and each undo that has ended: those
// that failed, and what was taken back, for everybody; the rest for debugging.
func LogSteps(log *slog.Logger) saga.Observer {
	return func(ctx context.Context, event saga.Event) {
		level, text := slog.LevelDebug, "step"
		switch {
		case event.Phase == saga.After && event.Err != nil:
			level, text = slog.LevelWarn, "step failed"
		case event.Phase == saga.After:
		case event.Phase == saga.AfterUndo && event.Err != nil:
			level, text = slog.LevelError, "undo failed"
		case event.Phase == saga.AfterUndo && event.Undone:
			level, text = slog.LevelInfo, "undone"
		case event.Phase == saga.AfterUndo:
			text = "nothing to undo"
		default:
			return
		}
		attrs := []slog.Attr{
			slog.String("use_case", event.UseCase), slog.String("step", event.Step), slog.Float64("ms", milliseconds(event.Elapsed)),
		}
		if event.What != "" {
			attrs = append(attrs, slog.String("what", event.What))
		}
		if event.Err != nil {
			attrs = append(attrs, slog.String("error", event.Err.Error()))
		}
		if panicked := new(saga.PanicError); errors.As(event.Err, &panicked) {
			attrs = append(attrs, slog.String("stack", string(panicked.Stack)))
		}
		log.LogAttrs(ctx, level, text, attrs...)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
