package workspaces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// offered is a farm's GPU options, by ID.
type offered map[string]farm.GPUChoice

func (o offered) Choose(_ context.Context, id string) (farm.GPUChoice, error) {
	choice, found := o[id]
	if !found {
		return farm.GPUChoice{}, fmt.Errorf("GPU option %q: %w: the options are l40s", id, farm.ErrNotFound)
	}
	return choice, nil
}

// unread is a farm whose options cannot be read.
type unread struct{}

func (unread) Choose(context.Context, string) (farm.GPUChoice, error) {
	return farm.GPUChoice{}, errors.New("the API server is down")
}

// l40s has four GPUs on farm5, three of them in use, and two on farm6.
var l40s = offered{"l40s": {
	GPUOption: farm.GPUOption{ID: "l40s", Resource: "nvidia.com/gpu"},
	Rooms:     map[farm.NodeName]farm.GPURoom{"farm5": {Free: 1, Total: 4}, "farm6": {Free: 2, Total: 2}},
}}

func launchWith(gpus GPUs, request string, config farm.UserConfig) *launch {
	return &launch{Service: New(Options{GPUs: gpus, Log: slog.New(slog.DiscardHandler)}), user: "kim", option: request, config: config}
}

func TestGPUOptionsChosenByALaunch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gpus            GPUs
		request, config string
		chosen          string // the option's ID; empty = none
		kind            farm.Kind
	}{
		"none, and nobody is asked":             {gpus: nil},
		"the request's":                         {gpus: l40s, request: "l40s", chosen: "l40s"},
		"the configuration's":                   {gpus: l40s, config: "l40s", chosen: "l40s"},
		"the request's before the other":        {gpus: l40s, request: "l40s", config: "gone", chosen: "l40s"},
		"one that there is not":                 {gpus: l40s, config: "gone", kind: farm.Invalid},
		"one that went away after it was asked": {gpus: l40s, request: "gone", kind: farm.Invalid},
		"options that cannot be read":           {gpus: unread{}, config: "l40s", kind: farm.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := launchWith(tc.gpus, tc.request, farm.UserConfig{GPUOption: tc.config})
			err := l.chooseGPU(t.Context())
			if tc.kind != "" {
				told, ok := farm.AsError(err)
				if !ok || told.Kind != tc.kind || told.Step != farm.StepBuildPodSpec || told.Code != farm.PodSpecBuildFailed || l.gpuOption() != nil {
					t.Errorf("error %v", err)
				}
				return
			}
			got := ""
			if option := l.gpuOption(); option != nil {
				got = option.ID
			}
			if err != nil || got != tc.chosen {
				t.Errorf("chose %q, error %v, want %q", got, err, tc.chosen)
			}
		})
	}
}

func TestGPUOptionsOfARequestAreCheckedFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		gpus GPUs
		id   string
		want string // kind, step and code; empty = nothing against it
	}{
		"none, and nobody is asked":   {nil, "", ""},
		"one that there is":           {l40s, "l40s", ""},
		"one that there is not":       {l40s, "gone", "invalid VALIDATE_REQUEST INVALID_CREATE_POD_REQUEST"},
		"options that cannot be read": {unread{}, "l40s", "internal CREATE_POD CREATE_POD_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := New(Options{GPUs: tc.gpus}).checkOption(t.Context(), tc.id)
			got := ""
			if told, ok := farm.AsError(err); ok {
				got = fmt.Sprintf("%s %s %s", told.Kind, told.Step, told.Code)
			}
			if got != tc.want {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestGPUOptionsCandidates(t *testing.T) {
	t.Parallel()
	cluster := []farm.Node{node("farm5"), node("farm6"), node("farm7"), node("farm8", "cordoned")}
	entry := func(name string, gpus int) farm.GPUNode { return farm.GPUNode{Name: farm.NodeName(name), NumGPU: gpus} }
	for name, tc := range map[string]struct {
		option  string
		entries []farm.GPUNode
		want    []farm.NodeName
		says    []string // of the refusal
	}{
		"without an option every node counts":      {"", nil, []farm.NodeName{"farm5", "farm6", "farm7"}, nil},
		"any node that has one":                    {"l40s", nil, []farm.NodeName{"farm5", "farm6"}, nil},
		"no entry and 0 ask for one":               {"l40s", []farm.GPUNode{entry("FARM5", 0)}, []farm.NodeName{"farm5"}, nil},
		"each node is asked what its entry says":   {"l40s", []farm.GPUNode{entry("farm5", 2), entry("farm6", 2)}, []farm.NodeName{"farm6"}, nil},
		"nobody has so many":                       {"l40s", []farm.GPUNode{entry("farm5", 2), entry("farm6", 3), entry("farm7", 1), entry("farm8", 1)}, nil, []string{"farm5: 1 of 4 nvidia.com/gpu free, 2 asked for", "farm6: has 2 nvidia.com/gpu, 3 asked for", "farm7: has no l40s", "farm8: cordoned"}},
		"a node that is unknown is told as always": {"l40s", []farm.GPUNode{entry("ghost", 1)}, nil, []string{"unknown kubernetes node: 'ghost'"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := launchWith(l40s, tc.option, farm.UserConfig{Nodes: tc.entries})
			if err := l.chooseGPU(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := l.candidates(cluster)
			if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != (tc.says != nil) {
				t.Fatalf("error %v (-want +got)\n%s", err, diff)
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %v, want one that says %q", err, part)
				}
			}
		})
	}
}

func TestGPUOptionsWhereNodesMayNotBeRead(t *testing.T) {
	t.Parallel()
	forbidden := fmt.Errorf("list nodes: %w", &farm.APIError{Status: 403, Err: errors.New("forbidden")})
	named := []farm.GPUNode{{Name: "FARM6"}, {Name: " farm5 "}, {Name: "farm6"}}
	for name, tc := range map[string]struct {
		err    error
		option string
		nodes  []farm.GPUNode
		want   []farm.NodeName // nil = create fails
	}{
		"an option and named nodes":   {forbidden, "l40s", named, []farm.NodeName{"farm6", "farm5"}},
		"no option":                   {forbidden, "", named, nil},
		"no named nodes":              {forbidden, "l40s", nil, nil},
		"the API server does not say": {errors.New("timed out"), "l40s", named, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := launchWith(l40s, tc.option, farm.UserConfig{Nodes: tc.nodes})
			if l.goBlind(tc.err) != (tc.want != nil) {
				t.Fatalf("goes on is %t", tc.want == nil)
			}
			if tc.want == nil {
				return
			}
			if got, err := l.candidates(nil); err != nil || !cmp.Equal(got, tc.want) {
				t.Errorf("candidates %v, error %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestGPUOptionsOfAMigration(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		option string
		better []farm.NodeName
		want   farm.NodeName // empty = nothing is moved
	}{
		"without an option the best":          {"", []farm.NodeName{"farm7", "farm6"}, "farm7"},
		"the best that has the GPU":           {"l40s", []farm.NodeName{"farm7", "farm6", "farm5"}, "farm6"},
		"none of the better ones has the GPU": {"l40s", []farm.NodeName{"farm7", "farm8"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := launchWith(l40s, "", farm.UserConfig{GPUOption: tc.option})
			found, err := l.chooseRoom(t.Context(), tc.better)
			if err != nil || found != (tc.want != "") || l.node != tc.want {
				t.Errorf("found %t, node %q, error %v, want %q", found, l.node, err, tc.want)
			}
		})
	}
}

// stored is a cluster that only has PodTemplates, by name.
type stored struct {
	Cluster
	templates map[string]corev1.PodTemplate
	err       error
}

func (s stored) PodTemplate(_ context.Context, name string) (corev1.PodTemplate, bool, error) {
	template, found := s.templates[name]
	return template, found, s.err
}

func TestGPUOptionsTemplateAtLaunch(t *testing.T) {
	t.Parallel()
	there := map[string]corev1.PodTemplate{"claim": {}, "user": {}}
	for name, tc := range map[string]struct {
		cluster stored
		option  farm.GPUOption
		layers  []string
		kind    farm.Kind
	}{
		"a detected option has none":     {stored{templates: there}, farm.GPUOption{ID: "nvidia.com/gpu"}, []string{"user"}, ""},
		"it lies over the user's":        {stored{templates: there}, farm.GPUOption{ID: "claim", Template: "claim"}, []string{"user", "claim"}, ""},
		"it has gone since it was found": {stored{templates: there}, farm.GPUOption{ID: "gone", Template: "gone"}, nil, farm.Invalid},
		"it cannot be read":              {stored{err: errors.New("timed out")}, farm.GPUOption{ID: "claim", Template: "claim"}, nil, farm.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := launchWith(nil, "", farm.UserConfig{PodTemplate: "user"})
			l.Cluster, l.gpu = tc.cluster, &farm.GPUChoice{GPUOption: tc.option}
			err := l.readLayers(t.Context())
			if tc.kind != "" {
				if told, ok := farm.AsError(err); !ok || told.Kind != tc.kind || told.Code != farm.PodSpecBuildFailed {
					t.Errorf("error %v", err)
				}
				return
			}
			var names []string
			for _, layer := range l.layers {
				names = append(names, layer.Name)
			}
			if diff := cmp.Diff(tc.layers, names); diff != "" || err != nil {
				t.Errorf("error %v, layers (-want +got)\n%s", err, diff)
			}
		})
	}
}
