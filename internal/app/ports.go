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
)

// portBands are the bands whose fill is told in the metrics: the whole range, and that part of it
// that callers outside the farm can reach.
func portBands(c config.Config) []obs.PortBand {
	bands := []obs.PortBand{{Name: "all", Min: c.NodePorts.Min, Max: c.NodePorts.Max}}
	low, high := max(c.NodePorts.Min, farm.ReachablePortMin), min(c.NodePorts.Max, farm.ReachablePortMax)
	if low <= high {
		bands = append(bands, obs.PortBand{Name: "reachable", Min: low, Max: high})
	}
	return bands
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
