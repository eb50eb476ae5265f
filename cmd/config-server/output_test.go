package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/audit"
	"config-server/internal/reconciler"
)

func decoded(t *testing.T, text string) any {
	t.Helper()
	var data any
	if err := json.Unmarshal([]byte(text), &data); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, text)
	}
	return data
}

func TestReportOfCheck(t *testing.T) {
	t.Parallel()
	report := checkReport{Parts: []checkPart{
		{Part: "share", Object: "/공유/kube", OK: true},
		{Part: "NAS", Object: "ops@nas:22", Error: "no route to host", Remedy: "Is it up?"},
		{Part: "nodes", Object: "cluster", OK: true},
	}}
	var table, machine bytes.Buffer
	if err := errors.Join(printChecked(&table, report), printJSON(&machine, report)); err != nil {
		t.Fatal(err)
	}
	const want = `RESULT  PART   OBJECT
ok      share  /공유/kube
FAILED  NAS    ops@nas:22
ok      nodes  cluster

NAS (ops@nas:22): no route to host
    Is it up?
`
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Error(diff)
	}
	const wantJSON = `{"ok":false,"parts":[{"part":"share","object":"/공유/kube","ok":true},
		{"part":"NAS","object":"ops@nas:22","ok":false,"error":"no route to host","remedy":"Is it up?"},
		{"part":"nodes","object":"cluster","ok":true}]}`
	if diff := cmp.Diff(decoded(t, wantJSON), decoded(t, machine.String())); diff != "" {
		t.Error(diff)
	}
}

func TestReportOfAudit(t *testing.T) {
	t.Parallel()
	report := audit.Report{Checked: audit.Checked{Accounts: 3, Pods: 1}, Findings: []audit.Finding{
		{Kind: audit.NoHome, Object: "kim", User: "kim", Detail: "there is no home", Remedy: "ssh nas"},
		{Kind: audit.Unreadable, Object: "rows", Detail: "거부됨", Remedy: "config-server check"},
	}}
	var table bytes.Buffer
	if err := printAudit(&table, report); err != nil {
		t.Fatal(err)
	}
	const want = `KIND        OBJECT  USER  DETAIL
no-home     kim     kim   there is no home
unreadable  rows    -     거부됨

Commands, in the same order; docs/operations.md, "Audit findings", says when not to run them:

# no-home kim
ssh nas
# unreadable rows
config-server check
2 findings in 3 accounts, 0 groups, 0 homes, 0 rows, 1 pods, 0 Services, 0 unfinished operations
`
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Error(diff)
	}
}

func TestReportOfReconcile(t *testing.T) {
	t.Parallel()
	mended := reconciler.Report{Findings: []reconciler.Finding{
		{Kind: reconciler.KindStaleRow, Object: "30500", User: "lee", Action: reconciler.ActionDone, Detail: "removed"},
	}}
	away := errors.New("the API server is away")
	for name, tc := range map[string]struct {
		report  reconciler.Report
		failure error
		table   string
		machine string
	}{
		"nothing": {reconciler.Report{}, nil,
			"0 findings: 0 mended, 0 would be, 0 left for later, 0 for a person to decide, 0 failed\n", `{"findings":[]}`},
		"one": {mended, nil,
			"ACTION  KIND       OBJECT  USER  DETAIL\ndone    stale-row  30500   lee   removed\n" +
				"1 findings: 1 mended, 0 would be, 0 left for later, 0 for a person to decide, 0 failed\n",
			`{"findings":[{"kind":"stale-row","object":"30500","user":"lee","action":"done","detail":"removed"}]}`},
		"nothing could be looked at": {reconciler.Report{}, away, "", `{"findings":[],"error":"the API server is away"}`},
		"cut off after one": {mended, away,
			"ACTION  KIND       OBJECT  USER  DETAIL\ndone    stale-row  30500   lee   removed\n",
			`{"findings":[{"kind":"stale-row","object":"30500","user":"lee","action":"done","detail":"removed"}],"error":"the API server is away"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var table, machine bytes.Buffer
			err := errors.Join(printReconciled(&table, formTable, tc.report, tc.failure), printReconciled(&machine, formJSON, tc.report, tc.failure))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.table, table.String()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(decoded(t, tc.machine), decoded(t, machine.String())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// brokenPipe is an output whose reader is gone.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAnOutputThatFailsIsAFailure(t *testing.T) {
	t.Parallel()
	url := farmOf(t, "", answered)
	for _, args := range [][]string{{"version"}, {"version", "-o", "json"}, {"users", "list", "--server", url}, {"groups", "list", "-o", "json", "--server", url}} {
		var said bytes.Buffer
		if code := run(t.Context(), invocation{args: args, out: brokenPipe{}, errors: &said}); code != exitFailed || said.Len() == 0 {
			t.Errorf("%v: exit %d, %q", args, code, said.String())
		}
	}
}
