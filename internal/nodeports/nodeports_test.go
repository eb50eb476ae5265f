package nodeports_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/nodeports"
	"config-server/internal/testkit"
)

func owner(user string) nodeports.Owner {
	return nodeports.Owner{User: farm.UserName(user), Pod: farm.PodName("ailab-" + user + "-00000000"), Node: "farm5"}
}

func wants(n int) []farm.PortWant {
	additional := make([]farm.PortWant, n)
	for i := range additional {
		additional[i] = farm.PortWant{Internal: 6000 + i, Purpose: "custom"}
	}
	return additional
}

func reserve(t *testing.T, a *nodeports.Allocator, user string, n int, taken ...int) []int {
	t.Helper()
	ports, err := a.Reserve(t.Context(), owner(user), wants(n), set(taken))
	if err != nil {
		t.Fatal(err)
	}
	return external(ports)
}

func set(ports []int) map[int]bool {
	all := map[int]bool{}
	for _, port := range ports {
		all[port] = true
	}
	return all
}

func external(ports []farm.Port) []int {
	var all []int
	for _, port := range ports {
		all = append(all, port.External)
	}
	return all
}

func rows(t *testing.T, a *nodeports.Allocator) []farm.Row {
	t.Helper()
	all, err := a.Rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// holders lists the rows as "port user".
func holders(t *testing.T, a *nodeports.Allocator) []string {
	t.Helper()
	all := []string{}
	for _, row := range rows(t, a) {
		all = append(all, fmt.Sprintf("%d %s", row.Port.External, row.User))
	}
	return all
}

func wantHolders(t *testing.T, a *nodeports.Allocator, want ...string) {
	t.Helper()
	if got := holders(t, a); !slices.Equal(got, want) {
		t.Errorf("rows = %q, want %q", got, want)
	}
}

func wantPorts(t *testing.T, got []int, want ...int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("ports = %v, want %v", got, want)
	}
}

func TestReserveGivesTheLowestFreePortsInOrder(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		a := nodeports.New(place.Open(t), nodeports.Options{})
		got, err := a.Reserve(t.Context(), owner("kim"), farm.WantedPorts([]farm.PortWant{{Internal: 6006, Purpose: "tensorboard"}}), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := []farm.Port{
			{Internal: 22, External: 30000, Purpose: "ssh"},
			{Internal: 8888, External: 30001, Purpose: "jupyter"},
			{Internal: 6006, External: 30002, Purpose: "tensorboard"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ports (-want +got):\n%s", diff)
		}
		wantPorts(t, reserve(t, a, "lee", 2, 30003, 30005), 30004, 30006)
		if _, err := a.Release(t.Context(), owner("kim").Pod); err != nil {
			t.Fatal(err)
		}
		wantPorts(t, reserve(t, a, "park", 4, 30003, 30005), 30000, 30001, 30002, 30007)
		wantPorts(t, reserve(t, a, "none", 0))
	})
}

func TestReservedRowsSayWhoseTheyAre(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		a := nodeports.New(place.Open(t), nodeports.Options{})
		reserve(t, a, "kim", 2)
		reserve(t, a, "lee", 1)
		got, err := a.RowsOf(t.Context(), owner("kim").Pod)
		if err != nil {
			t.Fatal(err)
		}
		row := farm.Row{User: "kim", Pod: owner("kim").Pod, Node: "farm5"}
		first, second := row, row
		first.Port = farm.Port{Internal: 6000, External: 30000, Purpose: "custom"}
		second.Port = farm.Port{Internal: 6001, External: 30001, Purpose: "custom"}
		if diff := cmp.Diff([]farm.Row{first, second}, got, cmpopts.IgnoreFields(farm.Row{}, "ID", "CreatedAt")); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
		for _, row := range got {
			if row.ID == 0 || row.CreatedAt.IsZero() || row.CreatedAt.Location().String() != "UTC" {
				t.Errorf("row %+v lacks an id or a time in UTC", row)
			}
		}
		none, err := a.RowsOf(t.Context(), "ailab-nobody-00000000")
		if err != nil || len(none) != 0 {
			t.Errorf("rows of nobody = %v, %v; want none", none, err)
		}
	})
}

