package testkit_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"config-server/internal/testkit"
)

// get asks and returns the status (0 = no answer) and the body.
func get(t *testing.T, url string, limit time.Duration) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestPrometheusFollowsTheLoads(t *testing.T) {
	t.Parallel()
	server := testkit.Prometheus(t, testkit.GoldenLoads())
	query := server.URL + `/api/v1/query?query=avg(DCGM_FI_DEV_FB_USED{Hostname="farm6"})`
	if _, body := get(t, query, 10*time.Second); !strings.Contains(body, `"1000"`) {
		t.Errorf("used memory of farm6: %s", body)
	}
	server.SetLoads(t, map[string][]testkit.GPU{"farm6": {{Util: 1, Used: 2, Temp: 3}, {Util: 1, Used: 4, Temp: 3}}})
	if _, body := get(t, query, 10*time.Second); !strings.Contains(body, `"3"`) {
		t.Errorf("used memory of farm6 after the change: %s", body)
	}
	server.Stop()
	if status, body := get(t, query, 10*time.Second); status != 0 {
		t.Errorf("a stopped server answers %d %s", status, body)
	}
	server.Start(t)
	server.Freeze(t)
	if status, body := get(t, query, 200*time.Millisecond); status != 0 || !strings.Contains(body, "deadline") {
		t.Errorf("a frozen server answers %d %s", status, body)
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	server := testkit.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: net.JoinHostPort(server.Host, strconv.Itoa(server.Port)), MaxRetries: -1})
	defer client.Close()
	if err := client.Set(t.Context(), "a", "b", 0).Err(); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	if err := client.Get(t.Context(), "a").Err(); err == nil {
		t.Error("a stopped server answers")
	}
	server.Start(t)
	if err := client.Get(t.Context(), "a").Err(); err != redis.Nil {
		t.Errorf("after a restart: %v, want an empty server", err)
	}
}

func TestAdminBE(t *testing.T) {
	t.Parallel()
	server := testkit.AdminBE(t)
	server.Set("hangs", testkit.AdminBEAnswer{Hang: true})
	server.Set("breaks", testkit.AdminBEAnswer{Reset: true})
	server.SetConfig("noimage", map[string]any{"image": nil, "volume_size": 5})
	tests := []struct {
		name   string
		user   string
		status int
		body   string
	}{
		{"recorded user", "user2100", 200, `"additional_ports":[],"gpu_nodes":[{"cpu_limit":"4000m","memory_limit":"8192Mi","node_name":"FARM5"`},
		{"with a port", "portuser", 200, `"additional_ports":[{"internal_port":6006,"usage_purpose":"tensorboard"}]`},
		{"unknown node", "badnode1", 200, `"gpu_nodes":[{"cpu_limit":"4000m","memory_limit":"8192Mi","node_name":"ghost","num_gpu":2}]`},
		{"absent", "nouser1", 404, ""},
		{"absent, politely", "soft404", 200, `{"status":404}`},
		{"failing", "err500", 500, "{"},
		{"not JSON", "badjson", 200, "<html>"},
		{"no answer", "hangs", 0, "deadline"},
		{"broken connection", "breaks", 0, "EOF"},
		{"changed fields", "noimage", 200, `"username":"noimage","volume_size":5}`},
	}
	var asked []string
	for _, test := range tests {
		limit := 10 * time.Second
		if test.user == "hangs" {
			limit = 100 * time.Millisecond
		}
		status, body := get(t, strings.ReplaceAll(server.Template(), "{username}", test.user), limit)
		if status != test.status || !strings.Contains(body, test.body) {
			t.Errorf("%s: %d %s, want %d with %s", test.name, status, body, test.status, test.body)
		}
		asked = append(asked, test.user)
	}
	if got := server.Asked(); !slices.Equal(got, asked) {
		t.Errorf("asked: %v, want %v", got, asked)
	}
}

func TestDockerLoadsAnImage(t *testing.T) {
	t.Parallel()
	engine := testkit.Docker(t)
	path := filepath.Join(t.TempDir(), "user-kim.tar")
	if err := os.WriteFile(path, testkit.ImageTar(t, "user-kim:latest"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), engine.Bin, "load", "-i", path).CombinedOutput(); err != nil {
		t.Fatalf("load: %v: %s", err, out)
	}
	if got := engine.Images(t); !slices.Equal(got, []string{"user-kim:latest"}) {
		t.Errorf("images: %v", got)
	}
}

func TestServiceIsTheRealBinary(t *testing.T) {
	t.Parallel()
	cluster := testkit.Cluster(t)
	nas := testkit.SSHD(t, testkit.SSHDOptions{})
	service := testkit.Service(t, map[string]string{
		"BASE_ETC_DIR": t.TempDir(), "KUBECONFIG": cluster.ServiceKubeconfig(t), "NAMESPACE": cluster.Namespace,
		"NFS_SERVER": "192.0.2.30", "NAS_SSH_HOST": nas.Host, "NAS_SSH_PORT": strconv.Itoa(nas.Port),
		"NAS_SSH_USER": nas.User, "NAS_SSH_KEY_PATH": nas.KeyPath, "NAS_SSH_KNOWN_HOSTS": nas.KnownHosts,
	})
	if status, body := get(t, service.URL+"/health", 10*time.Second); status != 200 || body != "OK" {
		t.Errorf("health: %d %s", status, body)
	}
	service.Kill()
	if service.Alive() {
		t.Error("a killed process lives")
	}
	service.Start(t)
	service.Term()
	if got := service.Wait(t, 30*time.Second); got != "exit status 0" {
		t.Errorf("after SIGTERM: %s\n%s", got, service.Log(t))
	}
}

func TestGoldenReadsTheFile(t *testing.T) {
	t.Parallel()
	testkit.Golden(t, filepath.Join("testdata", "golden.txt"), []byte("golden\n"))
}
