package gpuload

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/prometheus/common/model"

	"config-server/internal/farm"
)

// Devices tells the GPUs of all nodes by index, with their utilisation in percent, by one query. A node
// without data is absent. A GPU whose utilisation is no finite number is there, and counts as busier than
// any other. No nodes, no query. An error means that nothing is known.
func (s *Scorer) Devices(ctx context.Context, nodes []farm.NodeName) (map[farm.NodeName]map[int]float64, error) {
	if len(nodes) == 0 {
		return map[farm.NodeName]map[int]float64{}, nil
	}
	asked := fmt.Sprintf("query GPUs of %d nodes", len(nodes))
	begin := time.Now()
	samples, err := s.query(ctx, devicesOf(nodes))
	s.called.Tell(ctx, asked, begin, err)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", asked, err)
	}
	wanted := make(map[farm.NodeName]bool, len(nodes))
	for _, name := range nodes {
		wanted[name] = true
	}
	known := make(map[farm.NodeName]map[int]float64, len(nodes))
	for _, sample := range samples {
		index, ok := device(sample)
		name := node(sample)
		if !ok || !wanted[name] {
			continue
		}
		if known[name] == nil {
			known[name] = map[int]float64{}
		}
		known[name][index] = math.Inf(1)
		if finite(sample) {
			known[name][index] = float64(sample.Value)
		}
	}
	return known, nil
}

// device is the index of the sample's GPU; false if no device file can have it.
func device(sample *model.Sample) (int, bool) {
	index, err := strconv.Atoi(string(sample.Metric[DeviceLabel]))
	return index, err == nil && index >= 0 && index <= farm.MaxGPUIndex
}