func TestReserveIsAllOrNothingWhenPortsRunOut(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		a := nodeports.New(place.Open(t), nodeports.Options{Min: 30000, Max: 30003})
		reserve(t, a, "kim", 2)
		_, err := a.Reserve(t.Context(), owner("lee"), wants(3), nil)
		if !errors.Is(err, farm.ErrPortsExhausted) || !strings.Contains(err.Error(), "ailab-lee-00000000") {
			t.Errorf("error = %v, want exhausted ports, with the pod's name", err)
		}
		wantHolders(t, a, "30000 kim", "30001 kim")
		used, free, err := a.Usage(t.Context())
		if err != nil || used != 2 || free != 2 {
			t.Errorf("usage = %d, %d, %v; want 2, 2", used, free, err)
		}
		wantPorts(t, reserve(t, a, "lee", 2), 30002, 30003)
		if _, err := a.Reserve(t.Context(), owner("park"), wants(1), nil); !errors.Is(err, farm.ErrPortsExhausted) {
			t.Errorf("error = %v, want exhausted ports", err)
		}
	})
}

func TestRowsOutsideTheRangeAreSeenAndCountForNothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		db := place.Open(t)
		wide := nodeports.New(db, nodeports.Options{})
		reserve(t, wide, "kim", 2)
		narrow := nodeports.New(db, nodeports.Options{Min: 30001, Max: 30002})
		wantPorts(t, reserve(t, narrow, "lee", 1), 30002)
		wantHolders(t, narrow, "30000 kim", "30001 kim", "30002 lee")
		if used, free, err := narrow.Usage(t.Context()); err != nil || used != 2 || free != 0 {
			t.Errorf("usage = %d, %d, %v; want 2, 0", used, free, err)
		}
	})
}

func TestReplace(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		max   int
		setup func(t *testing.T, a *nodeports.Allocator)
		old   int
		taken []int
		want  int // 0 = exhausted
		rows  []string
	}{
		"the next free one": {30009, func(t *testing.T, a *nodeports.Allocator) { reserve(t, a, "kim", 2) }, 30000, nil, 30002,
			[]string{"30001 kim", "30002 kim"}},
		"what is taken is skipped": {30009, func(t *testing.T, a *nodeports.Allocator) { reserve(t, a, "kim", 1) }, 30000, []int{30001, 30002}, 30003,
			[]string{"30003 kim"}},
		"not a lower one that came free": {30009, func(t *testing.T, a *nodeports.Allocator) {
			reserve(t, a, "lee", 1)
			reserve(t, a, "kim", 1)
			release(t, a, "lee")
		}, 30001, nil, 30002, []string{"30002 kim"}},
		"a lower one when there is none above": {30002, func(t *testing.T, a *nodeports.Allocator) {
			reserve(t, a, "lee", 2)
			reserve(t, a, "kim", 1)
			release(t, a, "lee")
		}, 30002, []int{30000}, 30001, []string{"30001 kim"}},
		"none left": {30001, func(t *testing.T, a *nodeports.Allocator) { reserve(t, a, "kim", 2) }, 30001, nil, 0,
			[]string{"30000 kim", "30001 kim"}},
		"the row is gone": {30009, func(*testing.T, *nodeports.Allocator) {}, 30004, nil, 30005,
			[]string{"30005 kim"}},
		"the old port has somebody else's row": {30009, func(t *testing.T, a *nodeports.Allocator) { reserve(t, a, "lee", 1) }, 30000, nil, 30001,
			[]string{"30000 lee", "30001 kim"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
				a := nodeports.New(place.Open(t), nodeports.Options{Max: test.max})
				test.setup(t, a)
				old := farm.Port{Internal: 6000, External: test.old, Purpose: "한글"}
				got, err := a.Replace(t.Context(), owner("kim"), old, set(test.taken))
				if test.want == 0 {
					if !errors.Is(err, farm.ErrPortsExhausted) {
						t.Errorf("error = %v, want exhausted ports", err)
					}
				} else if want := (farm.Port{Internal: 6000, External: test.want, Purpose: "한글"}); err != nil || got != want {
					t.Errorf("port = %v, %v; want %v", got, err, want)
				}
				wantHolders(t, a, test.rows...)
			})
		})
	}
}

func release(t *testing.T, a *nodeports.Allocator, user string) int {
	t.Helper()
	n, err := a.Release(t.Context(), owner(user).Pod)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestReleaseIsSafeToRepeat(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		a := nodeports.New(place.Open(t), nodeports.Options{})
		reserve(t, a, "kim", 3)
		reserve(t, a, "lee", 1)
		for i, want := range []int{3, 0, 0} {
			if got := release(t, a, "kim"); got != want {
				t.Errorf("release %d removed %d rows, want %d", i+1, got, want)
			}
		}
		wantHolders(t, a, "30003 lee")
	})
}

