package gpuoptions

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

func TestGPUOptionsChoose(t *testing.T) {
	t.Parallel()
	cluster := ofGPUs()
	cluster.nodes = append(cluster.nodes, node("b", list("amd.com/gpu", "2"), labelAMDModel, "W7900"))
	s := New(Options{Reader: cluster})

	got, err := s.Choose(t.Context(), "amd.com/gpu/W7900")
	if err != nil {
		t.Fatal(err)
	}
	want := farm.GPUChoice{
		GPUOption: farm.GPUOption{
			ID: "amd.com/gpu/W7900", Driver: "amdgpu", Resource: "amd.com/gpu", Model: "W7900", ModelLabel: "amd.com/gpu.product-name",
			Source: farm.GPUFromNodes, Free: 2, Total: 2,
		},
		Rooms: map[farm.NodeName]farm.GPURoom{"b": {Free: 2, Total: 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	for name, id := range map[string]string{"another model": "amd.com/gpu/W6800", "the empty name": "", "another case": "NVIDIA.com/gpu"} {
		_, err := s.Choose(t.Context(), id)
		if !errors.Is(err, farm.ErrNotFound) || !strings.Contains(err.Error(), "the options are amd.com/gpu/W7900, nvidia.com/gpu") {
			t.Errorf("%s: error %v, want one that names the options", name, err)
		}
	}

	cluster.nodes = nil
	empty := New(Options{Reader: cluster})
	if _, err := empty.Choose(t.Context(), "nvidia.com/gpu"); !errors.Is(err, farm.ErrNotFound) || !strings.Contains(err.Error(), "there are no GPU options") {
		t.Errorf("error %v, want one that says that there are none", err)
	}
}

func TestGPUOptionsChoiceOfATemplate(t *testing.T) {
	t.Parallel()
	cluster := ofGPUs()
	cluster.templates = []corev1.PodTemplate{template("pair", "nvidia", func(spec *corev1.PodSpec) {
		spec.Containers[0].Resources.Limits = list("nvidia.com/gpu", "2")
	})}
	got, err := New(Options{Reader: cluster}).Choose(t.Context(), "pair")
	if err != nil {
		t.Fatal(err)
	}
	want := farm.GPUChoice{
		GPUOption: farm.GPUOption{
			ID: "pair", Driver: "nvidia", Resource: "nvidia.com/gpu", Source: farm.GPUFromTemplate, Template: "pair", Free: 3, Total: 4,
		},
		Asks: 2, Rooms: map[farm.NodeName]farm.GPURoom{"a": {Free: 3, Total: 4}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestGPUOptionsCensus(t *testing.T) {
	t.Parallel()
	cluster := ofGPUs()
	cluster.nodes = append(cluster.nodes,
		node("b", list("nvidia.com/gpu", "2"), labelNVIDIAModel, "L40S"), node("c", list("nvidia.com/gpu", "8"), labelNVIDIAModel, "L40S"),
		cordoned(node("d", list("nvidia.com/gpu", "8"))), node("e", list("amd.com/gpu", "1")))
	cluster.pods = append(cluster.pods, pod("c", list("nvidia.com/gpu", "5")))
	want := []farm.GPUCount{
		{Resource: "amd.com/gpu", GPURoom: farm.GPURoom{Free: 1, Total: 1}},
		{Resource: "nvidia.com/gpu", GPURoom: farm.GPURoom{Free: 3, Total: 4}},
		{Resource: "nvidia.com/gpu", Model: "L40S", GPURoom: farm.GPURoom{Free: 5, Total: 10}},
	}
	got, err := New(Options{Reader: cluster}).Census(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestGPUOptionsKnownAsksNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := ofGPUs()
		s := New(Options{Reader: cluster})
		if known := s.Known(time.Hour); known != nil {
			t.Errorf("before anybody has looked: %v", known)
		}
		listed(t, s)
		cluster.take()
		want := []farm.GPUCount{{Resource: "nvidia.com/gpu", GPURoom: farm.GPURoom{Free: 3, Total: 4}}}
		time.Sleep(5 * time.Minute)
		if diff := cmp.Diff(want, s.Known(5*time.Minute)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		time.Sleep(time.Nanosecond)
		if known := s.Known(5 * time.Minute); known != nil {
			t.Errorf("what is too old: %v", known)
		}
		if asked := cluster.take(); len(asked) > 0 {
			t.Errorf("it asked for %v", asked)
		}
	})
}

func TestGPUOptionsCensusMayBeOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := ofGPUs()
		s := New(Options{Reader: cluster})
		for _, tc := range []struct {
			after time.Duration
			asks  bool
		}{{0, true}, {DefaultInterval, false}, {time.Minute - DefaultInterval - 1, false}, {1, true}} {
			time.Sleep(tc.after)
			if _, err := s.Census(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			if asked := cluster.take(); (len(asked) > 0) != tc.asks || asked[kindTemplates] > 0 {
				t.Errorf("%s later it asked for %v", tc.after, asked)
			}
		}
		cluster.fail(kindAllPods, silent())
		time.Sleep(time.Minute)
		if census, err := s.Census(t.Context(), time.Minute); len(census) > 0 || err != nil {
			t.Errorf("without pods: census %v, error %v", census, err)
		}
	})
}

func TestGPUOptionsMissingRightsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	cluster := ofGPUs()
	for _, kind := range []string{kindTemplates, kindQuotas, kindClasses, kindAllPods} {
		cluster.fail(kind, forbidden())
	}
	var log bytes.Buffer
	s := New(Options{Reader: cluster, Interval: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	listed(t, s)
	if lines := strings.Count(log.String(), "\n"); lines != 4 {
		t.Errorf("%d lines for four missing rights:\n%s", lines, log.String())
	}
	log.Reset()
	listed(t, s)
	if log.Len() > 0 {
		t.Errorf("a second listing says them again:\n%s", log.String())
	}
}
