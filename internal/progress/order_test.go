package progress_test

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/progress"
	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
)

// looks are the ways to look at an operation of kim's, each in one line.
var looks = map[string]func(context.Context, *progress.Store) (string, error){
	"Operations": func(ctx context.Context, s *progress.Store) (string, error) {
		all, err := s.Operations(ctx, "kim", 10)
		return summary(all), err
	},
	"UnderWay": func(ctx context.Context, s *progress.Store) (string, error) {
		all, err := s.UnderWay(ctx)
		return summary(all), err
	},
	"Get": func(ctx context.Context, s *progress.Store) (string, error) {
		p, found, err := s.Get(ctx, id(1))
		if !found {
			return "", err
		}
		return summary([]farm.Progress{p}), err
	},
	"Status": func(ctx context.Context, s *progress.Store) (string, error) {
		status, err := progress.NewView(s, &cluster{pods: []farm.Pod{pod("ailab-kim-00000001")}}).Status(ctx, "kim")
		return "1 " + string(status.Stage) + " " + status.Message, err
	},
}

// What waits to be written is written, and forgotten here, right after the rows were read: it must
// still be told, or a status goes back, and a stream takes the operation for gone.
func TestAWriteDuringALookTakesNothingBack(t *testing.T) {
	t.Parallel()
	for name, look := range looks {
		for known, before := range map[string][]farm.Progress{"written before": {began(1, "kim")}, "never written": nil} {
			t.Run(name+" "+known, func(t *testing.T) {
				t.Parallel()
				databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
					var s *progress.Store
					var armed atomic.Bool
					db := place.Open(t, database.Called(func(ctx context.Context, _ string, _ time.Duration, _ error) {
						if armed.CompareAndSwap(true, false) {
							if err := s.Stop(ctx); err != nil {
								t.Error(err)
							}
						}
					}))
					s = progress.New(db, progress.Options{Window: never})
					write(t, s, before...)
					newer := began(1, "kim")
					newer.Stage, newer.Message = farm.StageCreatingPod, "further"
					s.Report(newer)
					armed.Store(true)
					if got, err := look(t.Context(), s); got != "1 creating_pod further" || err != nil {
						t.Errorf("told %q, %v", got, err)
					}
					if armed.Load() {
						t.Error("nothing was written during the look")
					}
				})
			})
		}
	}
}

// An operation ends, and its end is written, right before the rows are read. The end counts, also
// where the clock stands still or goes back.
func TestAnEndDuringALookIsSeen(t *testing.T) {
	t.Parallel()
	want := map[string]string{"Operations": "1 ready stands", "UnderWay": "", "Get": "1 ready stands", "Status": "1 ready stands"}
	for name, look := range looks {
		for of, step := range map[string]time.Duration{"a clock that goes": time.Second, "one that stands": 0, "one that goes back": -time.Hour} {
			t.Run(name+" with "+of, func(t *testing.T) {
				t.Parallel()
				server := testkit.MariaDB(t)
				proxy := faultproxy.NewMySQL(t, net.JoinHostPort(server.Host, strconv.Itoa(server.Port)))
				through := *server
				through.Host, through.Port = proxy.Host, proxy.Port
				var ticks atomic.Int64
				s := store(t, databasetest.On(&through, server.NewDatabase(t)), progress.Options{Window: never, Now: func() time.Time {
					return begin.Add(time.Duration(ticks.Add(1)) * step)
				}})
				write(t, s, ended(2, "lee", farm.StageReady)) // the tables are made by now
				s.Report(began(1, "kim"))
				end := ended(1, "kim", farm.StageReady)
				end.Message = "stands"
				proxy.Fail(faultproxy.SQLFault{Match: "SELECT id, kind", Times: 1, Hook: func() {
					s.Report(end)
					if err := s.Stop(t.Context()); err != nil {
						t.Error(err)
					}
				}})
				got, err := look(t.Context(), s)
				if got != want[name] || err != nil {
					t.Errorf("told %q, %v, want %q", got, err, want[name])
				}
				if proxy.Hits()[0] != 1 {
					t.Error("nothing ended during the look")
				}
			})
		}
	}
}