func TestReleaseRowsTakesOnlyWhatIsStillAsItWasRead(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		a := nodeports.New(place.Open(t), nodeports.Options{})
		reserve(t, a, "kim", 3)
		read := rows(t, a)
		if _, err := a.Replace(t.Context(), owner("kim"), read[1].Port, nil); err != nil {
			t.Fatal(err)
		}
		foreign := read[2]
		foreign.Pod = "ailab-lee-00000000"
		n, err := a.ReleaseRows(t.Context(), []farm.Row{read[0], read[1], foreign})
		if err != nil || n != 1 {
			t.Errorf("released %d rows, %v; want 1", n, err)
		}
		wantHolders(t, a, "30002 kim", "30003 kim")
	})
}

func TestAdoptWritesMissingRowsAndReportsForeignOnes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		a := nodeports.New(place.Open(t), nodeports.Options{})
		reserve(t, a, "kim", 2)
		live := func(user string, port int) farm.Row {
			o := owner(user)
			return farm.Row{User: o.User, Pod: o.Pod, Node: o.Node, Port: farm.Port{Internal: 22, External: port, Purpose: "ssh"}}
		}
		n, err := a.Adopt(t.Context(), []farm.Row{live("kim", 30000), live("lee", 30001), live("park", 30005), live("park", 31000), live("choi", 31000)})
		if n != 2 {
			t.Errorf("adopted %d rows, want 2", n)
		}
		if !errors.Is(err, farm.ErrOwner) {
			t.Fatalf("error = %v, want foreign rows", err)
		}
		for _, text := range []string{"30001", "ailab-lee-00000000", "ailab-kim-00000000", "31000", "ailab-choi-00000000", "ailab-park-00000000"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("error %q does not name %s", err, text)
			}
		}
		wantHolders(t, a, "30000 kim", "30001 kim", "30005 park", "31000 park")
		if n, err := a.Adopt(t.Context(), nil); n != 0 || err != nil {
			t.Errorf("adopting nothing = %d, %v", n, err)
		}
	})
}

func TestRowsKeepTheTextOfAPurpose(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("긴", 300)
	emoji := "모델 🚀 서버"
	tests := map[string]struct {
		table string // empty = our own
		in    string
		want  string
	}{
		"Korean":                                   {"", "내 웹 서버", "내 웹 서버"},
		"an emoji":                                 {"", emoji, emoji},
		"long text is cut by characters":           {"", long, strings.Repeat("긴", 255)},
		"no UTF-8":                                 {"", "a\xffb", "a\uFFFDb"},
		"quotes and NUL":                           {"", "a'b\\\"\x00c", "a'b\\\"\x00c"},
		"a table in utf8mb3 has no emoji":          {"CHARSET utf8mb3", emoji, farm.PurposeLabel(emoji)},
		"a table in utf8mb3 has Korean":            {"CHARSET utf8mb3", "웹 서버", "웹 서버"},
		"a table in latin1 has no Korean":          {"CHARSET latin1", "웹 서버", farm.PurposeLabel("웹 서버")},
		"a table in latin1 has plain text":         {"CHARSET latin1", "web server", "web server"},
		"a table with a shorter column, Korean":    {"short", long, farm.PurposeLabel(long)},
		"a table with a shorter column, fits well": {"short", "ssh", "ssh"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(t *testing.T, db *database.DB) {
				a := nodeports.New(db, nodeports.Options{})
				ports, err := a.Reserve(t.Context(), owner("kim"), []farm.PortWant{{Internal: 22, Purpose: "ssh"}, {Internal: 80, Purpose: test.in}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if ports[1].Purpose != test.in {
					t.Errorf("answer = %q, want the text as it was asked", ports[1].Purpose)
				}
				all := rows(t, a)
				if len(all) != 2 || all[0].Port.Purpose != "ssh" || all[1].Port.Purpose != test.want {
					t.Errorf("rows = %+v, want purposes ssh and %q", all, test.want)
				}
			}
			if test.table == "" {
				databasetest.Each(t, func(t *testing.T, place databasetest.Place) { check(t, place.Open(t)) })
				return
			}
			server := testkit.MariaDB(t)
			name := server.NewDatabase(t)
			handMade(t, server.Open(t, name), test.table)
			check(t, databasetest.On(server, name).Open(t))
		})
	}
}

func handMade(t *testing.T, db *sql.DB, kind string) {
	t.Helper()
	length, options := 255, kind
	if kind == "short" {
		length, options = 100, ""
	}
	_, err := db.ExecContext(t.Context(), fmt.Sprintf(`CREATE TABLE nodeport_allocations (
		id INT AUTO_INCREMENT PRIMARY KEY, username VARCHAR(255), pod_name VARCHAR(255), node_name VARCHAR(255),
		internal_port INT, node_port INT UNIQUE, purpose VARCHAR(%d) NULL, created_at DATETIME DEFAULT CURRENT_TIMESTAMP) %s`, length, options))
	if err != nil {
		t.Fatal(err)
	}
}

func TestHandMadeRowsWithNullsCanBeRead(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	name := server.NewDatabase(t)
	look := server.Open(t, name)
	handMade(t, look, "")
	_, err := look.ExecContext(t.Context(), `INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port, purpose, created_at)
		VALUES ('kim', 'ailab-kim-00000000', 'farm5', 22, 30000, NULL, NULL)`)
	if err != nil {
		t.Fatal(err)
	}
	a := nodeports.New(databasetest.On(server, name).Open(t), nodeports.Options{})
	wantHolders(t, a, "30000 kim")
	wantPorts(t, reserve(t, a, "lee", 1), 30001)
}

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
	db := databasetest.On(server, name).Open(t, database.Retried(func(_, reason string) {
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
			"Usage":       func() error { _, _, err := a.Usage(ctx); return err },
		} {
			if err := call(); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: error = %v, want the context's", name, err)
			}
		}
		wantHolders(t, a)
	})
}

