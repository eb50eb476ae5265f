// Package storm lets many callers loose on several instances of the service at once, while a test
// kills instances and parts, and judges every answer and what is there in the end.
//
// Accounts and groups are judged by package history: each answer must be right at some instant
// between call and answer. Workspaces are judged by what their answers promise: a workspace that was
// given and that nobody has begun to take away is there, with its ports; ports have one owner.
// Watchers read files, rows and Services past the service all the time.
package storm

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// Options of a storm.
type Options struct {
	Seed    uint64
	Clients int
	Users   int
	// Grace is how long after a fault's end failures are still put down to it.
	Grace time.Duration
	// HangUps lets some callers go away in the middle of their calls.
	HangUps bool
	// MaxPods is about how many workspaces there are at most.
	MaxPods int
}

// Env is what instances in a storm need beside the world's environment: locks that replicas share,
// short limits, and a reconciler that looks often.
func Env() map[string]string {
	return map[string]string{
		"LEDGER_LOCK": "mysql", "RECONCILE_INTERVAL": "2s", "RECONCILE_GRACE": "10s",
		"ACCOUNT_REQUEST_BUDGET": "30s", "POD_REQUEST_BUDGET": "40s", "UNDO_RESERVE": "15s", "DRAIN_TIMEOUT": "8s",
		"POD_READY_TIMEOUT": "20s", "POD_DELETE_TIMEOUT": "20s",
	}
}

// Storm is one run.
type Storm struct {
	t         testing.TB
	world     *world.World
	opts      Options
	random    *rand.Rand // of the test's own goroutine
	instances []*instance
	client    *http.Client
	kube      kubernetes.Interface
	db        *sql.DB
	idle      gauges       // of a fresh process
	clock     atomic.Int64 // instants of calls: no two events have the same

	accounts map[string]*name // users, and the groups that have no members
	users    []string
	solos    []string
	pods     workspaces

	mu         sync.Mutex
	violations []string
	counts     map[string]int
	failures   []failure
	windows    []window
	owners     map[int]string // who was seen with a number, ever
	retries    int
	began      time.Time
}

// instance is one process of the service; its URL is empty while it is not there.
type instance struct {
	process *testkit.ServiceProcess
	url     atomic.Value
}

// failure is an answer 5xx, which only a fault excuses.
type failure struct {
	what       string
	begin, end time.Time
}

// window is a time in which a fault excuses failures; end is zero while it lasts.
type window struct{ begin, end time.Time }

// New prepares a storm over running instances: a user and groups that stay, and nothing else.
func New(t testing.TB, w *world.World, opts Options, processes ...*testkit.ServiceProcess) *Storm {
	t.Helper()
	s := &Storm{
		t: t, world: w, opts: opts, random: rand.New(rand.NewPCG(opts.Seed, 0)),
		kube: w.Cluster.Admin(t), db: w.MariaDB.Open(t, w.Database),
		client:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: opts.Clients, DisableKeepAlives: !opts.HangUps}},
		accounts: map[string]*name{}, counts: map[string]int{}, owners: map[int]string{},
		pods: workspaces{byName: map[string]*pod{}, holders: map[int]*pod{}, of: map[string]*tally{}, moves: map[string][]*move{}},
	}
	for _, process := range processes {
		i := &instance{process: process}
		i.url.Store(process.URL)
		s.instances = append(s.instances, i)
	}
	for i := range opts.Users {
		s.users = append(s.users, fmt.Sprintf("user%d", i))
	}
	for i := range 6 {
		s.solos = append(s.solos, fmt.Sprintf("solo%d", i))
	}
	for _, n := range slices.Concat(s.users, s.solos) {
		s.accounts[n] = &name{}
	}
	for _, user := range s.users {
		s.pods.of[user] = &tally{}
	}
	s.foundation()
	var err error
	if s.idle, err = s.readGauges(t.Context(), processes[0].URL); err != nil {
		t.Fatal(err)
	}
	return s
}

// Run lets the callers loose for the duration and has trouble meanwhile, in the test's goroutine;
// trouble returns when it is done making faults, at the latest when ctx ends. It returns when all
// calls have ended.
func (s *Storm) Run(duration time.Duration, trouble func(ctx context.Context)) {
	s.t.Helper()
	s.began = time.Now()
	ctx, cancel := context.WithTimeout(s.t.Context(), duration)
	defer cancel()
	watching, stop := context.WithCancel(s.t.Context())
	defer stop()
	var callers, watchers sync.WaitGroup
	for _, watch := range s.watches() {
		watchers.Go(func() { watch(watching) })
	}
	for i := range s.opts.Clients {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(s.opts.Seed, uint64(i)+1))
			for ctx.Err() == nil {
				s.randomCall(ctx, random)
			}
		})
	}
	trouble(ctx)
	<-ctx.Done()
	callers.Wait()
	stop()
	watchers.Wait()
	s.client.CloseIdleConnections()
}

// Judge waits until everything is mended, compares what is there with what was promised, and
// reports. Every part has to be up.
func (s *Storm) Judge() {
	s.t.Helper()
	s.settle()
	s.judgeAccounts()
	s.judgeWorkspaces()
	s.judgeLeftovers()
	s.judgeFailures()
	s.report()
}

