package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"config-server/internal/testkit"
)

const (
	newcomer     = "dave"
	newcomerLock = "user/" + newcomer
	newcomerBody = `{"name":"` + newcomer + `","passwd_base64":"cGFzc3dvcmQ=","supplementary_groups":[{"name":"fresh","gid":20077},{"name":"ailab","gid":20005}]}`
)

// has tells whether a file of the share has the line of a name.
func (s *stand) has(t testing.TB, file, name string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Share, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains("\n"+string(text), "\n"+name+":")
}

func withoutNewcomer(t testing.TB, s *stand) {
	t.Helper()
	if s.has(t, "passwd", newcomer) {
		s.must(t, "DELETE", "/accounts/users/"+newcomer, "")
	}
}

func withNewcomer(t testing.TB, s *stand) {
	t.Helper()
	if !s.has(t, "passwd", newcomer) {
		s.must(t, "PUT", "/accounts/users", newcomerBody)
	}
}

// The commands on the NAS.
const (
	lookAtHome = "stat -c"
	makeHome   = "sudo mkdir"
	giveHome   = "sudo chown"
	closeHome  = "sudo chmod"
	dropHome   = "sudo rm"
)

var undoHome = fault{nas: []testkit.SSHFault{{Contains: dropHome, Exit: 1, Stderr: "Device or resource busy"}}}

func faultsOfCreateUser(t *testing.T, f *farmOfFaults) {
	const (
		created = "201 created"
		nas     = "500 CREATE_HOME_DIRECTORY NAS_SSH_FAILED"
		lost    = "500 the lock on the user was lost; nothing more was changed"
	)
	u := useCase{
		name: "PUT accounts users", method: "PUT", path: "/accounts/users", body: newcomerBody, prepare: withoutNewcomer,
		whole: []string{"files: group, passwd, shadow, dave; home made, owner the user"},
	}
	u.add(lockRows(newcomerLock, "500 user dave is busy with another call, or the locks cannot be reached")...)
	busy := ledgerRows()
	// The home is looked at first, so that is where a caller who goes at once is missed.
	busy[1].want = nas
	u.add(busy...)
	u.add(nasRows("look at the home", nas)...)
	u.add(call{step: "look at the home", match: lookAtHome, want: nas, success: created,
		but: map[string]string{"exit 1": created, "done, exit 1": created}}.nas()...)
	for _, c := range []call{
		{step: "CREATE_HOME_DIRECTORY: mkdir", match: makeHome, lock: newcomerLock},
		{step: "CREATE_HOME_DIRECTORY: chown", match: giveHome, lock: newcomerLock},
		{step: "CREATE_HOME_DIRECTORY: chmod", match: closeHome, lock: newcomerLock},
	} {
		c.want, c.success, c.undo, c.but = nas, created, undoHome, map[string]string{"lock is lost meanwhile": lost}
		u.add(c.nas()...)
	}
	u.add(diskRows(12, undoHome)...)
	u.add(hiddenRows("500 ")...)
	u.check(t, f, 2)
}

func faultsOfDeleteUser(t *testing.T, f *farmOfFaults) {
	const deleted, warned = "200 deleted", "200 deleted with 1 warning"
	gone := "files: group, passwd, shadow, dave; home gone"
	u := useCase{
		name: "DELETE accounts users", method: "DELETE", path: "/accounts/users/" + newcomer, prepare: withNewcomer,
		whole: []string{gone}, afterwards: []string{gone},
	}
	u.add(lockRows(newcomerLock, "500 user dave is busy with another call, or the locks cannot be reached")...)
	u.add(ledgerRows()...)
	u.add(nasRows("look at the home", warned)...)
	u.add(call{step: "look at the home", match: lookAtHome, want: warned, success: deleted, detached: true, but: map[string]string{"caller goes away": deleted}}.nas()...)
	u.add(call{step: "remove the home", match: dropHome, want: warned, success: deleted, detached: true, lock: newcomerLock,
		but: map[string]string{"caller goes away": deleted, "lock is lost meanwhile": deleted}}.nas()...)
	u.add(diskRows(10, fault{})...)
	u.add(hiddenRows("500 ")...)
	for i, r := range u.rows {
		// A home that the NAS refuses to look at or to remove stays; the answer warns of it.
		if r.name == "exit 1" || r.name == "done, exit 1" {
			u.rows[i].stands = "files: group, passwd, shadow, dave"
		}
	}
	u.check(t, f, 2)
}

