package obs_test

import (
	"fmt"
	"strings"
	"testing"

	"config-server/internal/obs"
)

func TestMetricsOfGPUs(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics(obs.Build{})
	var kinds []obs.GPUs
	m.GPUs(func() []obs.GPUs { return kinds })
	wantNone(t, scrape(m), "config_server_gpus{")

	kinds = []obs.GPUs{{Resource: "amd.com/gpu", Free: 1, Total: 1}, {Resource: "nvidia.com/gpu", Model: "NVIDIA-L40S", Free: 3, Total: 8}}
	wantLines(t, scrape(m),
		`config_server_gpus{model="",resource="amd.com/gpu",state="free"} 1`, `config_server_gpus{model="",resource="amd.com/gpu",state="used"} 0`,
		`config_server_gpus{model="NVIDIA-L40S",resource="nvidia.com/gpu",state="free"} 3`, `config_server_gpus{model="NVIDIA-L40S",resource="nvidia.com/gpu",state="used"} 5`)

	// Labels of nodes are anybody's: more kinds than any farm has are not told.
	kinds = nil
	for i := range 1000 {
		kinds = append(kinds, obs.GPUs{Resource: "nvidia.com/gpu", Model: fmt.Sprint(i), Free: 1, Total: 1})
	}
	if n := strings.Count(scrape(m), "config_server_gpus{"); n != 100 {
		t.Errorf("%d series, want 100", n)
	}
}

func TestAssignmentMetrics(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics(obs.Build{})
	var nodes []obs.GPUDevices
	m.GPUDevices(func() []obs.GPUDevices { return nodes })
	wantNone(t, scrape(m), "config_server_gpu_devices{")

	nodes = []obs.GPUDevices{{Node: "farm5", Used: 3, Free: 1}, {Node: "farm8", Used: 2, Free: -1}}
	text := scrape(m)
	wantLines(t, text, `config_server_gpu_devices{node="farm5",state="free"} 1`, `config_server_gpu_devices{node="farm5",state="used"} 3`,
		`config_server_gpu_devices{node="farm8",state="used"} 2`)
	wantNone(t, text, `config_server_gpu_devices{node="farm8",state="free"}`)
}
