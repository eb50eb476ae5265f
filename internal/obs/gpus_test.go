package obs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"config-server/internal/obs"
)

func TestMetricsOfGPUs(t *testing.T) {
	t.Parallel()
	m := obs.NewMetrics(obs.Build{})
	var kinds []obs.GPUs
	var fault error
	m.GPUs(func(ctx context.Context) ([]obs.GPUs, error) {
		if _, limited := ctx.Deadline(); !limited {
			t.Error("the count has no limit")
		}
		return kinds, fault
	})
	wantNone(t, scrape(m), "config_server_gpus{")

	kinds = []obs.GPUs{{Resource: "amd.com/gpu", Free: 1, Total: 1}, {Resource: "nvidia.com/gpu", Model: "NVIDIA-L40S", Free: 3, Total: 8}}
	wantLines(t, scrape(m),
		`config_server_gpus{model="",resource="amd.com/gpu",state="free"} 1`, `config_server_gpus{model="",resource="amd.com/gpu",state="used"} 0`,
		`config_server_gpus{model="NVIDIA-L40S",resource="nvidia.com/gpu",state="free"} 3`, `config_server_gpus{model="NVIDIA-L40S",resource="nvidia.com/gpu",state="used"} 5`)

	fault = errors.New("the API server is down")
	text := scrape(m)
	wantNone(t, text, "config_server_gpus{")
	wantLines(t, text, `config_server_allocator_retries_total{reason="port_taken"} 0`)

	// Labels of nodes are anybody's: more kinds than any farm has are not told.
	kinds, fault = nil, nil
	for i := range 1000 {
		kinds = append(kinds, obs.GPUs{Resource: "nvidia.com/gpu", Model: fmt.Sprint(i), Free: 1, Total: 1})
	}
	if n := strings.Count(scrape(m), "config_server_gpus{"); n != 100 {
		t.Errorf("%d series, want 100", n)
	}
}
