package app

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
)

// fault is what is broken around one request.
type fault struct {
	api  []faultproxy.HTTPFault
	prom []faultproxy.HTTPFault
	sql  []faultproxy.SQLFault
	nas  []testkit.SSHFault
	// hook is called when the first of api, prom or sql hits.
	hook func(s *stand)
	// do breaks what no proxy stands before. What it returns, if anything, is called when the
	// request is over and mends it.
	do func(t testing.TB, s *stand) (mend func())
}

// row is one line of the table: a step of a use case fails in one way.
type row struct {
	step, name string
	fault      fault
	// undo makes the first call of undo fail too; the row then runs a second time with it. The zero
	// value says that there is nothing to undo.
	undo fault
	// env starts the service anew for this row, with these settings; early does so with the faults
	// already in place, so that its watches never come up.
	env   map[string]string
	early bool
	// recovers are settings that the service needs to take back what it did with env; nil = none.
	recovers map[string]string
	// want begins the answer's column: the status, and step and code or the text that it must have.
	want string
	// stands is a state that may stay after recovery, beside the use case's.
	stands string
	// settle mends, before recovery, what nothing else does.
	settle func(t testing.TB, s *stand)
}

// useCase is one call with the table of its rows.
type useCase struct {
	name, method, path, body string
	// prepare makes what the call is about, with everything well.
	prepare func(t testing.TB, s *stand)
	// whole is the state after a success; afterwards lists those that may stand, beside unchanged,
	// when the fault is lifted and recovery has run.
	whole, afterwards []string
	rows              []row
}

// result is a row as it came out.
type result struct {
	row
	first, second outcome
	twice         bool
	unexpected    []string
}

// outcome is one run of a row.
type outcome struct {
	answer, undone, left, after string
	failed                      bool
}

// table runs the rows on so many stands and returns them in their order.
func (u useCase) table(t *testing.T, f *farmOfFaults, stands int, known map[string]bool) []result {
	t.Helper()
	results := make([]result, len(u.rows))
	next := make(chan int, len(u.rows))
	for i := range u.rows {
		next <- i
	}
	close(next)
	// Stands are raised here, because only the test's own goroutine may end the test.
	var crew []*stand
	for range stands {
		crew = append(crew, newStand(t, f))
	}
	var all sync.WaitGroup
	for _, s := range crew {
		all.Go(func() {
			for i := range next {
				results[i] = u.try(t, s, u.rows[i], known)
			}
		})
	}
	all.Wait()
	return results
}

// try tries a row, and a second time with much longer limits if it came out otherwise than it must:
// what only a busy machine made of it comes out right then, and what is wrong is wrong again.
func (u useCase) try(t *testing.T, s *stand, r row, known map[string]bool) result {
	res := u.tryOnce(t, s, r)
	if len(res.unexpected) > 0 || !known[res.markdown()] {
		s.wait(t, patience)
		s.takeLog()
		res = u.tryOnce(t, s, r)
		s.wait(t, 1)
	}
	for _, what := range res.unexpected {
		t.Errorf("%s, %s, %s: %s", u.name, r.step, r.name, what)
	}
	if len(res.unexpected) > 0 {
		t.Logf("log of %s, %s, %s:\n%s", u.name, r.step, r.name, s.takeLog())
	}
	s.takeLog()
	return res
}

// tryOnce runs a row, and once more with undo failing too.
func (u useCase) tryOnce(t *testing.T, s *stand, r row) result {
	res := result{row: r}
	note := func(format string, args ...any) {
		res.unexpected = append(res.unexpected, fmt.Sprintf(format, args...))
	}
	res.first = u.run(t, s, r, fault{}, note)
	if !r.undo.nothing() && res.first.failed {
		res.twice = true
		res.second = u.run(t, s, r, r.undo, func(format string, args ...any) { note("undo failing: "+format, args...) })
	}
	return res
}

func (f fault) nothing() bool {
	return len(f.api)+len(f.prom)+len(f.sql)+len(f.nas) == 0 && f.do == nil
}

// hooked is the fault with its hook in the proxies' first fault.
func (f fault) hooked(s *stand) fault {
	f.api, f.prom, f.sql = slices.Clone(f.api), slices.Clone(f.prom), slices.Clone(f.sql)
	if f.hook == nil {
		return f
	}
	hook := func() { f.hook(s) }
	switch {
	case len(f.api) > 0:
		f.api[0].Hook = hook
	case len(f.prom) > 0:
		f.prom[0].Hook = hook
	case len(f.sql) > 0:
		f.sql[0].Hook = hook
	}
	return f
}

