package farm_test

import (
	"strings"
	"testing"

	"config-server/internal/farm"
)

func TestGPUOptionsLacks(t *testing.T) {
	t.Parallel()
	rooms := map[farm.NodeName]farm.GPURoom{"full": {Free: 0, Total: 4}, "half": {Free: 2, Total: 4}, "uncounted": {Free: -1, Total: 4}, "unknown": {Free: -1, Total: -1}}
	detected := farm.GPUChoice{GPUOption: farm.GPUOption{ID: "nvidia.com/gpu/L40S", Resource: "nvidia.com/gpu", Model: "L40S"}, Rooms: rooms}
	pair := farm.GPUChoice{GPUOption: farm.GPUOption{ID: "pair", Resource: "nvidia.com/gpu", Template: "pair"}, Asks: 2, Rooms: rooms}
	claim := farm.GPUChoice{GPUOption: farm.GPUOption{ID: "claim", Template: "claim"}, Rooms: rooms}
	blind := farm.GPUChoice{GPUOption: farm.GPUOption{ID: "nvidia.com/gpu", Resource: "nvidia.com/gpu"}}
	for name, tc := range map[string]struct {
		choice farm.GPUChoice
		node   farm.NodeName
		n      int64
		want   string // part of the reason; empty = none
	}{
		"enough is free":                     {detected, "half", 2, ""},
		"not enough is free":                 {detected, "half", 3, "2 of 4 nvidia.com/gpu free, 3 asked for"},
		"none is free":                       {detected, "full", 1, "0 of 4 nvidia.com/gpu free, 1 asked for"},
		"more than there are":                {detected, "half", 5, "has 4 nvidia.com/gpu, 5 asked for"},
		"another model, or none":             {detected, "other", 1, "has no nvidia.com/gpu/L40S"},
		"free is not known":                  {detected, "uncounted", 4, ""},
		"free is not known, but too few are": {detected, "uncounted", 5, "has 4 nvidia.com/gpu, 5 asked for"},
		"nobody knows the nodes":             {blind, "other", 9, ""},
		"a template asks for itself":         {pair, "half", 9, ""},
		"a template that asks for too much":  {pair, "full", 1, "0 of 4 nvidia.com/gpu free, 2 asked for"},
		"a template that is not for it":      {pair, "other", 1, "GPU option pair is not for this node"},
		"a claim that nobody counts":         {claim, "unknown", 1, ""},
		"a claim that is not for it":         {claim, "other", 1, "GPU option claim is not for this node"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tc.choice.Lacks(tc.node, tc.n)
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("lacks %q, want %q", got, tc.want)
			}
		})
	}
}

func TestUserConfigOn(t *testing.T) {
	t.Parallel()
	config := farm.UserConfig{Nodes: []farm.GPUNode{{Name: " FARM5", NumGPU: 1}, {Name: "farm5", NumGPU: 2}, {Name: "farm6", NumGPU: 3}}}
	for name, tc := range map[string]struct {
		node farm.NodeName
		want farm.GPUNode
	}{
		"another case, the first of two": {"farm5", farm.GPUNode{Name: " FARM5", NumGPU: 1}},
		"as it is written":               {"farm6", farm.GPUNode{Name: "farm6", NumGPU: 3}},
		"no entry":                       {"farm7", farm.GPUNode{Name: "farm7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := config.On(tc.node); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}
