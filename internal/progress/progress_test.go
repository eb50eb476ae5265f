package progress_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/progress"
	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
)

// window is short, so that tests that wait for a write wait little; never is longer than any test.
const (
	window = 5 * time.Millisecond
	never  = time.Hour
)

var begin = time.Date(2026, 11, 30, 2, 11, 7, 904_500_000, time.UTC)

// id makes ids that sort as their numbers do.
func id(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// began is an operation that has begun n seconds after begin.
func began(n int, user farm.UserName) farm.Progress {
	return farm.Progress{
		ID: id(n), Kind: farm.OperationCreate, User: user, Pod: farm.PodName(fmt.Sprintf("ailab-%s-%08x", user, n)), Stage: farm.StageStarted,
		Message: "begun", Instance: "one", RequestID: "r-1", StartedAt: begin.Add(time.Duration(n) * time.Second),
		Steps: []farm.StepResult{{Step: "FETCH_USER_CONFIG", Result: farm.ResultRunning}},
	}
}

func ended(n int, user farm.UserName, stage farm.Stage) farm.Progress {
	p := began(n, user)
	p.Stage, p.Done = stage, true
	return p
}

func store(t *testing.T, place databasetest.Place, opts progress.Options) *progress.Store {
	t.Helper()
	s := progress.New(place.Open(t), opts)
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

// write has a store write states and forget them.
func write(t *testing.T, s *progress.Store, states ...farm.Progress) {
	t.Helper()
	for _, p := range states {
		s.Report(p)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, s *progress.Store, user farm.UserName, limit int) []farm.Progress {
	t.Helper()
	all, err := s.Operations(t.Context(), user, limit)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// summary is id, stage and message of each.
func summary(all []farm.Progress) string {
	var lines []string
	for _, p := range all {
		n, _ := strconv.Atoi(p.ID[len(p.ID)-6:])
		lines = append(lines, fmt.Sprintf("%d %s %s", n, p.Stage, p.Message))
	}
	return strings.Join(lines, ", ")
}

func TestReplicasSeeEachOthersProgress(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		one, two := store(t, place, progress.Options{Window: window}), store(t, place, progress.Options{})
		one.Start()
		one.Start() // a second one does nothing
		p := began(1, "kim")
		one.Report(p)
		testkit.WaitFor(t, time.Minute, "the other replica to see it", func(ctx context.Context) error {
			all, err := two.Operations(ctx, "kim", 10)
			if err == nil && summary(all) != "1 started begun" {
				err = fmt.Errorf("it sees %q", summary(all))
			}
			return err
		})
		p.Kind, p.OldPod, p.OldNode = farm.OperationMigrate, "ailab-kim-old", "farm5"
		p.Stage, p.Message, p.Node, p.Code, p.Detail, p.Done = farm.StageFailed, "failed", "farm6", farm.PodReadyTimeout, "줄 1\nline 2 🚀", true
		p.Steps = []farm.StepResult{{Step: "FETCH_USER_CONFIG", Result: farm.ResultOK, Seconds: 0.004}, {Step: "WAIT_POD_READY", Result: farm.ResultError, Seconds: 3.1}}
		p.Undo = []farm.UndoResult{{Step: "CREATE_POD", What: farm.WhatPod, Result: farm.ResultUndone}}
		one.Report(p)
		if err := one.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := list(t, two, "kim", 10)
		if len(got) != 1 {
			t.Fatalf("%d operations, want one", len(got))
		}
		if age := time.Since(got[0].UpdatedAt); age < 0 || age > time.Minute {
			t.Errorf("updated at %v", got[0].UpdatedAt)
		}
		want := p
		want.StartedAt, want.UpdatedAt = p.StartedAt.Truncate(time.Millisecond), got[0].UpdatedAt
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Errorf("the other replica reads (-want +got):\n%s", diff)
		}
		one2, found, err := two.Get(t.Context(), p.ID)
		if diff := cmp.Diff(want, one2); diff != "" || !found || err != nil {
			t.Errorf("get: %t, %v (-want +got):\n%s", found, err, diff)
		}
		if _, found, err := two.Get(t.Context(), id(9)); found || err != nil {
			t.Errorf("get of an operation that nobody told of: %t, %v", found, err)
		}
	})
}

func TestOperationsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		s := store(t, place, progress.Options{Window: never})
		write(t, s, ended(1, "kim", farm.StageFailed), ended(3, "lee", farm.StageReady), began(2, "kim"), ended(4, "Kim", farm.StageReady))
		// These two are known to this process alone, one of them newer than its row.
		newer := began(2, "kim")
		newer.Message, newer.Stage = "further", farm.StageCreatingPod
		s.Report(newer)
		s.Report(began(5, "kim"))
		for _, c := range []struct {
			user  farm.UserName
			limit int
			want  string
		}{
			{"", 10, "5 started begun, 4 ready begun, 3 ready begun, 2 creating_pod further, 1 failed begun"},
			{"", 2, "5 started begun, 4 ready begun"},
			{"kim", 10, "5 started begun, 2 creating_pod further, 1 failed begun"},
			{"kim", 1, "5 started begun"},
			{"nobody", 10, ""},
		} {
			if got := summary(list(t, s, c.user, c.limit)); got != c.want {
				t.Errorf("%d of %q: %s, want %s", c.limit, c.user, got, c.want)
			}
		}
		open, err := s.UnderWay(t.Context())
		if got := summary(open); got != "5 started begun, 2 creating_pod further" || err != nil {
			t.Errorf("under way: %s, %v", got, err)
		}
		stages, err := s.Stages(t.Context())
		want := map[farm.PodName]farm.Stage{"ailab-kim-00000005": farm.StageStarted, "ailab-kim-00000002": farm.StageCreatingPod}
		if diff := cmp.Diff(want, stages); diff != "" || err != nil {
			t.Errorf("stages: %v (-want +got):\n%s", err, diff)
		}
	})
}

