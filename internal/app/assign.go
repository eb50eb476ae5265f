package app

import (
	"context"
	"sync"
	"time"

	"config-server/internal/farm"
	"config-server/internal/gpuassign"
	"config-server/internal/gpuload"
	"config-server/internal/obs"
	"config-server/internal/reconciler"
	"config-server/internal/workspaces"
)

const (
	// assignsFirst is the GPU_ASSIGNMENT under which nobody chooses.
	assignsFirst = "first"
	// countAgain is when a count that failed is tried again.
	countAgain = 5 * time.Second
)

// openDeviceFiles makes what assigns GPUs; nil = each workspace gets the first ones of its node.
func (a *App) openDeviceFiles(p *parts, scorer *gpuload.Scorer) *gpuassign.Assigner {
	if a.config.GPU.Assignment == assignsFirst {
		return nil
	}
	return gpuassign.New(gpuassign.Options{
		Mode: gpuassign.Mode(a.config.GPU.Assignment), DB: p.database, Pods: p.cluster, Devices: scorer, Log: a.log,
	})
}

// assigns is the assigner as the use cases want it: an interface that is nil where there is none.
func (p *parts) assigns() workspaces.DeviceFiles {
	if p.deviceFiles == nil {
		return nil
	}
	return p.deviceFiles
}

// assigned is the same for the reconciler.
func (p *parts) assigned() reconciler.GPUs {
	if p.deviceFiles == nil {
		return nil
	}
	return p.deviceFiles
}

// deviceCount is the last count of device files, for scrapes.
type deviceCount struct {
	mu    sync.Mutex
	at    time.Time
	fills []farm.GPUFill
}

func (d *deviceCount) set(fills []farm.GPUFill) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.at, d.fills = time.Now(), fills
}

// known is the count unless it is older than gpusKnown.
func (d *deviceCount) known() []farm.GPUFill {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.at) > gpusKnown {
		return nil
	}
	return d.fills
}

// countDeviceFiles keeps a count of the GPU device files for the metrics, the first one soon after the start.
func (a *App) countDeviceFiles(ctx context.Context) {
	if a.parts.deviceFiles == nil {
		return
	}
	for {
		pause := gpusEvery
		if err := a.countDevices(obs.WithRequestID(ctx, obs.NewRequestID())); err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "GPU device files cannot be counted", "error", err)
			pause = countAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (a *App) countDevices(ctx context.Context) error {
	nodes, err := a.parts.cluster.Nodes(ctx)
	if err != nil {
		return err
	}
	var names []farm.NodeName
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	fills, err := a.parts.deviceFiles.Census(ctx, names)
	if err != nil {
		return err
	}
	a.parts.deviceCount.set(fills)
	return nil
}

// tellDeviceFiles has every scrape tell the last count.
func (p *parts) tellDeviceFiles() {
	p.metrics.GPUDevices(func() []obs.GPUDevices {
		var nodes []obs.GPUDevices
		for _, fill := range p.deviceCount.known() {
			nodes = append(nodes, obs.GPUDevices{Node: string(fill.Node), Used: fill.Used, Free: fill.Free})
		}
		return nodes
	})
}
