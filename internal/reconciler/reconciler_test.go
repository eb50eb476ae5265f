package reconciler_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"config-server/internal/farm"
	"config-server/internal/reconciler"
)

const gone = farm.PodName("ailab-lee-0000000d")

// leftovers are the three things that go, each beside a workspace that stays.
var leftovers = []struct {
	name string
	kind reconciler.Kind
	add  func(f *fakeFarm, at time.Time)
	did  string
}{
	{"rows without a pod", reconciler.KindStaleRow, func(f *fakeFarm, at time.Time) { f.row("lee", gone, 30009, at) }, "release 30009"},
	{"a Service without a pod", reconciler.KindOrphanService, func(f *fakeFarm, at time.Time) { f.service("lee", gone, 30009, at) }, "service ailab-lee-ssh-30009"},
	{"a pod that does not run, without row and Service", reconciler.KindOrphanPod, func(f *fakeFarm, at time.Time) { f.pod("lee", gone, "Pending", at) }, "pod ailab-lee-0000000d"},
}

// pass makes n passes and returns the last report.
func pass(t *testing.T, r *reconciler.Reconciler, n int) reconciler.Report {
	t.Helper()
	var report reconciler.Report
	for range n {
		var err error
		if report, err = r.Pass(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	return report
}

func wantDid(t *testing.T, f *fakeFarm, want ...string) {
	t.Helper()
	if !slices.Equal(f.did, want) {
		t.Errorf("it did %q, want %q", f.did, want)
	}
}

func TestLeftoversGoWhenSeenTwice(t *testing.T) {
	t.Parallel()
	for _, tc := range leftovers {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFarm()
			f.workspace("kim", 30000)
			tc.add(f, old)
			r := f.reconciler()
			if first := pass(t, r, 1); first.Count(reconciler.ActionWait) != 1 || first.Findings[0].Kind != tc.kind {
				t.Errorf("first sight: %+v", first)
			}
			wantDid(t, f)
			if second := pass(t, r, 1); second.Count(reconciler.ActionDone) != 1 {
				t.Errorf("second sight: %+v", second)
			}
			wantDid(t, f, tc.did)
			if third := pass(t, r, 1); len(third.Findings) > 0 {
				t.Errorf("afterwards: %+v", third)
			}
			if len(f.pods) != 1 || len(f.services) != 1 || len(f.rows) != 1 || len(f.held) > 0 {
				t.Errorf("left: %v %v %v, locks %v", f.pods, f.services, f.rows, f.held)
			}
		})
	}
}

// Each guard on its own keeps everything, however often it is looked at.
func TestGuardsKeepEverything(t *testing.T) {
	t.Parallel()
	guards := []struct {
		name  string
		at    time.Time
		guard func(f *fakeFarm)
	}{
		{"it is within the grace", young, func(*fakeFarm) {}},
		{"its age is not known", time.Time{}, func(*fakeFarm) {}},
		{"an operation is under way", old, func(f *fakeFarm) { f.operations = []farm.Operation{{ID: "O", Pod: gone}} }},
		{"a migration is leaving it", old, func(f *fakeFarm) { f.operations = []farm.Operation{{ID: "O", Pod: "x", OldPod: gone}} }},
		{"a call of the user holds the lock", old, func(f *fakeFarm) { f.held[farm.UserLock("lee")] = true }},
		{"the table has no row at all", old, func(f *fakeFarm) { f.fail["Adopt"] = nil; f.rows = nil; f.services = keepUID(f.services, "uid-30009") }},
	}
	for _, g := range guards {
		for _, tc := range leftovers {
			if g.name == "the table has no row at all" && tc.kind == reconciler.KindStaleRow {
				continue // then there is none to go
			}
			t.Run(g.name+": "+tc.name, func(t *testing.T) {
				t.Parallel()
				f := newFarm()
				f.workspace("kim", 30000)
				tc.add(f, g.at)
				g.guard(f)
				pass(t, f.reconciler(), 4)
				wantDid(t, f)
			})
		}
	}
}

func keepUID(services []farm.Service, uid string) []farm.Service {
	return slices.DeleteFunc(services, func(s farm.Service) bool { return s.UID != uid })
}

// An error in any reading stops the pass before anything is removed.
func TestAReadingThatFailsRemovesNothing(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"List", "Rows", "Pods", "Services"} {
		for _, tc := range leftovers {
			t.Run(call+": "+tc.name, func(t *testing.T) {
				t.Parallel()
				f := newFarm()
				f.workspace("kim", 30000)
				tc.add(f, old)
				r := f.reconciler()
				pass(t, r, 1)
				f.fail[call] = errDown
				for range 3 {
					if _, err := r.Pass(t.Context(), false); !errors.Is(err, errDown) {
						t.Errorf("error %v", err)
					}
				}
				wantDid(t, f)
			})
		}
	}
}