// Many states of many operations become few statements, and the last of each counts.
func TestStatesAreGathered(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	proxy := faultproxy.NewMySQL(t, net.JoinHostPort(server.Host, strconv.Itoa(server.Port)))
	through := *server
	through.Host, through.Port = proxy.Host, proxy.Port
	s := store(t, databasetest.On(&through, server.NewDatabase(t)), progress.Options{Window: never})
	s.Start()
	const operations, states = 500, 20
	counted := faultproxy.SQLFault{Match: "REPLACE INTO config_server_progress"}
	proxy.Fail(counted)
	var group sync.WaitGroup
	for n := range operations {
		group.Go(func() {
			for i := range states {
				p := began(n, "kim")
				p.Message = fmt.Sprint("state ", i)
				s.Report(p)
			}
		})
	}
	group.Wait()
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if hits := proxy.Hits()[0]; hits != operations/50 {
		t.Errorf("%d statements for %d states of %d operations, want one for 50 operations", hits, operations*states, operations)
	}
	all := list(t, s, "kim", 2*operations)
	if len(all) != operations || slices.ContainsFunc(all, func(p farm.Progress) bool { return p.Message != fmt.Sprint("state ", states-1) }) {
		t.Errorf("%d operations, or not all in their last state", len(all))
	}
	if err := s.Stop(t.Context()); err != nil || proxy.Hits()[0] != operations/50 {
		t.Errorf("a stop with nothing to write: %v, %d statements", err, proxy.Hits()[0])
	}
}

// buffer is a log that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A database that is down delays nothing and is logged once; what was told meanwhile is known here
// at once and is written when it is back, but for what is beyond the bound.
func TestDatabaseThatIsDown(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	proxy := faultproxy.NewMySQL(t, net.JoinHostPort(server.Host, strconv.Itoa(server.Port)))
	through := *server
	through.Host, through.Port = proxy.Host, proxy.Port
	name := server.NewDatabase(t)
	log := &buffer{}
	tries := &counter{}
	db := databasetest.On(&through, name).Open(t, database.Retried(func(_ context.Context, name, _ string) { tries.add(name) }))
	s := progress.New(db, progress.Options{
		Log: slog.New(slog.NewTextHandler(log, nil)), Window: window, RetryPause: window, MaxPending: 3,
	})
	s.Start()
	proxy.Refuse(true)
	for n := range 5 {
		s.Report(began(n, "kim"))
	}
	if got := summary(list(t, s, "kim", 10)); got != "4 started begun, 3 started begun, 2 started begun" {
		t.Errorf("known without the database: %s", got)
	}
	if _, err := s.Operations(t.Context(), "lee", 10); err == nil {
		t.Error("nothing is known of lee, and the database's failure is not told")
	}
	testkit.WaitFor(t, time.Minute, "a few tries", func(context.Context) error {
		if tries.of("write_progress") < 25 { // each of a write's tries is repeated a few times
			return errors.New("not yet")
		}
		return nil
	})
	if err := s.Stop(t.Context()); err == nil {
		t.Error("a stop without the database says nothing")
	}
	proxy.Refuse(false)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log.String(), "progress of operations cannot be written"); got != 1 {
		t.Errorf("%d lines of log, want one:\n%s", got, log)
	}
	if got := summary(list(t, s, "kim", 10)); got != "4 started begun, 3 started begun, 2 started begun" {
		t.Errorf("written in the end: %s", got)
	}
}

