package obs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/obs"
	"config-server/internal/saga"
)

// lines gives the lines that log writes at the level, without their time.
func lines(t *testing.T, level slog.Level, log func(l *slog.Logger)) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	log(obs.NewLogger(&out, level))
	var all []map[string]any
	for text := range strings.Lines(out.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("not JSON: %v\n%s", err, text)
		}
		delete(line, "time")
		all = append(all, line)
	}
	return all
}

func TestCallsAreLoggedAndTimed(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics(obs.Build{})
	ctx := obs.WithRequestID(t.Context(), "r-1")
	got := lines(t, slog.LevelDebug, func(l *slog.Logger) {
		nas := m.Calls(obs.PartNAS, l)
		nas(ctx, "stat", 1500*time.Microsecond, nil)
		nas(ctx, "stat", time.Second, errors.New("no answer"))
		nas(ctx, "stat", time.Second, fmt.Errorf("stat: %w", context.Canceled))
		m.Calls("made-up", l)(ctx, "x", time.Second, nil)
	})
	want := []map[string]any{
		{"level": "DEBUG", "msg": "call", "part": "nas", "call": "stat", "ms": 1.5, "request_id": "r-1"},
		{"level": "DEBUG", "msg": "call", "part": "nas", "call": "stat", "ms": 1000.0, "error": "no answer", "request_id": "r-1"},
		{"level": "DEBUG", "msg": "call", "part": "nas", "call": "stat", "ms": 1000.0, "error": "stat: context canceled", "request_id": "r-1"},
		{"level": "DEBUG", "msg": "call", "part": "other", "call": "x", "ms": 1000.0, "request_id": "r-1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if quiet := lines(t, slog.LevelInfo, func(l *slog.Logger) { m.Calls(obs.PartNAS, l)(ctx, "stat", time.Second, errors.New("x")) }); quiet != nil {
		t.Errorf("at info: %v", quiet)
	}
	wantLines(t, scrape(m),
		`config_server_call_duration_seconds_count{part="nas",result="ok"} 1`,
		`config_server_call_duration_seconds_count{part="nas",result="error"} 2`,
		`config_server_call_duration_seconds_count{part="nas",result="cancelled"} 1`,
		`config_server_call_duration_seconds_count{part="other",result="ok"} 1`)
}

func TestStepsAreLogged(t *testing.T) {
	t.Parallel()
	undo := func(done bool, err error) []saga.Undo {
		return []saga.Undo{{What: "pod", Run: func(context.Context) (bool, error) { return done, err }}}
	}
	fine := func(context.Context) error { return nil }
	steps := []saga.Step{
		{Name: "A", Undos: undo(true, nil), Do: fine},
		{Name: "B", Undos: undo(false, nil), Do: fine},
		{Name: "C", Undos: undo(false, errors.New("is still there")), Do: fine},
		{Name: "D", Do: func(context.Context) error { panic("fault") }},
	}
	ctx := obs.WithRequestID(t.Context(), "r-1")
	run := func(l *slog.Logger) {
		_ = saga.Run(ctx, saga.Options{UseCase: "create-pod", Observer: obs.LogSteps(l)}, steps)
	}
	line := func(level, text, step string, more ...string) map[string]any {
		m := map[string]any{"level": level, "msg": text, "use_case": "create-pod", "step": step, "request_id": "r-1"}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	failures := []map[string]any{
		line("WARN", "step failed", "D", "error", "panic: fault", "stack", "present"),
		line("ERROR", "undo failed", "C", "what", "pod", "error", "is still there"),
		line("INFO", "undone", "A", "what", "pod"),
	}
	all := []map[string]any{
		line("DEBUG", "step", "A"), line("DEBUG", "step", "B"), line("DEBUG", "step", "C"),
		failures[0], failures[1], line("DEBUG", "nothing to undo", "B", "what", "pod"), failures[2],
	}
	for level, want := range map[slog.Level][]map[string]any{slog.LevelInfo: failures, slog.LevelDebug: all} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			got := lines(t, level, run)
			for _, one := range got {
				if _, timed := one["ms"].(float64); !timed {
					t.Errorf("no time: %v", one)
				}
				delete(one, "ms")
				if stack, ok := one["stack"].(string); ok && strings.Contains(stack, "calls_test.go") {
					one["stack"] = "present"
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}
