package cluster

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestTheLibraryTellsItsUsersOnly(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(forUsers{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})}).With("a", 1).WithGroup("g")
	for level, want := range map[slog.Level]bool{slog.LevelDebug: false, slog.LevelInfo - 1: false, slog.LevelInfo: true, slog.LevelError: true} {
		out.Reset()
		log.Log(t.Context(), level, "x", "b", 2)
		if got := strings.Contains(out.String(), "msg=x a=1 g.b=2"); got != want {
			t.Errorf("level %v is told: %t, want %t: %s", level, got, want, out.String())
		}
	}
	quiet := slog.New(forUsers{slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})})
	if quiet.Enabled(t.Context(), slog.LevelWarn) {
		t.Error("more is told than the service's own level lets through")
	}
}