// counter counts by name.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[name]++
}

func (c *counter) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[name]
}

// What a database refuses for good must not stand in the way of the rest.
func TestARefusedStateDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	s := store(t, databasetest.MariaDB(t), progress.Options{Window: never})
	bad := began(2, "lee")
	bad.RequestID = strings.Repeat("x", 500) // no column is as wide; the edge lets no such id in
	write(t, s, began(1, "kim"), bad, began(3, "park"))
	if got := summary(list(t, s, "", 10)); got != "3 started begun, 1 started begun" {
		t.Errorf("written: %s", got)
	}
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		s := store(t, place, progress.Options{})
		p := began(1, "kim")
		p.Message, p.Detail = strings.Repeat("줄", 5000), strings.Repeat("🚀", 100_000)+"\xff"
		for i := range 200 {
			p.Steps = append(p.Steps, farm.StepResult{Step: fmt.Sprint("S", i), Result: farm.ResultOK})
		}
		write(t, s, p)
		got := list(t, s, "kim", 1)[0]
		if got.Message != strings.Repeat("줄", 1000) || got.Detail != strings.Repeat("🚀", 8000) || len(got.Steps) != 64 || got.Steps[63].Step != "S199" {
			t.Errorf("message %d, detail %d bytes, %d steps", len(got.Message), len(got.Detail), len(got.Steps))
		}
	})
}

func TestCloseChangesOnlyWhatIsAsItWasRead(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		s := store(t, place, progress.Options{})
		write(t, s, began(1, "kim"), began(2, "kim"), ended(3, "kim", farm.StageReady))
		rows := list(t, s, "kim", 10)
		done, moved, open := rows[0], rows[1], rows[2]
		newer := began(2, "kim")
		newer.Message = "further"
		testkit.WaitFor(t, time.Minute, "the next millisecond", func(context.Context) error {
			if !time.Now().After(moved.UpdatedAt.Add(time.Millisecond)) {
				return errors.New("not yet")
			}
			return nil
		})
		write(t, s, newer)
		for p, want := range map[*farm.Progress]bool{&done: false, &moved: false, &open: true} {
			p.Stage, p.Message, p.Detail = farm.StageFailed, "cut off", "why"
			if closed, err := s.Close(t.Context(), *p); closed != want || err != nil {
				t.Errorf("close %s: %t, %v, want %t", p.ID, closed, err, want)
			}
		}
		all := list(t, s, "kim", 10)
		if got := summary(all); got != "3 ready begun, 2 started further, 1 failed cut off" {
			t.Errorf("rows: %s", got)
		}
		if !all[2].Done || all[2].Detail != "why" || len(all[2].Steps) != 1 {
			t.Errorf("closed: %+v", all[2])
		}
	})
}

func TestPurge(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		clock := begin
		s := store(t, place, progress.Options{Now: func() time.Time { return clock }})
		for n := range 6 {
			p := ended(n, "kim", farm.StageReady)
			p.Done = n != 0 // the first one has no end
			write(t, s, p)
			clock = clock.Add(time.Hour)
		}
		purge := func(keep time.Duration, most int, want string) {
			t.Helper()
			if err := s.Purge(t.Context(), keep, most); err != nil {
				t.Fatal(err)
			}
			if got := summary(list(t, s, "", 10)); got != want {
				t.Errorf("kept for %v, at most %d: %s, want %s", keep, most, got, want)
			}
		}
		purge(24*time.Hour, 100, "5 ready begun, 4 ready begun, 3 ready begun, 2 ready begun, 1 ready begun, 0 ready begun")
		purge(4*time.Hour, 100, "5 ready begun, 4 ready begun, 3 ready begun, 2 ready begun, 0 ready begun")
		purge(4*time.Hour, 2, "5 ready begun, 4 ready begun, 0 ready begun")
		purge(0, 2, "0 ready begun")
	})
}

func TestChanges(t *testing.T) {
	t.Parallel()
	s := store(t, databasetest.SQLite(t), progress.Options{Window: never})
	kim, end := s.Changes("kim")
	lee, endLee := s.Changes("lee")
	defer endLee()
	s.Report(began(1, "kim"))
	s.Report(began(1, "kim")) // signals may merge, and nobody waits for who does not listen
	select {
	case <-kim:
	default:
		t.Error("no signal after a report")
	}
	select {
	case <-lee:
		t.Error("a signal of somebody else's report")
	default:
	}
	end()
	s.Report(began(2, "kim"))
	select {
	case <-kim:
		t.Error("a signal after the end")
	default:
	}
}
