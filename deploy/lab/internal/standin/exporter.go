package standin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Load is what the exporter says about each GPU of a node.
type Load struct {
	GPUs int     `json:"gpus"`
	Util float64 `json:"util"` // percent
	Used float64 `json:"used"` // MiB of frame buffer
	Temp float64 `json:"temp"` // degrees Celsius
}

// Exporter speaks as NVIDIA's DCGM exporter does, for all nodes at once, and lets the loads be set:
//
//	GET    /metrics        for Prometheus
//	PUT    /loads/NODE     sets {"gpus":2,"util":10,"used":1000,"temp":40}
//	DELETE /loads/NODE     the node has no series any more
//
// The loads are kept in file.
func Exporter(file string) (http.Handler, error) {
	loads, err := openKept(file)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write([]byte(exposition(loads)))
	})
	editable(mux, "/loads/{name}", loads, func(text []byte) error {
		var load Load
		return json.Unmarshal(text, &load)
	})
	return mux, nil
}

// exposition lists the three series of each GPU.
func exposition(loads *kept) string {
	var b strings.Builder
	series := []struct {
		name  string
		value func(Load) float64
	}{
		{"DCGM_FI_DEV_GPU_UTIL", func(l Load) float64 { return l.Util }},
		{"DCGM_FI_DEV_FB_USED", func(l Load) float64 { return l.Used }},
		{"DCGM_FI_DEV_GPU_TEMP", func(l Load) float64 { return l.Temp }},
	}
	for _, s := range series {
		fmt.Fprintf(&b, "# TYPE %s gauge\n", s.name)
		for _, node := range loads.names() {
			text, _ := loads.get(node)
			var load Load
			if json.Unmarshal(text, &load) != nil {
				continue
			}
			for gpu := range load.GPUs {
				fmt.Fprintf(&b, "%s{gpu=\"%d\",UUID=\"GPU-%s-%d\",device=\"nvidia%d\",modelName=\"Lab GPU\",Hostname=%q} %g\n", s.name, gpu, node, gpu, gpu, node, s.value(load))
			}
		}
	}
	return b.String()
}