// run runs a row once: prepare, break, ask, look, mend, recover, look again.
func (u useCase) run(t *testing.T, s *stand, r row, undo fault, note func(string, ...any)) outcome {
	t.Helper()
	u.prepare(t, s)
	before := s.look(t)
	mend := s.apply(t, r, undo)
	a := s.send(t, u.method, s.fillIn(u.path), s.fillIn(u.body))
	mend()
	s.lift(t)
	left := s.look(t)
	if r.settle != nil {
		r.settle(t, s)
	}
	if r.env != nil || r.early {
		s.restart(t, r.recovers, true)
	}
	out := outcome{failed: a.status/100 != 2, answer: a.summary(), undone: a.undone(), left: left.since(before)}
	if !strings.HasPrefix(strings.TrimPrefix(out.answer, "(nobody) "), r.want) {
		note("the answer is %q, want %q: %v", out.answer, r.want, a.body)
	}
	u.judge(a, out, left, before, undo.nothing(), note)

	// The fault is lifted and recovery runs once.
	ctx, cancel := context.WithTimeout(t.Context(), standLimit)
	defer cancel()
	if _, err := s.app.parts.reconciler.Pass(ctx, false); err != nil {
		note("recovery: %v", err)
	}
	after := s.look(t)
	out.after = after.since(before)
	allowed := append([]string{unchanged}, u.afterwards...)
	if a.status/100 == 2 {
		allowed = append(append([]string{}, u.whole...), u.afterwards...)
	}
	if !slices.Contains(allowed, out.after) && (r.stands == "" || out.after != r.stands) {
		note("after recovery: %s, want one of %q", out.after, allowed)
	}
	s.sweep(t)
	return out
}

// judge holds an outcome against what must hold whatever fails.
func (u useCase) judge(a answer, out outcome, left, before state, undoWell bool, note func(string, ...any)) {
	if a.status/100 == 2 && undoWell && !slices.Contains(u.whole, out.left) && a.body["warnings"] == nil {
		note("success, but left is: %s", out.left)
	}
	if a.status/100 != 2 && undoWell && out.left != unchanged && !strings.Contains(out.left, "record ") && !strings.Contains(out.left, "journal ") {
		note("failed and left something that nobody knows of: %s", out.left)
	}
	if rollback, there := a.body["rollback"]; there && fmt.Sprint(rollback) != fmt.Sprint(a.body["progress"]) {
		note("rollback %v is not progress %v", rollback, a.body["progress"])
	}
	// What the map calls done may not be there.
	progress, _ := a.body["progress"].(map[string]any)
	for key, there := range map[string]func(workspace) bool{
		farm.KeyPodDeleted:        func(w workspace) bool { return w.pod },
		farm.KeyServicesDeleted:   func(w workspace) bool { return w.services > 0 },
		farm.KeyNodePortsReleased: func(w workspace) bool { return w.rows > 0 },
	} {
		if progress[key] != true || a.status/100 == 2 {
			continue
		}
		for name, w := range left.workspaces {
			if _, old := before.workspaces[name]; there(w) && (!old || u.name == "delete-pod") {
				note("%s is told, but there is: %s", key, w)
			}
		}
	}
}

// apply breaks what a row says; the function that it returns mends what no proxy stands before.
func (s *stand) apply(t testing.TB, r row, undo fault) (mend func()) {
	t.Helper()
	s.seen.expect(func() {}) // so that nothing takes an earlier request for this one
	var mends []func()
	for _, f := range []fault{r.fault, undo} {
		if f.do == nil {
			continue
		}
		if one := f.do(t, s); one != nil {
			mends = append(mends, one)
		}
	}
	broken := func() {
		hooked := r.fault.hooked(s)
		s.api.Fail(append(hooked.api, undo.api...)...)
		s.prom.Fail(append(hooked.prom, undo.prom...)...)
		s.sql.Fail(append(hooked.sql, undo.sql...)...)
	}
	s.NAS.Fail(t, append(slices.Clone(r.fault.nas), undo.nas...)...)
	switch {
	case r.early:
		s.stop(t)
		broken()
		s.start(t, r.env, false)
	case r.env != nil:
		s.restart(t, r.env, true)
		broken()
	default:
		broken()
	}
	return func() {
		for _, one := range slices.Backward(mends) {
			one()
		}
	}
}

// lift ends all faults of the proxies.
func (s *stand) lift(t testing.TB) {
	t.Helper()
	s.api.Fail()
	s.prom.Fail()
	s.sql.Fail()
	s.sql.Refuse(false)
	s.NAS.Fail(t)
}

var (
	podName  = regexp.MustCompile(`ailab-[a-z0-9_-]+-[0-9a-f]{8}`)
	anyPort  = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	portText = regexp.MustCompile(`\b30[5-9]\d\d\b|\b31\d\d\d\b`)
)

