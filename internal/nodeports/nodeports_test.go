package nodeports_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/nodeports"
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
		if got, err := a.Reserved(t.Context()); err != nil || !slices.Equal(got, []int{30000, 30001}) {
			t.Errorf("reserved = %v, %v; want 30000 and 30001", got, err)
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
		if got, err := narrow.Reserved(t.Context()); err != nil || !slices.Equal(got, []int{30001, 30002}) {
			t.Errorf("reserved = %v, %v; want 30001 and 30002", got, err)
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
