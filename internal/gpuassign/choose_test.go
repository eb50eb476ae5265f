package gpuassign

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"config-server/internal/farm"
)

type (
	gpus    = map[int]float64
	devices = map[farm.NodeName]map[int]float64
)

func four() gpus { return gpus{0: 0, 1: 0, 2: 0, 3: 0} }

// has is a workspace of a user on a node with these GPUs.
func has(user string, node farm.NodeName, phase string, indexes ...int) farm.Pod {
	return farm.Pod{Name: farm.PodName("ailab-" + user), User: farm.UserName(user), Node: node, Phase: phase, GPUIndexes: farm.NewGPUSet(indexes...)}
}

// given are the rows of a user's workspace.
func given(user string, node farm.NodeName, indexes ...int) []farm.GPURow {
	var rows []farm.GPURow
	for _, index := range indexes {
		rows = append(rows, farm.GPURow{User: farm.UserName(user), Pod: farm.PodName("ailab-" + user), Node: node, Index: index})
	}
	return rows
}

func TestAssignmentChoosesGPUs(t *testing.T) {
	t.Parallel()
	on := func(node farm.NodeName, count int) farm.GPUWish { return farm.GPUWish{Node: node, Count: count} }
	one := []farm.GPUWish{on("a", 1)}
	both := []farm.GPUWish{on("a", 2), on("b", 2)}
	for name, tc := range map[string]struct {
		mode   Mode
		wishes []farm.GPUWish
		told   devices
		pods   []farm.Pod
		rows   []farm.GPURow
		want   string // node and indexes
		says   []string
	}{
		"the lowest of equals": {Exclusive, one, devices{"a": four()}, nil, nil, "a 0", nil},
		"none is wanted":       {Exclusive, []farm.GPUWish{on("a", 0), on("b", 1)}, devices{"a": four(), "b": four()}, nil, nil, "a ", nil},
		"the least busy":       {Exclusive, both, devices{"a": gpus{0: 90, 1: 10, 2: 0, 3: 50}}, nil, nil, "a 1,2", nil},
		"one that does not say how busy it is comes last": {Exclusive, both, devices{"a": gpus{0: math.Inf(1), 1: 100, 2: 100}}, nil, nil, "a 1,2", nil},
		"exclusive: not one that is mounted":              {Exclusive, one, devices{"a": four()}, []farm.Pod{has("kim", "a", "Running", 0, 1)}, nil, "a 2", nil},
		"exclusive: not one that is assigned":             {Exclusive, one, devices{"a": four()}, nil, given("kim", "a", 0, 2), "a 1", nil},
		"exclusive: one of another node is free here":     {Exclusive, one, devices{"a": four()}, []farm.Pod{has("kim", "b", "Running", 0)}, given("lee", "b", 1), "a 0", nil},
		"exclusive: a pod that is pending or terminating has it": {Exclusive, one, devices{"a": four()},
			[]farm.Pod{has("kim", "a", "Pending", 0), {Name: "p", Node: "a", Phase: "Running", Terminating: true, GPUIndexes: farm.NewGPUSet(1)}}, nil, "a 2", nil},
		"exclusive: one that has ended has none":         {Exclusive, one, devices{"a": four()}, []farm.Pod{has("kim", "a", "Failed", 0), has("lee", "a", "Succeeded", 1)}, nil, "a 0", nil},
		"exclusive: busy and free before idle and taken": {Exclusive, one, devices{"a": gpus{0: 0, 1: 99}}, []farm.Pod{has("kim", "a", "Running", 0)}, nil, "a 1", nil},
		"exclusive: the next node":                       {Exclusive, both, devices{"a": four(), "b": four()}, []farm.Pod{has("kim", "a", "Running", 0, 1, 3)}, nil, "b 0,1", nil},
		"exclusive: nowhere": {Exclusive, both, devices{"a": four(), "b": gpus{0: 0}}, []farm.Pod{has("kim", "a", "Running", 0, 1)}, given("lee", "a", 3, 1), "",
			[]string{"not enough GPUs", "a: 1 of 4 GPUs free, 2 asked for: GPU 0 has ailab-kim (kim), GPU 1 has ailab-kim (kim) and ailab-lee (lee), GPU 3 has ailab-lee (lee)",
				"b: has 1 GPUs, 2 asked for"}},
		"least loaded: the fewest workspaces": {LeastLoaded, one, devices{"a": gpus{0: 0, 1: 90}},
			[]farm.Pod{has("kim", "a", "Running", 0, 1), has("lee", "a", "Running", 0)}, nil, "a 1", nil},
		"least loaded: a row and a mount of one workspace count once": {LeastLoaded, one, devices{"a": gpus{0: 0, 1: 5}},
			[]farm.Pod{has("kim", "a", "Running", 0), has("lee", "a", "Running", 1)}, given("kim", "a", 0), "a 0", nil},
		"least loaded: of equals the least busy": {LeastLoaded, both, devices{"a": gpus{0: 70, 1: 5, 2: 60, 3: 4}}, []farm.Pod{has("kim", "a", "Running", 3)}, nil, "a 1,2", nil},
		"least loaded: shared when all are taken": {LeastLoaded, both, devices{"a": gpus{0: 1, 1: 2, 2: 0}},
			[]farm.Pod{has("kim", "a", "Running", 0, 1, 2)}, nil, "a 0,2", nil},
		"least loaded: a node with too few is passed over": {LeastLoaded, both, devices{"a": gpus{0: 0}, "b": four()}, nil, nil, "b 0,1", nil},
		"least loaded: every node has too few":             {LeastLoaded, both, devices{"a": gpus{0: 0}, "b": gpus{7: 0}}, nil, nil, "", []string{"a: has 1 GPUs, 2 asked for; b: has 1 GPUs"}},
		"indexes are those that are told, gaps included":   {Exclusive, both, devices{"a": gpus{1: 0, 5: 0}}, nil, nil, "a 1,5", nil},
		"untold: as many as are wanted":                    {Exclusive, both, nil, nil, nil, "a 0,1", nil},
		"untold: up to the highest in use":                 {Exclusive, both, nil, []farm.Pod{has("kim", "a", "Running", 0, 3)}, nil, "a 1,2", nil},
		"untold: up to the highest that is assigned":       {Exclusive, both, nil, nil, given("kim", "a", 2), "a 0,1", nil},
		"untold: none beyond is guessed":                   {Exclusive, both, devices{"b": four()}, []farm.Pod{has("kim", "a", "Running", 0, 1)}, nil, "b 0,1", nil},
		"untold: least loaded shares":                      {LeastLoaded, one, nil, []farm.Pod{has("kim", "a", "Running", 0, 1), has("lee", "a", "Running", 0)}, nil, "a 1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place, err := choose(tc.mode, tc.wishes, survey(tc.told, tc.pods, tc.rows))
			if got := fmt.Sprint(place.Node, " ", place.GPUs); tc.want != "" && (err != nil || got != tc.want) {
				t.Errorf("chose %q, %v, want %q", got, err, tc.want)
			}
			if tc.want == "" && !errors.Is(err, farm.ErrGPUsTaken) {
				t.Errorf("chose %v, error %v", place, err)
			}
			for _, text := range tc.says {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("error %v lacks %q", err, text)
				}
			}
		})
	}
}

func TestAssignmentRefusalOfManyNodesIsShort(t *testing.T) {
	t.Parallel()
	var wishes []farm.GPUWish
	told := devices{}
	for i := range 100 {
		name := farm.NodeName(fmt.Sprintf("n%02d", i))
		wishes, told[name] = append(wishes, farm.GPUWish{Node: name, Count: 2}), gpus{0: 0}
	}
	_, err := choose(Exclusive, wishes, survey(told, nil, nil))
	if err == nil || !strings.Contains(err.Error(), "n19: ") || strings.Contains(err.Error(), "n20: ") || !strings.Contains(err.Error(), "and 80 more nodes") {
		t.Errorf("error %v", err)
	}
}
