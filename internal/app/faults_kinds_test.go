package app

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
)

// call is one call of a step to a part, and how a use case answers when it fails.
type call struct {
	step  string
	match string // of the call, as the part's proxy wants it
	skip  int    // how many such calls belong to earlier steps
	times int    // how many fail; 0 = all
	want  string // answer to most of the faults
	// success, when set, is the answer to faults that the service gets over, by asking again.
	success string
	// but has the answers to faults that are another matter; "-" = the fault makes no sense here.
	but map[string]string
	// short leaves out the faults that differ only in how often they happen.
	short bool
	undo  fault
	// detached: the use case goes on without its caller, so that the call is not to hang for that.
	detached bool
	// lock is the lock whose loss during the call is a fault too; empty = none.
	lock string
}

// answerTo is the answer that a fault must get. overcome are the faults that asking again overcomes.
func (c call) answerTo(name string, overcome []string) string {
	if want, ok := c.but[name]; ok {
		return want
	}
	if c.success != "" && slices.Contains(overcome, name) {
		return c.success
	}
	return c.want
}

// rows makes a row of each fault.
func (c call) rows(kinds []kind, overcome ...string) []row {
	var rows []row
	for _, k := range kinds {
		want := c.answerTo(k.name, overcome)
		if want == "-" || c.short && slices.Contains(repetitions, k.name) || c.times == 1 && strings.HasSuffix(k.name, ", always") {
			continue
		}
		rows = append(rows, row{step: c.step, name: k.name, fault: k.fault, undo: c.undo, want: want})
	}
	return rows
}

// repetitions are the faults that short calls leave out.
var repetitions = []string{
	"1213, always", "1205 once", "1205, always", "1062 once", "connection lost, always", "done, answer lost, always", "somebody else's answer",
	"409 exists", "422", "429, always", "done, malformed answer", "done, then hangs", "connection breaks, always",
}

// kind is one way in which a part fails.
type kind struct {
	name  string
	fault fault
}

// kubernetes are the ways in which a call to the API server fails.
func (c call) kubernetes() []row {
	const malformed = `{"kind":"Pod","metadata":{"name":`
	api := func(name string, f faultproxy.HTTPFault) kind {
		f.Match, f.Skip = c.match, c.skip
		if f.Times == 0 {
			f.Times = c.times
		}
		return kind{name, fault{api: []faultproxy.HTTPFault{f}}}
	}
	status := func(name string, code int, reason metav1.StatusReason) kind {
		return api(name, faultproxy.HTTPFault{Status: code, Reason: reason})
	}
	kinds := []kind{
		status("403", http.StatusForbidden, metav1.StatusReasonForbidden),
		status("404", http.StatusNotFound, metav1.StatusReasonNotFound),
		status("409 conflict", http.StatusConflict, metav1.StatusReasonConflict),
		status("409 exists", http.StatusConflict, metav1.StatusReasonAlreadyExists),
		status("422", http.StatusUnprocessableEntity, metav1.StatusReasonInvalid),
		status("500", http.StatusInternalServerError, metav1.StatusReasonInternalError),
		api("429 once, retry after 1 s", faultproxy.HTTPFault{Status: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, RetryAfter: "1", Times: 1}),
		api("429, always", faultproxy.HTTPFault{Status: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, RetryAfter: "1"}),
		api("malformed answer", faultproxy.HTTPFault{Body: malformed}),
		api("done, malformed answer", faultproxy.HTTPFault{Body: malformed, After: true}),
		api("connection breaks", faultproxy.HTTPFault{Reset: true}),
		api("done, answer lost", faultproxy.HTTPFault{Reset: true, After: true, Times: 1}),
		api("hangs", faultproxy.HTTPFault{Hang: true}),
		api("done, then hangs", faultproxy.HTTPFault{Hang: true, After: true}),
	}
	kinds = append(kinds, c.hooked(func(hang, after bool) fault {
		return fault{api: []faultproxy.HTTPFault{{Match: c.match, Skip: c.skip, Times: 1, Hang: hang, After: after}}}
	})...)
	overcome := []string{"429 once, retry after 1 s"}
	if strings.HasPrefix(c.match, "^GET") {
		overcome = append(overcome, "done, answer lost") // a reading is repeated when its connection breaks
	}
	return c.rows(kinds, overcome...)
}

// hooked are the faults that something else has while the call is under way.
func (c call) hooked(on func(hang, after bool) fault) []kind {
	with := func(f fault, hook func(s *stand)) fault {
		f.hook = hook
		return f
	}
	leave := func(s *stand) { s.leave() }
	kinds := []kind{{"caller goes away", with(on(!c.detached, false), leave)}}
	if !c.detached {
		kinds = append(kinds, kind{"done, caller goes away", with(on(true, true), leave)})
	}
	if c.lock != "" {
		kinds = append(kinds, kind{"lock is lost meanwhile", with(on(false, false), func(s *stand) { s.loseLock(c.lock) })})
	}
	return kinds
}

