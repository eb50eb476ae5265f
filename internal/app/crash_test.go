package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// The crash matrix: the real binary on real parts is killed (SIGKILL) at every point of every use
// case, undo steps included, and started again. After its recovery what the call was about is
// whole or not there at all, nothing is left over anywhere, no number has two owners, and the same
// call sent again succeeds. CRASH_ALL=1 tries every point, otherwise every crashSample-th.
const crashSample = 8

// crashLimit bounds one recovery.
const crashLimit = 40 * time.Second

// crashCall is a request.
type crashCall struct{ method, path, body string }

// crashCase is one use case of the matrix. Every point gets names of its own, derived from name.
type crashCase struct {
	name string
	// arrange prepares and returns the call.
	arrange func(t *testing.T, f *crashFarm, name string) crashCall
	// fault makes the call fail, heal ends that; nil = it succeeds.
	fault, heal func(t *testing.T, f *crashFarm, name string)
	status      int // of the call without a crash
	fresh       int // of the call sent again when nothing of it was done
	done        int // of the call sent again when all of it was done
	// again says that a done call sent again does all once more.
	again bool
	// recovery are points after which recovery has work, and is itself killed at each of its points.
	recovery []string
	// outage is a point at which the database and the API server are killed too; "" = none.
	outage string
}

// crashPictures are the states that count as whole.
type crashPictures struct{ before, after, retried []string }

func TestCrashAccounts(t *testing.T)   { t.Parallel(); crashMatrix(t, accountCrashes(), 0) }
func TestCrashWorkspaces(t *testing.T) { t.Parallel(); crashMatrix(t, workspaceCrashes(), 3) }

func crashMatrix(t *testing.T, cases []crashCase, offset int) {
	f := newCrashFarm(t, world.Options{})
	for i, c := range cases {
		pictures, points := f.discover(t, c)
		if len(points) == 0 {
			t.Errorf("%s passes no point", c.name)
		}
		tried := 0
		for at, point := range points {
			if crashChosen(at + offset + 3*i) {
				tried++
				f.try(t, c, pictures, point)
			}
		}
		recoveries := 0
		for at, point := range c.recovery {
			if crashChosen(at + offset + i) {
				recoveries += f.tryRecovery(t, c, pictures, point, at+i)
			}
		}
		f.note("%-34s %3d points, %3d tried; %3d in recovery", c.name, len(points), tried, recoveries)
	}
	f.sum(t)
}

func crashChosen(i int) bool { return os.Getenv("CRASH_ALL") != "" || i%crashSample == 0 }

// TestCrashWithItsParts kills the process, the database and the API server at the same time.
func TestCrashWithItsParts(t *testing.T) {
	t.Parallel()
	f := newCrashFarm(t, world.Options{OwnMariaDB: true})
	for i, c := range append(accountCrashes(), workspaceCrashes()...) {
		if c.outage == "" || (os.Getenv("CRASH_ALL") == "" && i%2 == 0) {
			continue
		}
		pictures, _ := f.discover(t, c)
		f.tryOutage(t, c, pictures)
		f.note("%-34s with database and API server", c.name)
	}
	f.sum(t)
}

// discover makes the call without a crash, and once more, and returns what it leads to and the
// points that it passes, each with its count.
func (f *crashFarm) discover(t *testing.T, c crashCase) (crashPictures, []string) {
	t.Helper()
	name := f.newName()
	call := c.arrange(t, f, name)
	f.settle(t, c.name+": arrange", name)
	pictures := crashPictures{before: f.facts(t, name)}
	if c.fault != nil {
		c.fault(t, f, name)
	}
	f.forgetPoints(t)
	f.expect(t, c.name, call, c.status)
	points := f.passed(t)
	pictures.after = f.settle(t, c.name+": no crash", name)
	if c.fault == nil {
		pictures.retried = pictures.after
	} else {
		c.heal(t, f, name)
		if !slices.Equal(pictures.before, pictures.after) {
			t.Errorf("%s: a failed call leaves something:\n%s", c.name, differences(pictures.before, pictures.after))
		}
		f.expect(t, c.name+", sent again", call, c.fresh)
		pictures.retried = f.settle(t, c.name+": sent again", name)
	}
	f.clean(t, c.name, name)
	return pictures, points
}

// try kills the process at one point.
func (f *crashFarm) try(t *testing.T, c crashCase, pictures crashPictures, point string) {
	t.Helper()
	what := c.name + " at " + point
	name := f.newName()
	call := c.arrange(t, f, name)
	if c.fault != nil {
		c.fault(t, f, name)
	}
	f.order(t, "kill "+point)
	f.die(t, what, call)
	f.order(t, "")
	f.service.Start(t)
	f.judge(t, c, pictures, what, name, call)
}

// die sends a call during which the process is to die.
func (f *crashFarm) die(t *testing.T, what string, call crashCall) {
	t.Helper()
	answer, err := f.send(t, call)
	if err == nil {
		t.Errorf("%s: answered %d instead of being killed: %s", what, answer.Status, answer.Body)
		f.service.Kill()
	}
	if end := f.service.Wait(t, crashLimit); end != "signal killed" {
		t.Errorf("%s: the process ended with %s", what, end)
	}
}

