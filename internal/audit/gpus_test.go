package audit_test

import (
	"errors"
	"testing"

	"config-server/internal/audit"
	"config-server/internal/farm"
)

func TestAssignmentIsNoFault(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(in *audit.Input){
		"each has its own":            assignGPUs,
		"sharing where that is meant": func(in *audit.Input) { assignGPUs(in); shareGPU(in); in.ExclusiveGPUs = false },
		"nothing is assigned and all have GPU 0": func(in *audit.Input) {
			in.Pods[0].GPUIndexes, in.Pods[1].GPUIndexes = farm.NewGPUSet(0), farm.NewGPUSet(0)
		},
		"rows of before, now that none are given": func(in *audit.Input) {
			assignGPUs(in)
			in.AssignsGPUs, in.ExclusiveGPUs, in.Pods = false, false, in.Pods[:2]
		},
		"the same index of two nodes": func(in *audit.Input) {
			assignGPUs(in)
			in.Pods[1].Node, in.Pods[1].GPUIndexes = "farm6", farm.NewGPUSet(0)
			in.GPUs[2].Node, in.GPUs[2].Index = "farm6", 0
		},
		"a pod that goes, and an operation that gives and takes": func(in *audit.Input) {
			assignGPUs(in)
			in.Pods[1].Terminating, in.GPUs = true, in.GPUs[:2]
			in.GPUs = append(in.GPUs, farm.GPURow{ID: 7, User: "kim", Pod: "ailab-kim-0000000c", Node: "farm5", Index: 3})
			in.Operations = []farm.Operation{{ID: "O", User: "kim", Pod: "ailab-kim-0000000c", StartedAt: now}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := whole()
			change(&in)
			for _, f := range audit.Compare(in).Findings {
				t.Errorf("found %+v", f)
			}
		})
	}
}

// A table that cannot be read costs what needs it, and only that.
func TestAssignmentTableThatCannotBeRead(t *testing.T) {
	t.Parallel()
	in := whole()
	assignGPUs(&in)
	shareGPU(&in)
	in.GPUs, in.Unreadable[audit.PartGPUs] = nil, errors.New("down")
	var got []audit.Kind
	for _, f := range audit.Compare(in).Findings {
		got = append(got, f.Kind)
	}
	if len(got) != 2 || got[0] != audit.Unreadable || got[1] != audit.SharedGPU {
		t.Errorf("found %v", got)
	}
}
