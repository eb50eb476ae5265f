package app_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// The crash matrix: the real binary on real parts is killed (SIGKILL) at every point of every use
// case, undo steps included, and started again. After its recovery what the call was about is
// whole or not there at all, nothing is left over anywhere, no number has two owners, and the same
// call sent again succeeds. CRASH_ALL=1 tries every point, otherwise every crashSample-th.
const crashSample = 12

// crashLimit bounds one recovery. It is wide, because only failures come near it.
const crashLimit = 90 * time.Second

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

// TestCrash is the whole matrix. Its farms are independent, so that they can run side by side.
func TestCrash(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "crash matrix", "golang", "go")
	var mu sync.Mutex
	var table []string
	var tried, leftovers, retries int
	farms := map[string]func(*testing.T) *crashFarm{
		"accounts":   func(t *testing.T) *crashFarm { return crashMatrix(t, accountCrashes(), 0) },
		"workspaces": func(t *testing.T) *crashFarm { return crashMatrix(t, workspaceCrashes(), 3) },
		"migrations": func(t *testing.T) *crashFarm { return crashMatrix(t, migrationCrashes(), 1) },
		"outages":    crashWithItsParts,
	}
	t.Run("farm", func(t *testing.T) {
		for name, run := range farms {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := run(t)
				mu.Lock()
				defer mu.Unlock()
				table = append(table, f.table...)
				tried, leftovers, retries = tried+f.tried, leftovers+f.leftovers, retries+f.retries
			})
		}
	})
	for _, line := range table {
		t.Log(line)
	}
	t.Logf("crash: %d points tried, %d leftovers, %d retries succeeded", tried, leftovers, retries)
	if tried == 0 || retries != tried || leftovers > 0 {
		t.Error("not every point left everything whole")
	}
}

func crashMatrix(t *testing.T, cases []crashCase, offset int) *crashFarm {
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
	return f
}

func crashChosen(i int) bool { return os.Getenv("CRASH_ALL") != "" || i%crashSample == 0 }

// crashWithItsParts kills the process, the database and the API server at the same time.
func crashWithItsParts(t *testing.T) *crashFarm {
	f := newCrashFarm(t, world.Options{OwnMariaDB: true})
	for i, c := range slices.Concat(accountCrashes(), workspaceCrashes(), migrationCrashes()) {
		if c.outage == "" || !crashChosen(i) {
			continue
		}
		pictures, _ := f.discover(t, c)
		f.tryOutage(t, c, pictures)
		f.note("%-34s with database and API server", c.name)
	}
	return f
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

// judge looks at what the restarted process makes of it: whole or nothing, and the same call sent
// again succeeds. Every other time the call does not wait for recovery.
func (f *crashFarm) judge(t *testing.T, c crashCase, pictures crashPictures, what, name string, call crashCall) {
	t.Helper()
	f.tried++
	if f.tried%2 == 0 {
		f.judgeAtOnce(t, c, pictures, what, name, call)
		return
	}
	left := f.settle(t, what, name)
	done := slices.Equal(left, pictures.after) && c.fault == nil
	if !done && !slices.Equal(left, pictures.before) {
		f.leftovers++
		t.Errorf("%s: neither whole nor gone:\n%s", what, differences(pictures.before, left))
	}
	if c.heal != nil {
		c.heal(t, f, name)
	}
	status, whole := c.fresh, pictures.retried
	if done {
		status = c.done
	}
	if done && c.again {
		whole = pictures.twice()
	}
	if f.expect(t, what+", sent again", call, status) {
		f.retries++
	}
	f.isWhole(t, what+", sent again", f.settle(t, what+", sent again", name), whole)
	f.clean(t, what, name)
}

// judgeAtOnce sends the call again while recovery is under way. Whether it finds nothing done or all
// of it depends on where the process was killed.
func (f *crashFarm) judgeAtOnce(t *testing.T, c crashCase, pictures crashPictures, what, name string, call crashCall) {
	t.Helper()
	if c.heal != nil {
		c.heal(t, f, name)
	}
	what += ", sent again at once"
	statuses, wholes := []int{c.fresh}, [][]string{pictures.retried}
	if c.fault == nil {
		statuses = append(statuses, c.done)
	}
	if c.again {
		wholes = append(wholes, pictures.twice())
	}
	if f.expect(t, what, call, statuses...) {
		f.retries++
	}
	f.isWhole(t, what, f.settle(t, what, name), wholes...)
	f.clean(t, what, name)
}

func (f *crashFarm) isWhole(t *testing.T, what string, left []string, wholes ...[]string) {
	t.Helper()
	if !slices.ContainsFunc(wholes, func(whole []string) bool { return slices.Equal(left, whole) }) {
		f.leftovers++
		t.Errorf("%s: not whole:\n%s", what, differences(wholes[0], left))
	}
}

// twice is what is there when all was done and then done again.
func (p crashPictures) twice() []string {
	made := slices.DeleteFunc(slices.Clone(p.after), func(fact string) bool { return slices.Contains(p.before, fact) })
	return slices.Sorted(slices.Values(slices.Concat(p.retried, made)))
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

// expect sends a call and tells whether it had one of the statuses.
func (f *crashFarm) expect(t *testing.T, what string, call crashCall, statuses ...int) bool {
	t.Helper()
	answer, err := f.send(t, call)
	switch {
	case err != nil:
		t.Errorf("%s: %v", what, err)
	case !slices.Contains(statuses, answer.Status):
		t.Errorf("%s: status %d, want %d: %s", what, answer.Status, statuses, answer.Body)
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
	err := testkit.Eventually(ctx, func(ctx context.Context) error {
		seen, err := f.strays(ctx)
		if err != nil {
			return err
		}
		if strays = seen; len(strays) > 0 {
			return errors.New("something is left over")
		}
		return nil
	})
	if err != nil {
		f.leftovers += max(1, len(strays))
		t.Errorf("%s: left over: %q (%v)", what, strays, err)
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
