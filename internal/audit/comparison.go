package audit

import (
	"fmt"
	"slices"
	"time"

	"config-server/internal/farm"
)

// comparison is an Input with its indexes, and what was found so far.
type comparison struct {
	Input
	findings []Finding

	account map[farm.UserName]farm.Account // the first line of a name counts
	byGID   map[farm.ID]farm.Group
	// settling are users with an unfinished operation, busy the pods of one.
	settling map[farm.UserName]bool
	busy     map[farm.PodName]bool

	pods     map[farm.PodName]farm.Pod
	rows     map[farm.PodName][]farm.Row
	rowOf    map[int]farm.Row // by NodePort, the first one
	services map[farm.PodName][]farm.Service
	opened   map[int]bool // NodePorts of Services
}

func newComparison(in Input) *comparison {
	c := &comparison{
		Input: in, account: map[farm.UserName]farm.Account{}, byGID: map[farm.ID]farm.Group{},
		settling: map[farm.UserName]bool{}, busy: map[farm.PodName]bool{},
		pods: map[farm.PodName]farm.Pod{}, rows: map[farm.PodName][]farm.Row{}, rowOf: map[int]farm.Row{},
		services: map[farm.PodName][]farm.Service{}, opened: map[int]bool{},
	}
	for _, a := range slices.Backward(in.Accounts) {
		c.account[a.Name] = a
	}
	for _, g := range slices.Backward(in.Groups) {
		c.byGID[g.GID] = g
	}
	for _, e := range in.Entries {
		c.settling[e.User] = true
	}
	for _, o := range in.Operations {
		c.busy[o.Pod] = true
		if o.OldPod != "" {
			c.busy[o.OldPod] = true
		}
	}
	for _, p := range in.Pods {
		c.pods[p.Name] = p
	}
	for _, r := range slices.Backward(in.Rows) {
		c.rowOf[r.Port.External] = r
	}
	for _, r := range in.Rows {
		c.rows[r.Pod] = append(c.rows[r.Pod], r)
	}
	for _, s := range in.Services {
		c.services[s.Pod] = append(c.services[s.Pod], s)
		for _, p := range s.Ports {
			c.opened[p.External] = true
		}
	}
	return c
}

// has tells whether all of these parts could be read.
func (c *comparison) has(parts ...Part) bool {
	return !slices.ContainsFunc(parts, func(p Part) bool { return c.Unreadable[p] != nil })
}

func (c *comparison) add(kind Kind, object string, user farm.UserName, remedy, detail string, args ...any) {
	c.findings = append(c.findings, Finding{Kind: kind, Object: object, User: user, Remedy: remedy, Detail: fmt.Sprintf(detail, args...)})
}

func (c *comparison) unreadable() {
	for part, err := range c.Unreadable {
		if err != nil {
			c.add(Unreadable, string(part), "", remedyCheck, "%v; what needs it was not compared", err)
		}
	}
}

// unfinished reports operations that should have ended long ago. Recovery ends them, so one that is
// still there could not be ended, or nobody runs.
func (c *comparison) unfinished() {
	overdue := func(at time.Time) bool { return c.Now.Sub(at) > c.Overdue }
	age := func(at time.Time) string { return c.Now.Sub(at).Truncate(time.Second).String() }
	if c.Interrupted {
		c.add(InterruptedCommit, "ledger", "", remedyReconcile, "a change of the account files is decided and only partly written")
	}
	for _, e := range c.Entries {
		if overdue(e.StartedAt) {
			c.add(StaleJournal, e.ID, e.User, remedyReconcile, "the %s of this account began %s ago and has not ended", e.Kind, age(e.StartedAt))
		}
	}
	for _, o := range c.Operations {
		if overdue(o.StartedAt) {
			c.add(StaleOperation, o.ID, o.User, remedyReconcile, "the %s of pod %s began %s ago and has not ended", o.Kind, o.Pod, age(o.StartedAt))
		}
	}
}