// What is looked at again right before the removal has the last word.
func TestTheLastLookHasTheLastWord(t *testing.T) {
	t.Parallel()
	for _, tc := range leftovers {
		for name, comes := range map[string]func(f *fakeFarm){
			"an operation has begun":    func(f *fakeFarm) { f.operations = []farm.Operation{{ID: "O", Pod: gone}} },
			"the user is being changed": func(f *fakeFarm) { f.held[farm.UserLock("lee")] = true },
			"the pod is there and runs": func(f *fakeFarm) { f.pods = nil; f.pod("lee", gone, "Running", young) },
		} {
			t.Run(tc.name+": "+name, func(t *testing.T) {
				t.Parallel()
				f := newFarm()
				f.workspace("kim", 30000)
				tc.add(f, old)
				r := f.reconciler()
				pass(t, r, 1)
				// Services are read last: from the next lock on everything is a second look.
				read := false
				f.before = func(call string) {
					if call == "Services" {
						read = true
					} else if read && call == "TryLock" {
						f.before = nil
						comes(f)
					}
				}
				report := pass(t, r, 1)
				wantDid(t, f)
				if report.Count(reconciler.ActionDone) > 0 {
					t.Errorf("report %+v", report)
				}
			})
		}
	}
}

func TestAnOrphanPodWithRowOrServiceAfterAllStays(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]func(f *fakeFarm){
		"a row":     func(f *fakeFarm) { f.row("lee", gone, 30009, young) },
		"a Service": func(f *fakeFarm) { f.service("lee", gone, 30009, young) },
		"another pod of that name": func(f *fakeFarm) {
			f.pods[1].UID = "other"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFarm()
			f.workspace("kim", 30000)
			f.pod("lee", gone, "Pending", old)
			r := f.reconciler()
			pass(t, r, 1)
			f.before = func(call string) {
				if call == "Pod" {
					f.before = nil
					comes(f)
				}
			}
			pass(t, r, 1)
			wantDid(t, f)
		})
	}
}

func TestARunningPodIsNeverAnOrphan(t *testing.T) {
	t.Parallel()
	f := newFarm()
	f.workspace("kim", 30000)
	f.pod("lee", gone, "Running", old)
	report := pass(t, f.reconciler(), 3)
	wantDid(t, f)
	if len(report.Findings) != 1 || report.Findings[0].Kind != reconciler.KindBareRunning || report.Findings[0].Action != reconciler.ActionReported {
		t.Errorf("report %+v", report)
	}
}

func TestRowsStayWhileTheirServicesDo(t *testing.T) {
	t.Parallel()
	f := newFarm()
	f.workspace("kim", 30000)
	f.row("lee", gone, 30009, old)
	f.service("lee", gone, 30009, old)
	f.fail["DeleteService"] = errDown
	r := f.reconciler()
	pass(t, r, 1)
	if report, err := r.Pass(t.Context(), false); !errors.Is(err, errDown) || report.Count(reconciler.ActionFailed) != 1 {
		t.Errorf("report %+v, error %v", report, err)
	}
	wantDid(t, f)
	delete(f.fail, "DeleteService")
	pass(t, r, 1)
	wantDid(t, f, "service ailab-lee-ssh-30009")
	pass(t, r, 2)
	wantDid(t, f, "service ailab-lee-ssh-30009", "release 30009")
}

func TestMissingRowsAreWrittenFromServices(t *testing.T) {
	t.Parallel()
	t.Run("one row lost", func(t *testing.T) {
		t.Parallel()
		f := newFarm()
		f.workspace("kim", 30000)
		f.service("kim", f.pods[0].Name, 30001, young)
		report := pass(t, f.reconciler(), 1)
		wantDid(t, f, "row 30001 of "+string(f.pods[0].Name))
		if r := f.rows[1]; r.User != "kim" || r.Node != "farm5" || r.Port.Internal != 22 || report.Findings[0].Kind != reconciler.KindMissingRow {
			t.Errorf("row %+v, report %+v", r, report)
		}
	})
	t.Run("a fresh table, and nothing is removed beside", func(t *testing.T) {
		t.Parallel()
		f := newFarm()
		for i := range 5 {
			f.workspace(farm.UserName(fmt.Sprint("u", i)), 30000+i)
		}
		f.rows = nil
		f.pod("lee", gone, "Failed", old)
		r := f.reconciler()
		report := pass(t, r, 1)
		if len(f.rows) != 5 || len(f.did) != 5 || report.Count(reconciler.ActionReported) == 0 {
			t.Errorf("did %q, report %+v", f.did, report)
		}
		// With its rows back the table is believed again; the orphan starts at its first sight.
		pass(t, r, 1)
		if len(f.did) != 5 {
			t.Errorf("did %q", f.did)
		}
		pass(t, r, 1)
		if len(f.did) != 6 {
			t.Errorf("did %q", f.did)
		}
	})
	t.Run("another pod's row has the port", func(t *testing.T) {
		t.Parallel()
		f := newFarm()
		f.workspace("kim", 30000)
		lee := f.workspace("lee", 30001)
		f.rows[1].Port.External = 30009
		f.rows[0].Port.External = 30001
		report := pass(t, f.reconciler(), 2)
		conflicts := 0
		for _, finding := range report.Findings {
			if finding.Kind == reconciler.KindPortConflict && finding.Action == reconciler.ActionReported && finding.User == "lee" {
				conflicts++
			}
		}
		if conflicts != 1 || slices.Contains(f.did, "row 30001 of "+string(lee)) {
			t.Errorf("did %q, report %+v", f.did, report)
		}
	})
	t.Run("an operation is at the pod", func(t *testing.T) {
		t.Parallel()
		f := newFarm()
		pod := f.workspace("kim", 30000)
		f.service("kim", pod, 30001, young)
		f.operations = []farm.Operation{{ID: "O", Pod: pod}}
		pass(t, f.reconciler(), 3)
		wantDid(t, f)
	})
	t.Run("the table refuses", func(t *testing.T) {
		t.Parallel()
		f := newFarm()
		pod := f.workspace("kim", 30000)
		f.service("kim", pod, 30001, young)
		f.fail["Adopt"] = errDown
		report, err := f.reconciler().Pass(t.Context(), false)
		if !errors.Is(err, errDown) || report.Count(reconciler.ActionFailed) != 1 {
			t.Errorf("report %+v, error %v", report, err)
		}
	})
}

