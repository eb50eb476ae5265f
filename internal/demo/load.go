package demo

import (
	"encoding/json"
	"hash/fnv"
	"maps"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"config-server/internal/gpuload"
)

// Load is how busy the GPUs of a node are, on average.
type Load struct {
	Utilisation float64 `json:"util"`    // percent
	MemoryUsed  float64 `json:"fb_used"` // MiB
	Temperature float64 `json:"temp"`    // degrees Celsius
}

// driftPeriod and driftWidth are how the load of a node rises and falls: a wave of this length and
// of this many percent to both sides.
const (
	driftPeriod = 10 * time.Minute
	driftWidth  = 8.0
)

// load is Prometheus with the metrics of the farm's GPUs. farm8 has no exporter.
type load struct {
	drift bool
	mu    sync.Mutex
	nodes map[string]Load
}

func newLoad(drift bool) *load {
	return &load{drift: drift, nodes: map[string]Load{
		"farm5": {80, 20000, 70},
		"farm6": {10, 1000, 40},
		"farm7": {50, 8000, 60},
	}}
}

func (l *load) register(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/v1/query", l.query)
	mux.HandleFunc("POST /api/v1/query", l.query)
	mux.HandleFunc("GET /load", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, l.now()) })
	mux.HandleFunc("PUT /load/{node}", l.put)
	mux.HandleFunc("DELETE /load/{node}", func(w http.ResponseWriter, r *http.Request) {
		l.set(r.PathValue("node"), nil)
		w.WriteHeader(http.StatusNoContent)
	})
}

func (l *load) put(w http.ResponseWriter, r *http.Request) {
	var fresh Load
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxUserConfig)).Decode(&fresh); err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": `the body must be {"util": percent, "fb_used": MiB, "temp": degrees}`})
		return
	}
	l.set(r.PathValue("node"), &fresh)
	writeJSON(w, http.StatusOK, fresh)
}

// set changes the load of a node; nil takes its exporter away.
func (l *load) set(node string, fresh *Load) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fresh == nil {
		delete(l.nodes, node)
		return
	}
	l.nodes[node] = *fresh
}

func (l *load) now() map[string]Load {
	l.mu.Lock()
	nodes := maps.Clone(l.nodes)
	l.mu.Unlock()
	if l.drift {
		for name, at := range nodes {
			at.Utilisation = min(100, max(0, at.Utilisation+wave(name, time.Now())))
			nodes[name] = at
		}
	}
	return nodes
}

// wave is the drift of a node at a time; each node has its own phase.
func wave(node string, at time.Time) float64 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(node))
	phase := float64(sum.Sum32()%360) / 360
	turns := float64(at.UnixMilli())/float64(driftPeriod.Milliseconds()) + phase
	return math.Round(driftWidth*math.Sin(2*math.Pi*turns)*10) / 10
}

// term is one part of the service's query: the average of a metric over some nodes, and the name
// that the service gives it.
var term = regexp.MustCompile(`label_replace\(avg by \(` + gpuload.HostLabel + `\) \((\w+)\{` + gpuload.HostLabel + `=~("(?:[^"\\]|\\.)*")\}[^)]*\), "` +
	gpuload.ReadingLabel + `", "(\w+)", "", ""\)`)

var metrics = map[string]func(Load) float64{
	"DCGM_FI_DEV_GPU_UTIL": func(l Load) float64 { return l.Utilisation },
	"DCGM_FI_DEV_FB_USED":  func(l Load) float64 { return l.MemoryUsed },
	"DCGM_FI_DEV_GPU_TEMP": func(l Load) float64 { return l.Temperature },
}

type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// query answers the two instant queries that the service sends: the load of nodes, and the probe
// vector(1). It is no PromQL; anything else is an error as Prometheus gives it.
func (l *load) query(w http.ResponseWriter, r *http.Request) {
	text := r.FormValue("query")
	if text == "vector(1)" {
		writeVector(w, []sample{{map[string]string{}, valueNow(1)}})
		return
	}
	terms := term.FindAllStringSubmatch(text, -1)
	if len(terms) == 0 || strings.Trim(term.ReplaceAllString(text, ""), " or") != "" {
		writeJSON(w, http.StatusBadRequest, map[string]any{"status": "error", "errorType": "bad_data", "error": "the stand-in knows only the service's own queries"})
		return
	}
	result := []sample{}
	nodes := l.now()
	for _, t := range terms {
		read := metrics[t[1]]
		pattern, err := strconv.Unquote(t[2])
		if err != nil || read == nil {
			continue
		}
		hosts, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
		if err != nil {
			continue
		}
		for name, at := range nodes {
			if hosts.MatchString(name) {
				result = append(result, sample{
					map[string]string{gpuload.HostLabel: name, gpuload.ReadingLabel: t[3]}, valueNow(read(at)),
				})
			}
		}
	}
	writeVector(w, result)
}

func valueNow(value float64) [2]any {
	return [2]any{float64(time.Now().UnixMilli()) / 1000, strconv.FormatFloat(value, 'f', -1, 64)}
}

func writeVector(w http.ResponseWriter, result []sample) {
	writeJSON(w, http.StatusOK, map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
}
