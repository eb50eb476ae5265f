package app

import (
	"context"
	"time"

	"config-server/internal/cluster"
	"config-server/internal/config"
	"config-server/internal/farm"
	"config-server/internal/gpuoptions"
	"config-server/internal/obs"
)

func (a *App) openGPUs(c *cluster.Cluster) *gpuoptions.Scanner {
	return gpuoptions.New(gpuoptions.Options{
		Reader: c, Mode: gpuoptions.Mode(a.config.GPU.Discovery), Label: a.config.GPU.TemplateLabel,
		Interval: a.config.GPU.ScanInterval.Duration(), Shape: sessionShape(c, a.config.Pods.Template), Log: a.log,
	})
}

const (
	// gpusEvery is how often the GPUs are counted for the metrics, the first time so long after a start.
	gpusEvery = time.Minute
	// gpusKnown is how long a count is told by scrapes, which ask nobody themselves.
	gpusKnown = 5 * time.Minute
)

// countGPUs keeps a count of the GPUs for the metrics, because mostly nobody asks for options.
func (a *App) countGPUs(ctx context.Context) {
	if a.config.GPU.Discovery == string(gpuoptions.Off) {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(gpusEvery):
		}
		if _, err := a.parts.gpus.Census(obs.WithRequestID(ctx, obs.NewRequestID()), gpusEvery); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "GPUs cannot be counted", "error", err)
		}
	}
}

// tellGPUs has every scrape tell the GPUs of the nodes.
func (p *parts) tellGPUs() {
	p.metrics.GPUs(func() []obs.GPUs {
		var kinds []obs.GPUs
		for _, kind := range p.gpus.Known(gpusKnown) {
			kinds = append(kinds, obs.GPUs{Resource: kind.Resource, Model: kind.Model, Free: kind.Free, Total: kind.Total})
		}
		return kinds
	})
}

// sessionShape reads what quotas ask of workspaces out of the template of every session. One that is not
// there, or may not be read, says nothing; nil = there is none.
func sessionShape(c *cluster.Cluster, template string) func(ctx context.Context) (gpuoptions.Shape, error) {
	if template == "" {
		return nil
	}
	return func(ctx context.Context) (gpuoptions.Shape, error) {
		session, found, err := c.PodTemplate(ctx, template)
		switch {
		case farm.IsForbidden(err), err == nil && !found:
			return gpuoptions.Shape{}, nil
		case err != nil:
			return gpuoptions.Shape{}, err
		}
		return gpuoptions.ShapeOf(session.Template.Spec), nil
	}
}

// runtimeClass is that of workspaces with an NVIDIA option; empty = none.
func runtimeClass(c config.Config) string {
	if c.GPU.RuntimeClass == config.NoRuntimeClass {
		return ""
	}
	return c.GPU.RuntimeClass
}
