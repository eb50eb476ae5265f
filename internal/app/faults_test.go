package app

import (
	"sync/atomic"
	"testing"

	"config-server/internal/testkit"
)

// farmOfFaults is what the tables share.
type farmOfFaults struct {
	prom             *testkit.PrometheusServer
	stands           atomic.Int64 // raised so far
	rows, unexpected atomic.Int64
}

// TestFaults has each step of each use case fail in each way its part can fail, on real parts, and
// holds answers, undo maps and what is left against the tables in testdata/faults and against what
// must hold whatever fails: a failed call leaves nothing, or a record of it; a map that says done is
// true; and when the fault is over one pass of recovery leaves everything whole or not there at all.
func TestFaults(t *testing.T) {
	t.Parallel()
	f := &farmOfFaults{prom: testkit.Prometheus(t, testkit.GoldenLoads())}
	t.Cleanup(func() { t.Logf("faults: %d rows, %d unexpected", f.rows.Load(), f.unexpected.Load()) })
	for name, table := range map[string]func(*testing.T, *farmOfFaults){
		"create-pod": faultsOfCreatePod, "create-pod shaped by templates": faultsOfShapedCreatePod, "create-pod with assigned GPUs": faultsOfAssigningCreatePod, "delete-pod": faultsOfDeletePod, "delete-pod of a pod that stays": faultsOfDeletePodThatStays,
		"migrate": faultsOfMigrate, "PUT user": faultsOfCreateUser, "DELETE user": faultsOfDeleteUser, "groups": faultsOfGroups,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table(t, f)
		})
	}
}