func faultsOfGroups(t *testing.T, f *farmOfFaults) {
	without := func(t testing.TB, s *stand) {
		if s.has(t, "group", "crew") {
			s.must(t, "DELETE", "/accounts/groups/crew", "")
		}
	}
	with := func(t testing.TB, s *stand) {
		if !s.has(t, "group", "crew") {
			s.must(t, "PUT", "/accounts/groups", `{"name":"crew"}`)
		}
	}
	for _, u := range []useCase{
		{name: "PUT accounts groups", method: "PUT", path: "/accounts/groups", body: `{"name":"crew","members":["first"]}`, prepare: without, whole: []string{"files: group"}},
		{name: "DELETE accounts groups", method: "DELETE", path: "/accounts/groups/crew", prepare: with, whole: []string{"files: group"}},
		{name: "PUT accounts users groups", method: "PUT", path: "/accounts/users/first/groups", body: `{"groups":["crew"]}`, whole: []string{"files: group"},
			prepare: func(t testing.TB, s *stand) { without(t, s); with(t, s) }},
	} {
		t.Run(strings.Fields(u.name)[0]+" "+u.path, func(t *testing.T) {
			t.Parallel()
			if u.name == "PUT accounts users groups" {
				u.add(lockRows("user/first", "500 user first is busy with another call, or the locks cannot be reached")...)
			}
			u.add(ledgerRows()...)
			u.add(diskRows(5, fault{})...)
			u.add(hiddenRows("500 ")...)
			u.check(t, f, 1)
		})
	}
}

// ledgerRows: the lock of the files cannot be had.
func ledgerRows() []row {
	rows := lockRows("ledger", "500 the call ended before its work was done; nothing was changed")[:2]
	for i := range rows {
		rows[i].step = "take the lock of the files"
	}
	return rows
}

// nasRows: the NAS cannot be reached, or does not let us in.
func nasRows(step, want string) []row {
	on := func(name string, env map[string]string) row {
		return row{step: step, name: "NAS: " + name, want: want, env: env}
	}
	rows := []row{on("connection refused", map[string]string{"NAS_SSH_PORT": "9"}), on("another user", map[string]string{"NAS_SSH_USER": "nobody"})}
	key := row{step: step, name: "NAS: key refused", want: want, fault: fault{do: func(t testing.TB, s *stand) func() {
		// The key is read at every connect.
		accepted := filepath.Join(filepath.Dir(s.NAS.KeyPath), "authorized_keys")
		text, err := os.ReadFile(accepted)
		if err == nil {
			err = os.WriteFile(accepted, nil, 0o644)
		}
		if err != nil {
			t.Error(err)
		}
		s.NAS.DropConnections()
		return func() {
			if err := os.WriteFile(accepted, text, 0o644); err != nil {
				t.Error(err)
			}
		}
	}}}
	down := row{step: step, name: "NAS: down", want: want, fault: fault{do: func(t testing.TB, s *stand) func() {
		s.NAS.Stop()
		return func() { s.NAS.Start(t) }
	}}}
	frozen := row{step: step, name: "NAS: connects and says nothing", want: want, fault: fault{do: func(t testing.TB, s *stand) func() {
		s.NAS.DropConnections()
		s.NAS.Freeze(t)
		return s.NAS.Thaw
	}}}
	return append(rows, key, down, frozen)
}

// diskRows: the share's disk has room for so many pages and no more, so that each file in its turn is
// the one that cannot be written.
func diskRows(pages int, undo fault) []row {
	var rows []row
	for free := range pages {
		rows = append(rows, row{step: "write the files", name: fmt.Sprintf("disk full but %d pages", free), undo: undo,
			fault: fault{do: func(t testing.TB, s *stand) func() {
				s.fill(t, int64(free))
				return func() { removeFile(t, s.filler()) }
			}}})
	}
	return rows
}

// hiddenRows: a file of the share is not there.
func hiddenRows(want string) []row {
	rows := accountRows("read the files", want)
	shadow := rows[0]
	shadow.name, shadow.fault = "shadow is gone", hide("shadow")
	share := rows[0]
	share.name, share.fault = "the share is not mounted", fault{do: func(t testing.TB, s *stand) func() {
		away := s.Share + ".away"
		if err := os.Rename(s.Share, away); err != nil {
			t.Error(err)
		}
		return func() {
			if err := os.Rename(away, s.Share); err != nil {
				t.Error(err)
			}
		}
	}}
	return append(rows, shadow, share)
}
