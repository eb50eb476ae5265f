package nodeports_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/nodeports"
)

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
