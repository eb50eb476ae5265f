package httpapi_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
)

func TestGPUOptionsListed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		offer  farm.GPUOffer
		err    error
		status int
		want   string
	}{
		"none": {farm.GPUOffer{}, nil, 200, `{"options":[]}`},
		"some, with what nobody counts as null": {
			farm.GPUOffer{Options: []farm.GPUOption{
				{ID: "claim", Driver: "gpu", Source: farm.GPUFromTemplate, Template: "claim", Free: -1, Total: -1},
				{ID: "nvidia.com/gpu/L40S", Driver: "nvidia", Resource: "nvidia.com/gpu", Model: "L40S", ModelLabel: "nvidia.com/gpu.product", Source: farm.GPUFromNodes, Free: 0, Total: 8},
			}}, nil, 200,
			`{"options":[{"id":"claim","driver":"gpu","resource":"","model":"","source":"template","free":null,"total":null},
				{"id":"nvidia.com/gpu/L40S","driver":"nvidia","resource":"nvidia.com/gpu","model":"L40S","source":"nodes","free":0,"total":8}]}`,
		},
		"a warning":        {farm.GPUOffer{Warnings: []string{"w"}}, nil, 200, `{"options":[],"warnings":["w"]}`},
		"nothing is known": {farm.GPUOffer{}, errors.New("list GPU options: timed out"), 503, `{"error":"list GPU options: timed out"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService()
			s.gpus.list = func(ctx context.Context) (farm.GPUOffer, error) {
				if _, limited := ctx.Deadline(); !limited {
					t.Error("the listing has no limit")
				}
				return tc.offer, tc.err
			}
			got := s.described(t, "GET", "/gpu-options", "")
			if diff := cmp.Diff(object(t, tc.want), got.object(t)); got.Status != tc.status || diff != "" {
				t.Errorf("status %d (-want +got):\n%s", got.Status, diff)
			}
		})
	}
}

func TestGPUOptionsInARequest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body   string
		status int
		call   string // of the use case; empty = none
	}{
		"named":      {`{"username":"kim","gpu_option":"nvidia.com/gpu/L40S"}`, 201, "create kim nvidia.com/gpu/L40S"},
		"left out":   {`{"username":"kim"}`, 201, "create kim"},
		"null":       {`{"username":"kim","gpu_option":null}`, 201, "create kim"},
		"empty":      {`{"username":"kim","gpu_option":""}`, 201, "create kim"},
		"a number":   {`{"username":"kim","gpu_option":1}`, 400, ""},
		"a list":     {`{"username":"kim","gpu_option":["a"]}`, 400, ""},
		"no text":    {`{"username":"kim","gpu_option":"\ud800"}`, 400, ""},
		"other case": {`{"username":"kim","GPU_OPTION":"a"}`, 201, "create kim"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService()
			got := s.call("POST", "/create-pod", tc.body)
			var want []string
			if tc.call != "" {
				want = []string{tc.call}
			}
			if diff := cmp.Diff(want, s.pods.calls.all()); got.Status != tc.status || diff != "" {
				t.Errorf("status %d: %s (-want +got)\n%s", got.Status, got.Text, diff)
			}
		})
	}
}
