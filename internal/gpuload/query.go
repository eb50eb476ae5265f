package gpuload

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"config-server/internal/farm"
)

// The labels of the samples that the query gives: the node, and which of its readings the sample
// is. A stand-in for Prometheus has to set both.
const (
	HostLabel    = "Hostname"
	ReadingLabel = "reading"
	// DeviceLabel is the index of a GPU on its node, in the samples that tell of single GPUs.
	DeviceLabel = "gpu"

	Utilisation = "util"
	MemoryUsed  = "fb"
	Temperature = "temp"
)

var readings = []struct{ name, metric string }{
	{Utilisation, "DCGM_FI_DEV_GPU_UTIL"},
	{MemoryUsed, "DCGM_FI_DEV_FB_USED"},
	{Temperature, "DCGM_FI_DEV_GPU_TEMP"},
}

// mostNamed is up to how many nodes a query names them. Looking up a thousand names in the index of
// label values, three times, costs Prometheus more than averaging the series of every host does.
const mostNamed = 50

// queryFor asks for the averages of all readings of all nodes in one expression. GPUs whose value
// is no finite number do not count into the average: one broken GPU must not hide a whole node.
// For many nodes it asks for every host, so the answer may have some that nobody asked for.
func queryFor(nodes []farm.NodeName) string {
	hosts := hostsOf(nodes)
	parts := make([]string, len(readings))
	for i, reading := range readings {
		parts[i] = fmt.Sprintf(`label_replace(avg by (%s) (%s{%s%s} > -Inf < Inf), %q, %q, "", "")`,
			HostLabel, reading.metric, HostLabel, hosts, ReadingLabel, reading.name)
	}
	return strings.Join(parts, " or ")
}

// hostsOf is the condition on the label of the node.
func hostsOf(nodes []farm.NodeName) string {
	if len(nodes) > mostNamed {
		return `!=""`
	}
	names := make([]string, len(nodes))
	for i, name := range nodes {
		names[i] = regexp.QuoteMeta(string(name))
	}
	return "=~" + strconv.Quote(strings.Join(names, "|"))
}

// devicesOf asks for the utilisation of each GPU. One that is cut into slices has a series for each; it is
// as busy as the busiest of them.
func devicesOf(nodes []farm.NodeName) string {
	return fmt.Sprintf("max by (%s, %s) (DCGM_FI_DEV_GPU_UTIL{%s%s})", HostLabel, DeviceLabel, HostLabel, hostsOf(nodes))
}
