package nodeports_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/nodeports"
	"config-server/internal/testkit"
)

func TestHundredAtOnceGetDistinctPorts(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		// Two pools stand for two replicas; the table does not exist yet.
		replicas := []*nodeports.Allocator{
			nodeports.New(place.Open(t), nodeports.Options{}),
			nodeports.New(place.Open(t), nodeports.Options{}),
		}
		const callers, each = 100, 2
		var mu sync.Mutex
		owners := map[int]string{}
		var group sync.WaitGroup
		for i := range callers {
			user := fmt.Sprintf("user%03d", i)
			group.Go(func() {
				ports, err := replicas[i%2].Reserve(t.Context(), owner(user), wants(each), nil)
				if err != nil {
					t.Errorf("%s: %v", user, err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, port := range ports {
					if other, twice := owners[port.External]; twice {
						t.Errorf("port %d went to %s and %s", port.External, other, user)
					}
					owners[port.External] = user
				}
			})
		}
		group.Wait()
		if len(owners) != callers*each {
			t.Errorf("%d ports, want %d", len(owners), callers*each)
		}
		for port := 30000; port < 30000+callers*each; port++ {
			if owners[port] == "" {
				t.Errorf("port %d was left out: ports are given lowest first", port)
			}
		}
	})
}

func TestReserveAndReleaseCrossingLeaveNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		replicas := []*nodeports.Allocator{
			nodeports.New(place.Open(t), nodeports.Options{}),
			nodeports.New(place.Open(t), nodeports.Options{}),
		}
		var group sync.WaitGroup
		for i := range 16 {
			user := fmt.Sprintf("user%03d", i)
			a := replicas[i%2]
			group.Go(func() {
				for range 8 {
					if _, err := a.Reserve(t.Context(), owner(user), wants(3), nil); err != nil {
						t.Errorf("%s: %v", user, err)
						return
					}
					n, err := a.Release(t.Context(), owner(user).Pod)
					if err != nil || n != 3 {
						t.Errorf("%s: released %d, %v; want 3", user, n, err)
					}
				}
			})
		}
		group.Wait()
		wantHolders(t, replicas[0])
	})
}

func TestReserveWithoutAnAnswerToItsCommit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cut func(*databasetest.CommitCutter, int)
	}{
		"it was kept": {(*databasetest.CommitCutter).CutAfter},
		"it was lost": {(*databasetest.CommitCutter).CutBefore},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.MariaDB(t)
			cutter := databasetest.NewCommitCutter(t, net.JoinHostPort(server.Host, strconv.Itoa(server.Port)))
			a := nodeports.New(cutter.Place(server, server.NewDatabase(t)).Open(t), nodeports.Options{})
			reserve(t, a, "lee", 1)
			test.cut(cutter, 1)
			wantPorts(t, reserve(t, a, "kim", 2), 30001, 30002)
			wantHolders(t, a, "30000 lee", "30001 kim", "30002 kim")
			test.cut(cutter, 1)
			if got := release(t, a, "kim"); got != 2 {
				t.Errorf("released %d rows, want 2", got)
			}
			wantHolders(t, a, "30000 lee")
		})
	}
}

func TestAWriterThatKnowsNoLockCannotDoubleAPort(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	name := server.NewDatabase(t)
	var mu sync.Mutex
	var reasons []string
	other := server.Open(t, name)
	db := databasetest.On(server, name).Open(t, database.Retried(func(_ context.Context, _, reason string) {
		mu.Lock()
		defer mu.Unlock()
		reasons = append(reasons, reason)
	}))
	a := nodeports.New(db, nodeports.Options{})
	reserve(t, a, "lee", 1)
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port)
		VALUES ('park', 'ailab-park-00000000', 'farm6', 22, 30001)`); err != nil {
		t.Fatal(err)
	}
	got := make(chan []int)
	go func() {
		ports, err := a.Reserve(t.Context(), owner("kim"), wants(2), nil)
		if err != nil {
			t.Error(err)
		}
		got <- external(ports)
	}()
	// Our insert now waits for the other's row; when that is kept, ours is a duplicate.
	testkit.WaitFor(t, 10*time.Second, "our insert to wait", func(ctx context.Context) error {
		var waiting int
		err := other.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE db = ? AND info LIKE 'INSERT INTO nodeport%'", name).Scan(&waiting)
		if err == nil && waiting == 0 {
			err = errors.New("nobody waits")
		}
		return err
	})
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	wantPorts(t, <-got, 30002, 30003)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Contains(reasons, database.ReasonDuplicate) {
		t.Errorf("retried = %q, want a duplicate key", reasons)
	}
}

func TestWaitingForOthersEndsWithTheContext(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		a := nodeports.New(place.Open(t), nodeports.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name, call := range map[string]func() error{
			"Reserve": func() error { _, err := a.Reserve(ctx, owner("kim"), wants(1), nil); return err },
			"Replace": func() error {
				_, err := a.Replace(ctx, owner("kim"), farm.Port{External: 30000}, nil)
				return err
			},
			"Release":     func() error { _, err := a.Release(ctx, owner("kim").Pod); return err },
			"ReleaseRows": func() error { _, err := a.ReleaseRows(ctx, []farm.Row{{ID: 1}}); return err },
			"Adopt":       func() error { _, err := a.Adopt(ctx, []farm.Row{{}}); return err },
			"Rows":        func() error { _, err := a.Rows(ctx); return err },
			"RowsOf":      func() error { _, err := a.RowsOf(ctx, "p"); return err },
			"Reserved":    func() error { _, err := a.Reserved(ctx); return err },
		} {
			if err := call(); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: error = %v, want the context's", name, err)
			}
		}
		wantHolders(t, a)
	})
}