// TestAgainstAModel does random calls on the allocator and on a plain map, and compares.
func TestAgainstAModel(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		const first, last, rounds = 30000, 30019, 300
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		a := nodeports.New(place.Open(t), nodeports.Options{Min: first, Max: last})
		model := map[int]string{}
		free := func(port int, taken map[int]bool) bool { return model[port] == "" && !taken[port] }
		for round := range rounds {
			user := "user" + strconv.Itoa(random.IntN(5))
			taken := map[int]bool{}
			for range random.IntN(4) {
				taken[first+random.IntN(20)] = true
			}
			switch random.IntN(4) {
			case 0, 1:
				n := 1 + random.IntN(4)
				var want []int
				for port := first; port <= last && len(want) < n; port++ {
					if free(port, taken) {
						want = append(want, port)
					}
				}
				got, err := a.Reserve(t.Context(), owner(user), wants(n), taken)
				if len(want) < n {
					want = nil
					if !errors.Is(err, farm.ErrPortsExhausted) {
						t.Fatalf("round %d: error = %v, want exhausted ports", round, err)
					}
				} else if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				wantPorts(t, external(got), want...)
				for _, port := range want {
					model[port] = user
				}
			case 2:
				want := 0
				for port, holder := range model {
					if holder == user {
						delete(model, port)
						want++
					}
				}
				if got := release(t, a, user); got != want {
					t.Fatalf("round %d: released %d rows, want %d", round, got, want)
				}
			case 3:
				old := first + random.IntN(20)
				if model[old] != user {
					continue
				}
				want := 0
				for i := 1; i < 20 && want == 0; i++ {
					if port := first + (old-first+i)%20; free(port, taken) {
						want = port
					}
				}
				got, err := a.Replace(t.Context(), owner(user), farm.Port{External: old}, taken)
				if want == 0 {
					if !errors.Is(err, farm.ErrPortsExhausted) {
						t.Fatalf("round %d: error = %v, want exhausted ports", round, err)
					}
					continue
				}
				if err != nil || got.External != want {
					t.Fatalf("round %d: replaced %d by %d, %v; want %d", round, old, got.External, err, want)
				}
				delete(model, old)
				model[want] = user
			}
			want := []string{}
			for port := first; port <= last; port++ {
				if model[port] != "" {
					want = append(want, fmt.Sprintf("%d %s", port, model[port]))
				}
			}
			if diff := cmp.Diff(want, holders(t, a)); diff != "" {
				t.Fatalf("round %d: rows (-want +got):\n%s", round, diff)
			}
		}
	})
}

func BenchmarkReserve(b *testing.B) {
	for name, place := range map[string]func(testing.TB) databasetest.Place{"SQLite": databasetest.SQLite, "MariaDB": databasetest.MariaDB} {
		for _, rows := range []int{0, 2600} {
			b.Run(fmt.Sprintf("%s/rows=%d", name, rows), func(b *testing.B) {
				a := nodeports.New(place(b).Open(b), nodeports.Options{})
				if rows > 0 {
					if _, err := a.Reserve(b.Context(), owner("full"), wants(rows), nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := a.Reserve(b.Context(), owner("kim"), wants(2), nil); err != nil {
						b.Fatal(err)
					}
					if _, err := a.Release(b.Context(), owner("kim").Pod); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
