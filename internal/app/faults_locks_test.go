package app

import (
	"context"
	"path/filepath"
	"testing"

	"config-server/internal/locks"
	"config-server/internal/testkit/faultproxy"
)

// lockRows: the lock cannot be had, from files and from MySQL.
func lockRows(name, failed string) []row {
	const step = "take the lock"
	held := fault{do: func(t testing.TB, s *stand) func() {
		lock, err := locks.NewLocal(filepath.Join(s.env["STATE_DIR"], "locks")).Lock(t.Context(), name)
		if err != nil {
			t.Error(err)
			return nil
		}
		return lock.Unlock
	}}
	leaves := fault{do: func(t testing.TB, s *stand) func() {
		unlock := held.do(t, s)
		wait := soon(t, "the request has arrived", func(context.Context) bool { return s.seen.arrived() }, s.leave)
		return func() { wait(); unlock() }
	}}
	named := map[string]string{"LEDGER_LOCK": "mysql"}
	on := func(what string, f faultproxy.SQLFault) row {
		f.Match = getLock
		return row{step: step, name: "MySQL: " + what, want: failed, env: named, fault: fault{sql: []faultproxy.SQLFault{f}}}
	}
	gone := on("server is gone", faultproxy.SQLFault{Cut: true, Times: 1})
	gone.fault.hook = func(s *stand) { s.sql.Refuse(true) }
	return []row{
		{step: step, name: "somebody holds it", fault: held, want: failed},
		{step: step, name: "somebody holds it, caller goes away", fault: leaves, want: failed},
		on("refused (1142)", faultproxy.SQLFault{Errno: refusedByMySQL}), on("connection lost, always", faultproxy.SQLFault{Cut: true}),
		on("hangs", faultproxy.SQLFault{Hang: true}), gone,
	}
}