func (s *Storm) violate(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violations = append(s.violations, fmt.Sprintf("%6.2fs ", time.Since(s.began).Seconds())+fmt.Sprintf(format, args...))
}

func (s *Storm) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

// trouble opens a window in which failures are excused; the returned function begins its end.
func (s *Storm) trouble(what string) (over func()) {
	s.count("fault: " + what)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.windows = append(s.windows, window{begin: time.Now()})
	i := len(s.windows) - 1
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.windows[i].end = time.Now().Add(s.opts.Grace)
	}
}

// troubled tells whether a fault excuses what happened between begin and end.
func (s *Storm) troubled(begin, end time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.windows, func(w window) bool {
		return !end.Before(w.begin) && (w.end.IsZero() || !begin.After(w.end))
	})
}

// reply is what became of one call.
type reply struct {
	world.Answer
	begin, end int64
	from, to   time.Time
	err        error
	// nothing: the call was not begun, so that it has no effect.
	nothing bool
}

// unknown tells whether nobody knows what the call did.
func (r reply) unknown() bool { return !r.nothing && (r.err != nil || r.Status >= 500) }

// send makes one call to an instance that is there.
func (s *Storm) send(ctx context.Context, random *rand.Rand, what, method, path, body string) reply {
	base := s.instances[random.IntN(len(s.instances))].url.Load().(string)
	if base == "" {
		pause(ctx, 5*time.Millisecond)
		return reply{nothing: true}
	}
	// The end of the storm ends no call: its answer is waited for.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), 90*time.Second)
	defer cancel()
	if s.opts.HangUps && method != http.MethodGet && random.IntN(30) == 0 {
		call, cancel = context.WithTimeout(call, time.Duration(1+random.IntN(400))*time.Millisecond)
		defer cancel()
	}
	r := reply{begin: s.clock.Add(1), from: time.Now()}
	r.Answer, r.err = world.SendBy(call, s.client, base, method, path, body)
	r.end, r.to = s.clock.Add(1), time.Now()
	outcome := fmt.Sprint(r.Status)
	var dial *net.OpError
	switch {
	case r.err == nil:
		// 503 says that the service is draining; a busy or lost lock, that nothing was begun.
		r.nothing = r.Status == http.StatusServiceUnavailable ||
			r.Status == http.StatusInternalServerError && strings.Contains(string(r.Body), "the locks cannot be reached")
	case errors.As(r.err, &dial) && dial.Op == "dial":
		outcome, r.nothing = "refused", true
	case call.Err() != nil && ctx.Err() == nil && r.to.Sub(r.from) < time.Second:
		outcome = "hung up"
	case call.Err() != nil && r.to.Sub(r.from) > time.Minute:
		outcome = "no answer"
		s.violate("%s: no answer within %s", what, r.to.Sub(r.from).Round(time.Second))
	case call.Err() != nil:
		outcome = "hung up"
	default:
		outcome = "broken"
	}
	s.count(what + " " + outcome)
	if r.err == nil && r.Status >= 500 && r.Status != http.StatusServiceUnavailable {
		s.mu.Lock()
		s.failures = append(s.failures, failure{fmt.Sprintf("%s %s %s: %d %s", method, path, body, r.Status, r.Body), r.from, r.to})
		s.mu.Unlock()
	}
	if r.err != nil || r.Status >= 500 {
		s.mu.Lock()
		s.retries++
		s.mu.Unlock()
		pause(ctx, time.Duration(100+random.IntN(500))*time.Millisecond)
	}
	return r
}

// expect reports a status that no state of the farm explains. Failures are judged by faults.
func (s *Storm) expect(what string, r reply, statuses ...int) {
	if r.err != nil || r.nothing || r.Status >= 500 || slices.Contains(statuses, r.Status) {
		return
	}
	s.violate("%s: status %d: %s", what, r.Status, r.Body)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// own notes that a name was seen with a number: numbers have one owner ever.
func (s *Storm) own(number int, who, where string) {
	s.mu.Lock()
	other, known := s.owners[number]
	s.owners[number] = who
	s.mu.Unlock()
	if known && other != who {
		s.violate("%s: number %d belongs to %s and belonged to %s", where, number, who, other)
	}
}

// judgeFailures reports failures that no fault excuses.
func (s *Storm) judgeFailures() {
	for _, f := range s.failures {
		if !s.troubled(f.begin, f.end) {
			s.violate("a failure without a fault, at %.2fs: %s", f.begin.Sub(s.began).Seconds(), f.what)
		}
	}
}

func (s *Storm) report() {
	s.t.Helper()
	var text strings.Builder
	operations := 0
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		fmt.Fprintf(&text, "\n  %6d  %s", s.counts[what], what)
		if beside := strings.Contains(what, ": "); !beside {
			operations += s.counts[what]
		}
	}
	s.t.Logf("seed %d, %d calls that failed or broke and were left to others to repeat%s", s.opts.Seed, s.retries, text.String())
	for i, violation := range s.violations {
		if i == 40 {
			break
		}
		s.t.Errorf("violation: %s", violation)
	}
	s.t.Logf("storm: %d operations, %d violations", operations, len(s.violations))
}