// mysql are the ways in which a statement fails.
func (c call) mysql() []row {
	one := func(name string, f faultproxy.SQLFault) kind {
		f.Match, f.Skip = c.match, c.skip
		if f.Times == 0 {
			f.Times = c.times
		}
		return kind{name, fault{sql: []faultproxy.SQLFault{f}}}
	}
	kinds := []kind{
		one("1213 once", faultproxy.SQLFault{Errno: 1213, Times: 1}),
		one("1213, always", faultproxy.SQLFault{Errno: 1213}),
		one("1205 once", faultproxy.SQLFault{Errno: 1205, Times: 1}),
		one("1205, always", faultproxy.SQLFault{Errno: 1205}),
		one("1062 once", faultproxy.SQLFault{Errno: 1062, Times: 1}),
		one("1062, always", faultproxy.SQLFault{Errno: 1062}),
		one("refused (1142)", faultproxy.SQLFault{Errno: 1142}),
		one("connection lost once", faultproxy.SQLFault{Cut: true, Times: 1}),
		one("connection lost, always", faultproxy.SQLFault{Cut: true}),
		one("done, answer lost", faultproxy.SQLFault{Cut: true, After: true, Times: 1}),
		one("done, answer lost, always", faultproxy.SQLFault{Cut: true, After: true}),
		one("somebody else's answer", faultproxy.SQLFault{Garbage: true}),
		one("hangs", faultproxy.SQLFault{Hang: true}),
		one("done, then hangs", faultproxy.SQLFault{Hang: true, After: true}),
	}
	gone := one("server is gone", faultproxy.SQLFault{Cut: true, Times: 1})
	gone.fault.hook = func(s *stand) { s.sql.Refuse(true) }
	kinds = append(kinds, gone)
	kinds = append(kinds, c.hooked(func(hang, after bool) fault {
		return fault{sql: []faultproxy.SQLFault{{Match: c.match, Skip: c.skip, Times: 1, Hang: hang, After: after}}}
	})...)
	return c.rows(kinds, "1213 once", "1205 once", "1062 once", "connection lost once", "done, answer lost")
}

// nas are the ways in which a command on the NAS fails.
func (c call) nas() []row {
	one := func(name string, f testkit.SSHFault) kind {
		f.Contains = c.match
		return kind{name, fault{nas: []testkit.SSHFault{f}}}
	}
	kinds := []kind{
		one("exit 1", testkit.SSHFault{Exit: 1, Stderr: "Permission denied"}),
		one("done, exit 1", testkit.SSHFault{Exit: 1, After: true}),
		one("connection breaks once", testkit.SSHFault{Drop: true, Times: 1}),
		one("connection breaks, always", testkit.SSHFault{Drop: true}),
		one("done, answer lost", testkit.SSHFault{Drop: true, After: true, Times: 1}),
		one("done, answer lost, always", testkit.SSHFault{Drop: true, After: true}),
		one("hangs", testkit.SSHFault{Hang: true}),
		one("done, then hangs", testkit.SSHFault{Hang: true, After: true}),
	}
	// No proxy stands before the NAS: the command hangs, and what is to happen happens as soon as the
	// server has it.
	meanwhile := func(name string, f testkit.SSHFault, then func(t testing.TB, s *stand)) kind {
		hung := one(name, f)
		hung.fault.do = func(t testing.TB, s *stand) func() {
			s.NAS.ForgetCommands(t)
			return soon(t, "the NAS has the command", func(context.Context) bool {
				return slices.ContainsFunc(s.NAS.Commands(t), func(command string) bool { return strings.Contains(command, c.match) })
			}, func() { then(t, s) })
		}
		return hung
	}
	goOn := func(t testing.TB, s *stand) {
		s.NAS.Fail(t)
		s.NAS.DropConnections() // the service sends the command once more
	}
	leave := func(t testing.TB, s *stand) {
		s.leave()
		if c.detached {
			goOn(t, s)
		}
	}
	kinds = append(kinds, meanwhile("caller goes away", testkit.SSHFault{Hang: true, Times: 1}, leave))
	if !c.detached {
		kinds = append(kinds, meanwhile("done, caller goes away", testkit.SSHFault{Hang: true, After: true, Times: 1}, leave))
	}
	if c.lock != "" {
		kinds = append(kinds, meanwhile("lock is lost meanwhile", testkit.SSHFault{Hang: true, Times: 1}, func(t testing.TB, s *stand) {
			s.loseLock(c.lock)
			goOn(t, s)
		}))
	}
	return c.rows(kinds, "connection breaks once", "done, answer lost")
}
