package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// crashGPUs maps each pod to the GPUs that it was given, as "index of node".
type crashGPUs map[string][]string

func (f *crashFarm) readGPUs(ctx context.Context) (crashGPUs, error) {
	result, err := f.db.QueryContext(ctx, "SELECT pod_name, node_name, gpu_index FROM config_server_gpus ORDER BY gpu_index")
	if err != nil {
		return nil, err
	}
	defer func() { _ = result.Close() }()
	gpus := crashGPUs{}
	for result.Next() {
		var pod, node string
		var index int
		if err := result.Scan(&pod, &node, &index); err != nil {
			return nil, err
		}
		gpus[pod] = append(gpus[pod], fmt.Sprintf("%d of %s", index, node))
	}
	return gpus, result.Err()
}

// strays are GPUs of pods that are not there, and of two pods.
func (g crashGPUs) strays(pods map[string]bool) []string {
	var strays []string
	holders := map[string]string{}
	for pod, gpus := range g {
		if !pods[pod] {
			strays = append(strays, fmt.Sprintf("GPUs %q of pod %s, which is gone", gpus, pod))
		}
		for _, gpu := range gpus {
			if other := holders[gpu]; other != "" {
				strays = append(strays, fmt.Sprintf("GPU %s of pods %s and %s", gpu, pod, other))
			}
			holders[gpu] = pod
		}
	}
	return strays
}

// TestAssignmentCrashes kills the service at the points that only the assignment of GPUs has, and at every
// crashSample-th other one (CRASH_ALL=1: at all of them).
func TestAssignmentCrashes(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "crash matrix", "golang", "go")
	f := newCrashFarm(t, world.Options{Env: map[string]string{"GPU_ASSIGNMENT": "exclusive"}})
	loads := testkit.GoldenLoads()
	for node, gpus := range loads {
		loads[node] = slices.Concat(gpus, gpus, gpus, gpus) // room for two workspaces of everybody
	}
	f.world.Prom.SetLoads(t, loads)
	for i, c := range slices.Concat(workspaceCrashes(), migrationCrashes()[:1]) {
		pictures, points := f.discover(t, c)
		own := 0
		for at, point := range points {
			isOwn := strings.Contains(strings.ToLower(point), "gpus/")
			if isOwn {
				own++
			}
			if isOwn || crashChosen(at+5*i) {
				f.try(t, c, pictures, point)
			}
		}
		if own == 0 {
			t.Errorf("%s passes no point of its own among %q", c.name, points)
		}
	}
	t.Logf("crash: %d points tried, %d leftovers, %d retries succeeded", f.tried, f.leftovers, f.retries)
	if f.tried == 0 || f.retries != f.tried || f.leftovers > 0 {
		t.Error("not every point left everything whole")
	}
}
