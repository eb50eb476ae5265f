package testkit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// GPU is what the exporter says about one GPU.
type GPU struct {
	Util float64 // percent
	Used float64 // MiB of frame buffer
	Temp float64 // degrees Celsius
}

// GoldenLoads are the loads of the recorded surroundings: two equal GPUs each on farm5, farm6 and
// farm7, and no series for farm8.
func GoldenLoads() map[string][]GPU {
	return map[string][]GPU{
		"farm5": {{80, 20000, 70}, {80, 20000, 70}},
		"farm6": {{10, 1000, 40}, {10, 1000, 40}},
		"farm7": {{50, 8000, 60}, {50, 8000, 60}},
	}
}

// PrometheusServer is a running Prometheus that scrapes, ten times a second, an exporter in this
// process which speaks as NVIDIA's DCGM exporter does.
type PrometheusServer struct {
	URL string

	proc     *process
	exporter *exporter
}

// Prometheus starts a server for this test with the given loads by node, and returns when it answers
// with them.
func Prometheus(t testing.TB, loads map[string][]GPU) *PrometheusServer {
	t.Helper()
	exporter := new(exporter)
	target := httptest.NewServer(exporter)
	t.Cleanup(target.Close)
	exporter.set(loads)
	server := startPrometheus(t, "global: {scrape_interval: 100ms, scrape_timeout: 100ms}\n"+
		"scrape_configs: [{job_name: dcgm, honor_labels: true, static_configs: [{targets: ['"+target.Listener.Addr().String()+"']}]}]\n")
	server.exporter = exporter
	server.waitForLoads(t, loads)
	return server
}

// Scraper starts a server for this test that scrapes the /metrics of a service at host:port every
// second, and evaluates the rules of a file as often. It returns when the first scrape is done.
func Scraper(t testing.TB, target, rules string) *PrometheusServer {
	t.Helper()
	rules, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	server := startPrometheus(t, "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: ['"+rules+"']\n"+
		"scrape_configs: [{job_name: scraped, static_configs: [{targets: ['"+target+"']}]}]\n")
	WaitFor(t, startLimit, "the first scrape", func(ctx context.Context) error {
		var answer struct{ Data struct{ Result []any } }
		if err := server.Ask(ctx, "/api/v1/query?query="+url.QueryEscape(`up{job="scraped"} == 1`), &answer); err != nil {
			return err
		}
		if len(answer.Data.Result) == 0 {
			return fmt.Errorf("%s is not scraped yet", target)
		}
		return nil
	})
	return server
}

// startPrometheus runs a server with this configuration until the test ends.
func startPrometheus(t testing.TB, config string) *PrometheusServer {
	t.Helper()
	Need(t, "Prometheus", "prometheus", "prometheus")
	program, err := lookProgram("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	dir := testPartDir(t, "prometheus")
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + strconv.Itoa(ports[0])
	server := &PrometheusServer{URL: "http://" + address}
	server.proc = &process{
		name: "prometheus", path: program, dir: dir, log: filepath.Join(dir, "prometheus.log"),
		args: []string{
			"--config.file=" + filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=" + address, "--log.level=warn",
		},
		ready: probe(server.URL+"/-/ready", nil, ""),
	}
	manage(t, server.proc)
	return server
}

// Ask sends a GET to the server's API and decodes the answer. An answer other than 2xx is an error with
// what it says.
func (s *PrometheusServer) Ask(ctx context.Context, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		return err
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("read the answer of Prometheus: %w", err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Errorf("prometheus answers %s: %s", res.Status, body)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("read the answer of Prometheus: %w", err)
	}
	return nil
}

// SetLoads changes the loads and returns when the server answers with them.
func (s *PrometheusServer) SetLoads(t testing.TB, loads map[string][]GPU) {
	t.Helper()
	s.exporter.set(loads)
	s.waitForLoads(t, loads)
}

// Stop ends the server: connecting is refused.
func (s *PrometheusServer) Stop() { s.proc.stop() }

// Start starts a stopped server again.
func (s *PrometheusServer) Start(t testing.TB) {
	t.Helper()
	controlled{s.proc}.restart(t)
}

// Freeze makes the server accept connections and never answer, until Thaw.
func (s *PrometheusServer) Freeze(t testing.TB) {
	t.Helper()
	controlled{s.proc}.freeze(t)
}

// Thaw lets a frozen server go on.
func (s *PrometheusServer) Thaw(t testing.TB) {
	t.Helper()
	controlled{s.proc}.thaw(t)
}

// waitForLoads waits until each series has the value that the exporter shows, and no others are left.
func (s *PrometheusServer) waitForLoads(t testing.TB, loads map[string][]GPU) {
	t.Helper()
	want := make(map[string]float64)
	for node, gpus := range loads {
		for i, gpu := range gpus {
			for name, value := range gpu.series() {
				want[fmt.Sprintf("%s %s %d", name, node, i)] = value
			}
		}
	}
	WaitFor(t, startLimit, "the loads in Prometheus", func(ctx context.Context) error {
		got, err := s.loads(ctx)
		if err != nil {
			return err
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("it has %v, want %v", got, want)
		}
		return nil
	})
}

// loads asks for all series of the exporter.
func (s *PrometheusServer) loads(ctx context.Context) (map[string]float64, error) {
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := s.Ask(ctx, "/api/v1/query?query="+url.QueryEscape(`{__name__=~"DCGM_FI_DEV_.*"}`), &answer); err != nil {
		return nil, err
	}
	found := make(map[string]float64)
	for _, series := range answer.Data.Result {
		text, _ := series.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("read the answer of Prometheus: %w", err)
		}
		found[fmt.Sprintf("%s %s %s", series.Metric["__name__"], series.Metric["Hostname"], series.Metric["gpu"])] = value
	}
	return found, nil
}

func (g GPU) series() map[string]float64 {
	return map[string]float64{"DCGM_FI_DEV_GPU_UTIL": g.Util, "DCGM_FI_DEV_FB_USED": g.Used, "DCGM_FI_DEV_GPU_TEMP": g.Temp}
}

// exporter serves the loads in the exposition format.
type exporter struct {
	mu    sync.Mutex
	loads map[string][]GPU
}

func (e *exporter) set(loads map[string][]GPU) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.loads = loads
}

func (e *exporter) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	lines := make(map[string][]string)
	for _, node := range slices.Sorted(maps.Keys(e.loads)) {
		for i, gpu := range e.loads[node] {
			for name, value := range gpu.series() {
				lines[name] = append(lines[name], fmt.Sprintf("%s{gpu=\"%d\",UUID=\"GPU-%s-%d\",device=\"nvidia%d\",modelName=\"Test GPU\",Hostname=\"%s\"} %g", name, i, node, i, i, node, value))
			}
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		_, _ = io.WriteString(w, "# TYPE "+name+" gauge\n"+strings.Join(lines[name], "\n")+"\n")
	}
}
