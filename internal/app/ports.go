package app

import (
	"context"
	"maps"
	"slices"

	"config-server/internal/cluster"
	"config-server/internal/config"
	"config-server/internal/farm"
	"config-server/internal/nodeports"
	"config-server/internal/obs"
	"config-server/internal/overview"
)

// Names of the bands.
const (
	bandAll       = "all"
	bandReachable = "reachable"
)

// portBands are the bands whose fill is told in the metrics: the whole range, and that part of it
// that callers outside the farm can reach.
func portBands(c config.Config) []obs.PortBand {
	bands := []obs.PortBand{{Name: bandAll, Min: c.NodePorts.Min, Max: c.NodePorts.Max}}
	low, high := max(c.NodePorts.Min, farm.ReachablePortMin), min(c.NodePorts.Max, farm.ReachablePortMax)
	if low <= high {
		bands = append(bands, obs.PortBand{Name: bandReachable, Min: low, Max: high})
	}
	return bands
}

// countPorts counts each band; one that the range does not reach has neither used nor free ports.
func countPorts(ctx context.Context, c config.Config, ports *nodeports.Allocator, services *cluster.Cluster) (overview.NodePorts, error) {
	var counted overview.NodePorts
	used, err := usedPorts(ctx, ports, services)
	if err != nil {
		return counted, err
	}
	fills := map[string]*overview.Fill{bandAll: &counted.All, bandReachable: &counted.Reachable}
	for _, band := range portBands(c) {
		fills[band.Name].Used, fills[band.Name].Free = band.Fill(used)
	}
	return counted, nil
}

// usedPorts are those that no new workspace gets: they have a row, or some Service has them.
func usedPorts(ctx context.Context, ports *nodeports.Allocator, services *cluster.Cluster) ([]int, error) {
	used, err := ports.Reserved(ctx)
	if err != nil {
		return nil, err
	}
	// Without the right to watch Services, or while the watch is broken, what is known has to do.
	taken, _ := services.TakenPorts()
	return slices.AppendSeq(used, maps.Keys(taken)), nil
}