// judge looks at what the restarted process makes of it: whole or nothing, and a retry succeeds.
func (f *crashFarm) judge(t *testing.T, c crashCase, pictures crashPictures, what, name string, call crashCall) {
	t.Helper()
	f.tried++
	left := f.settle(t, what, name)
	done := slices.Equal(left, pictures.after) && c.fault == nil
	if !done && !slices.Equal(left, pictures.before) {
		f.leftovers++
		t.Errorf("%s: neither whole nor gone:\n%s", what, differences(pictures.before, left))
	}
	if c.heal != nil {
		c.heal(t, f, name)
	}
	status := c.fresh
	if done {
		status = c.done
	}
	if f.expect(t, what+", sent again", call, status) {
		f.retries++
	}
	left = f.settle(t, what+", sent again", name)
	if done && c.again {
		pictures.retried = slices.Sorted(slices.Values(slices.Concat(pictures.retried, slices.DeleteFunc(slices.Clone(pictures.after), func(fact string) bool {
			return slices.Contains(pictures.before, fact)
		}))))
	}
	if !slices.Equal(left, pictures.retried) {
		f.leftovers++
		t.Errorf("%s, sent again: not whole:\n%s", what, differences(pictures.retried, left))
	}
	f.clean(t, what, name)
}

// tryRecovery kills the process at a point, and the next one at each point of its recovery.
func (f *crashFarm) tryRecovery(t *testing.T, c crashCase, pictures crashPictures, point string, offset int) int {
	t.Helper()
	cut := func(what string) (string, crashCall) {
		name := f.newName()
		call := c.arrange(t, f, name)
		if c.fault != nil {
			c.fault(t, f, name)
		}
		f.order(t, "kill "+point)
		f.die(t, what, call)
		f.order(t, "")
		return name, call
	}
	what := c.name + " at " + point
	name, call := cut(what)
	f.forgetPoints(t)
	f.service.Start(t)
	f.settle(t, what, name)
	points := f.passed(t)
	f.judge(t, c, pictures, what, name, call)
	if len(points) == 0 {
		t.Errorf("%s: recovery passes no point", what)
	}
	tried := 0
	for at, second := range points {
		if !crashChosen(at + offset) {
			continue
		}
		tried++
		what := what + ", then in recovery at " + second
		name, call := cut(what)
		f.forgetPoints(t)
		f.order(t, "hold "+second)
		f.service.Start(t)
		f.waitHeld(t, what)
		f.service.Kill()
		f.order(t, "")
		f.service.Start(t)
		f.judge(t, c, pictures, what, name, call)
	}
	return tried
}

// tryOutage kills the process, the database and the API server while the process is at a point.
func (f *crashFarm) tryOutage(t *testing.T, c crashCase, pictures crashPictures) {
	t.Helper()
	what := c.name + " with its parts at " + c.outage
	name := f.newName()
	call := c.arrange(t, f, name)
	f.forgetPoints(t)
	f.order(t, "hold "+c.outage)
	ended := make(chan error, 1)
	go func() {
		_, err := world.Send(t.Context(), f.service.URL, call.method, call.path, call.body)
		ended <- err
	}()
	f.waitHeld(t, what)
	f.world.MariaDB.Kill(t)
	f.world.Cluster.Kill(t, testkit.PartAPIServer)
	f.service.Kill()
	if err := <-ended; err == nil {
		t.Errorf("%s: answered instead of being killed", what)
	}
	f.order(t, "")
	// It has to start while its parts are down, and to recover once they are back.
	f.service.Start(t)
	f.world.MariaDB.Start(t)
	f.world.Cluster.Start(t, testkit.PartAPIServer)
	f.judge(t, c, pictures, what, name, call)
}

// expect sends a call and tells whether it had the status.
func (f *crashFarm) expect(t *testing.T, what string, call crashCall, status int) bool {
	t.Helper()
	answer, err := f.send(t, call)
	switch {
	case err != nil:
		t.Errorf("%s: %v", what, err)
	case answer.Status != status:
		t.Errorf("%s: status %d, want %d: %s", what, answer.Status, status, answer.Body)
	default:
		return true
	}
	return false
}

func (f *crashFarm) send(t *testing.T, call crashCall) (world.Answer, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return world.Send(ctx, f.service.URL, call.method, call.path, call.body)
}

// settle waits until nothing is left over and returns what there is of name.
func (f *crashFarm) settle(t *testing.T, what, name string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), crashLimit)
	defer cancel()
	var strays []string
	err := testkit.Eventually(ctx, func(ctx context.Context) (err error) {
		strays, err = f.strays(ctx)
		if err == nil && len(strays) > 0 {
			err = errors.New(strings.Join(strays, "; "))
		}
		return err
	})
	if err != nil {
		f.leftovers += max(1, len(strays))
		t.Errorf("%s: left over: %v", what, err)
		for _, stray := range strays {
			f.known[stray] = true // it is told once, not at every further point
		}
	}
	f.checkOwners(t, what)
	return f.facts(t, name)
}

func differences(want, got []string) string {
	var b strings.Builder
	for _, fact := range want {
		if !slices.Contains(got, fact) {
			fmt.Fprintf(&b, "  - %s\n", fact)
		}
	}
	for _, fact := range got {
		if !slices.Contains(want, fact) {
			fmt.Fprintf(&b, "  + %s\n", fact)
		}
	}
	fmt.Fprintf(&b, "  (%d facts instead of %d)", len(got), len(want))
	return b.String()
}

// note keeps a line of the table.
func (f *crashFarm) note(format string, args ...any) {
	f.table = append(f.table, fmt.Sprintf(format, args...))
}

// sum prints the table and the count.
func (f *crashFarm) sum(t *testing.T) {
	t.Helper()
	for _, line := range f.table {
		t.Log(line)
	}
	t.Logf("crash: %d points tried, %d leftovers, %d retries succeeded", f.tried, f.leftovers, f.retries)
	if f.tried == 0 || f.retries != f.tried {
		t.Errorf("of %d points %d were followed by a retry that succeeded", f.tried, f.retries)
	}
}
