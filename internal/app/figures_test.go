package app

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"config-server/internal/config"
	"config-server/internal/obs"
)

const guide = "../../docs/operations.md"

// newIdle builds a service that reaches nobody and is not started.
func newIdle(t *testing.T) *App {
	t.Helper()
	c, err := config.Load([]string{
		"LISTEN_ADDR=127.0.0.1:0", "STATE_DIR=" + t.TempDir(), "BASE_ETC_DIR=" + t.TempDir(), "NFS_SERVER=192.0.2.30",
		"NAS_SSH_HOST=192.0.2.30", "NAS_SSH_USER=u", "NAS_SSH_KEY_PATH=/none",
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Config: c, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
	})
	return a
}

var described = regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// registered are the metrics that the service can have, with their labels.
func registered(t *testing.T) map[string]string {
	t.Helper()
	descs := make(chan *prometheus.Desc)
	registry := newIdle(t).parts.metrics.Registry()
	go func() { defer close(descs); registry.Describe(descs) }()
	metrics := map[string]string{}
	for desc := range descs {
		found := described.FindStringSubmatch(desc.String())
		if found == nil {
			t.Fatalf("a description that is not understood: %s", desc)
		}
		metrics[found[1]] = strings.ReplaceAll(found[2], ",", ", ")
	}
	return metrics
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var documented = regexp.MustCompile("(?m)^\\| `(config_server_[a-z_]+)` \\| (counter|gauge|histogram) \\| ([a-z_, ]*)\\| \\S.* \\|$")

func TestEveryMetricIsDocumentedAndNoOther(t *testing.T) {
	t.Parallel()
	real := registered(t)
	maps.DeleteFunc(real, func(name, _ string) bool { return !strings.HasPrefix(name, "config_server_") })
	told, kinds := map[string]string{}, map[string]string{}
	for _, row := range documented.FindAllStringSubmatch(read(t, guide), -1) {
		told[row[1]], kinds[row[1]] = strings.TrimSpace(row[3]), row[2]
	}
	if diff := cmp.Diff(real, told); diff != "" {
		t.Errorf("metrics and their labels in the registry and in the table of operations.md (-registry +table):\n%s", diff)
	}
	for name, kind := range kinds {
		if (kind == "counter") != strings.HasSuffix(name, "_total") {
			t.Errorf("%s is called a %s", name, kind)
		}
		if (kind == "histogram") != (strings.HasSuffix(name, "_seconds") && !regexp.MustCompile(`_(timestamp|interval)_seconds$`).MatchString(name)) {
			t.Errorf("%s is called a %s", name, kind)
		}
	}
}

// TestAScrapeAsksNobodyButTheDatabase scrapes a service whose share, API server and NAS are not there.
func TestAScrapeAsksNobodyButTheDatabase(t *testing.T) {
	t.Parallel()
	a := newIdle(t)
	if err := os.RemoveAll(a.config.Share.Dir); err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	a.parts.handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := answer.Body.String()
	if answer.Code != http.StatusOK || !strings.Contains(text, `config_server_nodeports{band="all",state="free"} 2768`) {
		t.Errorf("status %d:\n%s", answer.Code, text)
	}
	for _, line := range regexp.MustCompile(`(?m)^config_server_call_duration_seconds_count\{part="(\w+)"`).FindAllStringSubmatch(text, -1) {
		if line[1] != obs.PartDatabase {
			t.Errorf("the scrape called %s", line[1])
		}
	}
	if _, err := os.Stat(filepath.Join(a.config.Share.Dir, "passwd")); err == nil {
		t.Error("the scrape wrote the share")
	}
}