// summary is the answer in a line: status, then step and code, or the text, or what a success tells.
func (a answer) summary() string {
	parts := []string{fmt.Sprint(a.status)}
	switch {
	case a.text("step") != "":
		parts = append(parts, a.text("step"), a.text("error"))
		if a.text("k8s_status") != "" {
			parts = append(parts, "(Kubernetes "+a.text("k8s_status")+")")
		}
	case a.text("error") != "":
		text, _, _ := strings.Cut(a.text("error"), ": ") // causes are told in the words of libraries
		parts = append(parts, text)
	default:
		for _, key := range []string{"status", "reason", "node", "to"} {
			if a.text(key) != "" {
				parts = append(parts, a.text(key))
			}
		}
		if a.body["already_absent"] == true {
			parts = append(parts, "(already absent)")
		}
		if warnings, ok := a.body["warnings"].([]any); ok {
			parts = append(parts, fmt.Sprintf("with %d warning", len(warnings)))
		}
	}
	text := strings.Join(parts, " ")
	text = podName.ReplaceAllString(text, "POD")
	text = anyPort.ReplaceAllString(text, "ADDRESS")
	text = portText.ReplaceAllString(text, "PORT")
	if a.gone {
		text = "(nobody) " + text
	}
	return text
}

// undone is the map of what was undone or done: keys that are true, and after "not" those that are not.
func (a answer) undone() string {
	progress, ok := a.body["progress"].(map[string]any)
	if !ok || len(progress) == 0 {
		return ""
	}
	var yes, no []string
	for key, value := range progress {
		if value == true {
			yes = append(yes, key)
		} else {
			no = append(no, key)
		}
	}
	slices.Sort(yes)
	slices.Sort(no)
	text := strings.Join(yes, ", ")
	if len(no) > 0 {
		text = strings.TrimPrefix(text+"; not "+strings.Join(no, ", "), "; ")
	}
	return text
}

// markdown is the table as it is kept.
func (u useCase) markdown(results []result) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", u.name, tableIntro)
	b.WriteString("| step | fault | answer | undone | left | undo fails too: undone | left | after recovery |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		b.WriteString(r.markdown())
	}
	return []byte(b.String())
}

// markdown is the row as it is kept.
func (r result) markdown() string {
	second := outcome{after: r.first.after}
	if r.twice {
		second = r.second
	}
	cells := []string{r.step, r.name, r.first.answer, r.first.undone, r.first.left, second.undone, second.left, second.after}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

const tableIntro = "Each step fails in each way its part can fail. *undone* is the map in the answer; *left* is what differs from before the call,\n" +
	"right after it. Where there is something to undo the row ran a second time with the first call of undo failing too. *after recovery*: the\n" +
	"fault is lifted and recovery has run once."

// fillIn puts the pod of the row's preparation in the place of {pod}.
func (s *stand) fillIn(text string) string { return strings.ReplaceAll(text, "{pod}", s.pod) }

// soon calls do once when the condition holds, in the background; the function that it returns
// waits for that, and fails the test if it never came.
func soon(t testing.TB, what string, holds func(ctx context.Context) bool, do func()) (wait func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), standLimit)
	done := make(chan error, 1)
	go func() {
		err := testkit.Eventually(ctx, func(ctx context.Context) error {
			if !holds(ctx) {
				return fmt.Errorf("not yet: %s", what)
			}
			return nil
		})
		if err == nil {
			do()
		}
		done <- err
	}()
	return func() {
		defer cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Second):
			t.Errorf("it did not come to it that %s", what)
		}
	}
}

// removeFile removes a file that must be there.
func removeFile(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Error(err)
	}
}

func (u *useCase) add(rows ...row) { u.rows = append(u.rows, rows...) }

// allRows is the environment variable that has every row tried. Without it a sample is: the whole
// table takes minutes, which make faults has and make test has not.
const allRows = "FAULTS_ALL"

// sampled is how many rows one of a sample stands for.
const sampled = 12

// check runs the table on so many stands, compares it with the golden file and tells the counts.
func (u *useCase) check(t *testing.T, f *farmOfFaults, stands int) {
	t.Helper()
	all := os.Getenv(allRows) != ""
	if !all {
		stands, u.rows = 1, sample(u.rows)
	}
	path := "testdata/faults/" + strings.NewReplacer("/", "-", "{", "", "}", "", " ", "-").Replace(u.name) + ".md"
	known := map[string]bool{}
	golden, err := os.ReadFile(path)
	for line := range strings.Lines(string(golden)) {
		known[line] = true
	}
	results := u.table(t, f, stands, known)
	unexpected := 0
	for _, r := range results {
		unexpected += len(r.unexpected)
	}
	f.rows.Add(int64(len(results)))
	f.unexpected.Add(int64(unexpected))
	if all {
		testkit.Golden(t, path, u.markdown(results))
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if line := r.markdown(); !known[line] {
			t.Errorf("%s has not the row (%s=1 go test -update writes it anew):\n%s", path, allRows, line)
		}
	}
}

func sample(rows []row) []row {
	var some []row
	for i := 0; i < len(rows); i += sampled {
		some = append(some, rows[i])
	}
	return some
}
