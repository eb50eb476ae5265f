package obs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/obs"
	"config-server/internal/saga"
)

// logged gives the one line that log writes, without its time.
func logged(t *testing.T, log func(l *slog.Logger)) map[string]any {
	t.Helper()
	var out bytes.Buffer
	log(obs.NewLogger(&out, slog.LevelInfo))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("not one JSON line: %v\n%s", err, out.String())
	}
	delete(line, "time")
	return line
}

func TestLogLineCarriesTheRequestID(t *testing.T) {
	t.Parallel()
	ctx := obs.WithRequestID(t.Context(), "r-1")
	cases := []struct {
		name string
		log  func(l *slog.Logger)
		want map[string]any
	}{
		{"within a request", func(l *slog.Logger) { l.InfoContext(ctx, "x", "a", 1) },
			map[string]any{"level": "INFO", "msg": "x", "a": 1.0, "request_id": "r-1"}},
		{"through With", func(l *slog.Logger) { l.With("part", "nas").WarnContext(ctx, "x") },
			map[string]any{"level": "WARN", "msg": "x", "part": "nas", "request_id": "r-1"}},
		{"outside of requests", func(l *slog.Logger) { l.Info("x") }, map[string]any{"level": "INFO", "msg": "x"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, logged(t, c.log)); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	obs.NewLogger(&out, slog.LevelWarn).Info("x")
	if out.Len() > 0 {
		t.Errorf("logged %s", out.String())
	}
}

func TestLogHidesSecrets(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"password", "Password", "db_password", "passwd_base64", "passwd-base64", "PASSWD", "hash", "shadow", "secret",
		"token", "API_TOKEN", "X-Internal-Token", "Authorization", "keytab", "krb5.keytab", "cookie", "body", "user_config", "private_key",
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			line := logged(t, func(l *slog.Logger) {
				l.With(key, "marker").Info("x", key, "marker", slog.Group("g", slog.String(key, "marker"), slog.Any("inner", slog.GroupValue(slog.Any(key, "marker")))))
			})
			raw, err := json.Marshal(line)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), "marker") {
				t.Errorf("line: %s", raw)
			}
			if line[key] != obs.Redacted {
				t.Errorf("%s is %v", key, line[key])
			}
		})
	}
}

func TestLogKeepsWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	got := logged(t, func(l *slog.Logger) {
		l.Info("x", "user", "user2100", "path", "/accounts/users", "error", errors.New("dial: refused"), "took", time.Second, "raw", []byte("marker"))
	})
	want := map[string]any{"level": "INFO", "msg": "x", "user": "user2100", "path": "/accounts/users", "error": "dial: refused", "took": 1e9, "raw": "6 bytes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	if got := obs.RequestID(context.Background()); got != "" {
		t.Errorf("outside of requests: %q", got)
	}
	first, second := obs.NewRequestID(), obs.NewRequestID()
	if first == second || !obs.SaneRequestID(first) {
		t.Errorf("new ids: %q, %q", first, second)
	}
}

func TestMetricsOfSagas(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics(obs.Build{})
	undo := func(done bool, err error) []saga.Undo {
		return []saga.Undo{{Key: "k", Run: func(context.Context) (bool, error) { return done, err }}}
	}
	fine := func(context.Context) error { return nil }
	err := saga.Run(t.Context(), saga.Options{UseCase: "create-pod", Observer: m.Observe}, []saga.Step{
		{Name: "A", Undos: undo(true, nil), Do: fine},
		{Name: "B", Undos: undo(false, nil), Do: fine},
		{Name: "C", Undos: undo(false, errors.New("y")), Do: fine},
		{Name: "user made up", Do: func(context.Context) error { return errors.New("x") }},
	})
	if err == nil {
		t.Fatal("the saga succeeded")
	}
	text := scrape(m)
	for _, line := range []string{
		`config_server_undo_total{result="error",step="C",use_case="create-pod"} 1`,
		`config_server_undo_total{result="none",step="B",use_case="create-pod"} 1`,
		`config_server_undo_total{result="undone",step="A",use_case="create-pod"} 1`,
		`config_server_undo_failures_total 1`,
		`config_server_step_failures_total{step="A",use_case="create-pod"} 0`,
		`config_server_step_failures_total{step="other",use_case="create-pod"} 1`,
		`config_server_step_duration_seconds_count{result="ok",step="A",use_case="create-pod"} 1`,
		`config_server_step_duration_seconds_count{result="error",step="other",use_case="create-pod"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// Values outside of the closed sets become "other": no caller and no error text can make series.
func TestMetricsLabelsAreClosed(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics(obs.Build{})
	m.AllocatorRetry(obs.RetryDeadlock)
	m.AllocatorRetry("made-up")
	m.SSHConnect(obs.SSHNAS, true, nil)
	m.SSHConnect("made-up.example", true, errors.New("made-up"))
	m.Request("/x", "MADEUP", 9999, time.Second)
	m.Observe(t.Context(), saga.Event{UseCase: strings.Repeat("made-up", 20), Step: "", Phase: saga.After})
	text := scrape(m)
	for _, line := range []string{
		`config_server_allocator_retries_total{reason="deadlock"} 1`,
		`config_server_allocator_retries_total{reason="other"} 1`,
		`config_server_ssh_reconnects_total{host="nas"} 1`,
		`config_server_ssh_reconnects_total{host="other"} 1`,
		`config_server_http_requests_total{code="other",method="other",route="/x"} 1`,
		`config_server_step_duration_seconds_count{result="ok",step="other",use_case="other"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if strings.Contains(strings.ToLower(text), "made-up") {
		t.Error("a made-up value became a label")
	}
}

func TestMetricsOfBuildAndProcess(t *testing.T) {
	t.Parallel()
	text := scrape(obs.NewMetrics(obs.Build{Version: "v1.2.3", Revision: "abc", Go: "go1.26"}))
	for _, part := range []string{
		`config_server_build_info{goversion="go1.26",revision="abc",version="v1.2.3"} 1`, "\ngo_goroutines ", "\nprocess_start_time_seconds ",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q", part)
		}
	}
}

// Each app has a registry of its own: two in one process do not collide.
func TestTwoRegistries(t *testing.T) {
	t.Parallel()
	first, second := obs.NewMetrics(obs.Build{}), obs.NewMetrics(obs.Build{})
	first.Panicked()
	if strings.Contains(scrape(second), "config_server_http_panics_total 1") {
		t.Error("they share their counters")
	}
}

func scrape(m *obs.Metrics) string {
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	return recorder.Body.String()
}
