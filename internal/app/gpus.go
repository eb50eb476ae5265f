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

// censusAge is how old the count of GPUs may be that metrics and pages show.
const censusAge = time.Minute

// tellGPUs has every scrape tell the GPUs of the nodes.
func (p *parts) tellGPUs() {
	p.metrics.GPUs(func(ctx context.Context) ([]obs.GPUs, error) {
		census, err := p.gpus.Census(ctx, censusAge)
		if err != nil {
			return nil, err
		}
		var kinds []obs.GPUs
		for _, kind := range census {
			kinds = append(kinds, obs.GPUs{Resource: kind.Resource, Model: kind.Model, Free: kind.Free, Total: kind.Total})
		}
		return kinds, nil
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
