package obs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"config-server/internal/farm"
	"config-server/internal/obs"
)

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

func wantNone(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("there is %s", part)
		}
	}
}

func TestCountersOfSmallSetsBeginAtZero(t *testing.T) {
	t.Parallel()
	text := scrape(obs.NewMetrics(obs.Build{}))
	for _, reason := range farm.ReadyReasons() {
		wantLines(t, text, `config_server_ready_failures_total{reason="`+string(reason)+`"} 0`)
	}
	wantLines(t, text,
		`config_server_allocator_retries_total{reason="port_taken"} 0`,
		`config_server_lock_wait_seconds_count{lock="ledger",result="timeout"} 0`,
		`config_server_reconciler_passes_total{result="error"} 0`,
		`config_server_ssh_connects_total{host="nas",result="error"} 0`,
		`config_server_ssh_reconnects_total{host="farm"} 0`)
}

func TestMetricsOfFailures(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics(obs.Build{})
	m.ReadyFailed(farm.ReadyMount)
	m.ReadyFailed("made-up")
	m.PortTaken()
	m.DatabaseRetry(obs.RetryDeadlock)
	m.SSHConnect(obs.SSHNAS, false, nil)
	m.SSHConnect(obs.SSHNAS, true, errors.New("refused"))
	m.LockWaited("ledger", obs.ResultTimeout, 10*time.Second)
	m.LockWaited("pod", obs.ResultOK, time.Millisecond)
	m.LockWaited("user", "made-up", time.Millisecond)
	m.PartReady("share", true)
	m.PartReady("database", false)
	wantLines(t, scrape(m),
		`config_server_ready_failures_total{reason="mount"} 1`,
		`config_server_ready_failures_total{reason="other"} 1`,
		`config_server_allocator_retries_total{reason="port_taken"} 1`,
		`config_server_database_retries_total{reason="deadlock"} 1`,
		`config_server_ssh_connects_total{host="nas",result="ok"} 1`,
		`config_server_ssh_connects_total{host="nas",result="error"} 1`,
		`config_server_ssh_reconnects_total{host="nas"} 1`,
		`config_server_lock_wait_seconds_bucket{lock="ledger",result="timeout",le="5"} 0`,
		`config_server_lock_wait_seconds_bucket{lock="ledger",result="timeout",le="10"} 1`,
		`config_server_lock_wait_seconds_count{lock="other",result="ok"} 1`,
		`config_server_lock_wait_seconds_count{lock="user",result="other"} 1`,
		`config_server_part_ready{part="share"} 1`,
		`config_server_part_ready{part="database"} 0`)
}

func TestMetricsOfTheReconciler(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics(obs.Build{})
	m.ReconcilerEvery(time.Minute)
	m.ReconcilerPass(obs.ResultOK, time.Second, map[obs.Found]int{{Kind: "stale-row", Action: "done"}: 2, {Kind: "suspicious", Action: "reported"}: 1})
	wantLines(t, scrape(m),
		`config_server_reconciler_interval_seconds 60`,
		`config_server_reconciler_passes_total{result="ok"} 1`,
		`config_server_reconciler_pass_duration_seconds_count 1`,
		`config_server_reconciler_findings{action="done",kind="stale-row"} 2`,
		`config_server_reconciler_findings{action="reported",kind="suspicious"} 1`,
		`config_server_reconciler_actions_total{action="done",kind="stale-row"} 2`)

	// What the next pass does not find is gone from the state, and stays counted.
	m.ReconcilerPass(obs.ResultBusy, time.Second, map[obs.Found]int{{Kind: "task", Action: "done"}: 1})
	text := scrape(m)
	wantLines(t, text,
		`config_server_reconciler_passes_total{result="busy"} 1`,
		`config_server_reconciler_findings{action="done",kind="task"} 1`,
		`config_server_reconciler_actions_total{action="done",kind="stale-row"} 2`)
	wantNone(t, text, `config_server_reconciler_findings{action="done",kind="stale-row"}`, `kind="suspicious"} 0`)
}

func TestOnlyAGoodPassMovesItsTime(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics(obs.Build{})
	last := func() string {
		for line := range strings.Lines(scrape(m)) {
			if value, ok := strings.CutPrefix(line, "config_server_reconciler_last_success_timestamp_seconds "); ok {
				return value
			}
		}
		return ""
	}
	start := last()
	m.ReconcilerPass(obs.ResultError, time.Second, nil)
	m.ReconcilerPass(obs.ResultBusy, time.Second, nil)
	if got := last(); start == "" || got != start {
		t.Errorf("%q at first, %q after passes that were not good", start, got)
	}
	m.ReconcilerPass(obs.ResultOK, time.Second, nil)
	if got := last(); got == start {
		t.Errorf("still %q after a good pass", got)
	}
}

func TestStatesAreReadWhenScraped(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics(obs.Build{})
	known := false
	m.Workspaces(func() (map[string]int, bool) { return map[string]int{"ready": 3, "pending": 0}, known })
	m.Watches(func() []obs.Watch { return []obs.Watch{{Objects: "pods", Fresh: known, Failures: 2}} })
	m.Ledger(func() (obs.LedgerSize, bool) {
		return obs.LedgerSize{Users: 22, Groups: 44, Bytes: map[string]int64{"passwd": 1000}}, known
	})
	text := scrape(m)
	wantLines(t, text, `config_server_watch_fresh{objects="pods"} 0`, `config_server_watch_failures_total{objects="pods"} 2`)
	wantNone(t, text, "config_server_workspaces{", "config_server_ledger_users ", "config_server_ledger_bytes{")
	known = true
	wantLines(t, scrape(m),
		`config_server_workspaces{state="ready"} 3`,
		`config_server_workspaces{state="pending"} 0`,
		`config_server_watch_fresh{objects="pods"} 1`,
		`config_server_ledger_users 22`,
		`config_server_ledger_groups 44`,
		`config_server_ledger_bytes{file="passwd"} 1000`)
}
