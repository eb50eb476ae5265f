package gpuassign

import (
	"context"
	"fmt"
	"slices"

	"config-server/internal/farm"
)

// Census counts the GPUs of those nodes that have any, as far as is known, in the order of nodes. A GPU is
// used if a workspace has it; one that the exporter does not tell of counts all the same.
func (a *Assigner) Census(ctx context.Context, nodes []farm.NodeName) ([]farm.GPUFill, error) {
	wishes := make([]farm.GPUWish, len(nodes))
	for i, name := range nodes {
		wishes[i] = farm.GPUWish{Node: name, Count: 1}
	}
	known, err := a.devices(ctx, wishes)
	if err != nil {
		return nil, fmt.Errorf("count GPUs: %w", err)
	}
	rows, err := a.Rows(ctx)
	if err != nil {
		return nil, fmt.Errorf("count GPUs: %w", err)
	}
	pods, err := a.Pods.KnownPods(ctx)
	if err != nil {
		return nil, fmt.Errorf("count GPUs: %w", err)
	}
	seen := survey(known, pods, rows)
	var fills []farm.GPUFill
	for _, name := range nodes {
		n, any := seen[name]
		if !any {
			continue
		}
		fill := farm.GPUFill{Node: name, Used: len(n.held), Free: -1}
		if n.told != nil {
			fill.Free = len(slices.DeleteFunc(n.indexes(0), func(index int) bool { return len(n.held[index]) > 0 }))
		}
		fills = append(fills, fill)
	}
	return fills, nil
}