// Listings that would have most of the farm removed at once are more likely wrong than right.
func TestSuspiciousListingsRemoveNothing(t *testing.T) {
	t.Parallel()
	many := func(n int) *fakeFarm {
		f := newFarm()
		for i := range n {
			f.workspace(farm.UserName(fmt.Sprint("u", i)), 30000+i)
		}
		return f
	}
	for name, tc := range map[string]struct {
		farm *fakeFarm
		list func(f *fakeFarm)
	}{
		"no pod at all":            {many(3), func(f *fakeFarm) { f.pods = nil }},
		"a single workspace's pod": {many(1), func(f *fakeFarm) { f.pods = nil }},
		"no pod and no Service":    {many(3), func(f *fakeFarm) { f.pods, f.services = nil, nil }},
		"most of the pods":         {many(20), func(f *fakeFarm) { f.pods = f.pods[:8] }},
		"most pods and Services":   {many(20), func(f *fakeFarm) { f.pods, f.services = f.pods[:8], f.services[:8] }},
		"most rows and Services": {many(20), func(f *fakeFarm) {
			f.rows, f.services = f.rows[:8], f.services[:8]
			for i := range f.pods {
				f.pods[i].Phase = "Pending"
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := tc.farm
			tc.list(f)
			r := f.reconciler()
			report := pass(t, r, 3)
			wantDid(t, f)
			suspicious := slices.ContainsFunc(report.Findings, func(f reconciler.Finding) bool { return f.Kind == reconciler.KindSuspicious })
			if !suspicious {
				t.Errorf("report %+v", report)
			}
		})
	}
	t.Run("few of many do go", func(t *testing.T) {
		t.Parallel()
		f := many(20)
		f.pods, f.services = f.pods[:15], f.services[:15]
		pass(t, f.reconciler(), 2)
		if len(f.did) != 5 {
			t.Errorf("did %q", f.did)
		}
	})
	t.Run("a doubtful sight ends what was seen before it", func(t *testing.T) {
		t.Parallel()
		f := many(3)
		pods := f.pods
		f.row("lee", gone, 30009, old)
		r := f.reconciler()
		pass(t, r, 1)
		f.pods = nil
		pass(t, r, 1)
		f.pods = pods
		pass(t, r, 1)
		wantDid(t, f)
		pass(t, r, 1)
		wantDid(t, f, "release 30009")
	})
}

// While an operation is at a thing it is not seen as left over at all.
func TestBusyThingsAreNotSeen(t *testing.T) {
	t.Parallel()
	for _, tc := range leftovers {
		for name, operation := range map[string]farm.Operation{
			"made or deleted": {ID: "O", Pod: gone}, "left by a migration": {ID: "O", Pod: "ailab-lee-0000000e", OldPod: gone},
		} {
			t.Run(tc.name+": "+name, func(t *testing.T) {
				t.Parallel()
				f := newFarm()
				f.workspace("kim", 30000)
				tc.add(f, old)
				f.operations = []farm.Operation{operation}
				r := f.reconciler()
				if report := pass(t, r, 2); len(report.Findings) > 0 {
					t.Errorf("report %+v", report)
				}
				f.operations = nil
				pass(t, r, 1)
				wantDid(t, f)
				pass(t, r, 1)
				wantDid(t, f, tc.did)
			})
		}
	}
}

func TestAPodThatIsGoingIsLeftToItself(t *testing.T) {
	t.Parallel()
	f := newFarm()
	f.workspace("kim", 30000)
	f.pod("lee", gone, "Pending", old)
	f.pods[1].Terminating = true
	pass(t, f.reconciler(), 3)
	wantDid(t, f)
}

// A thing that comes and goes between two sights is another thing.
func TestTwoSightsMustBeOfOneThing(t *testing.T) {
	t.Parallel()
	f := newFarm()
	f.workspace("kim", 30000)
	f.service("lee", gone, 30009, old)
	r := f.reconciler()
	pass(t, r, 1)
	f.services[1].UID = "another"
	pass(t, r, 1)
	wantDid(t, f)
}
