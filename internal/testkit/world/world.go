// Package world is a whole farm of real parts for one test: API server, MariaDB, NAS, Prometheus,
// admin_be and an empty share, with the nodes and loads of the recording, and the service's real
// binary running on them with the rights of the chart.
package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
	"config-server/internal/testkit"
)

// Nodes are those that every cluster of its own has, as in the recording: farm8 has no metrics.
var Nodes = []string{"farm5", "farm6", "farm7", "farm8"}

// World is one farm. Its parts are there to be looked at and broken.
type World struct {
	Cluster  *testkit.KubeCluster
	MariaDB  *testkit.MariaDBServer
	Database string
	NAS      *testkit.SSHDServer
	Prom     *testkit.PrometheusServer
	AdminBE  *testkit.AdminBEServer
	Share    string // BASE_ETC_DIR, empty at first
	Images   string // IMAGE_STORE_DIR, empty
	Env      map[string]string
}

// Options of a world.
type Options struct {
	// OwnMariaDB gives the world a database server that it may stop; else it shares one.
	OwnMariaDB bool
	// Cluster is the world's; nil = it starts one.
	Cluster *testkit.KubeCluster
	Env     map[string]string // beside and over the world's own
}

// New raises a farm with an API server of its own. It ends with the test.
func New(t testing.TB, opts Options) *World {
	t.Helper()
	if opts.Cluster == nil {
		opts.Cluster = testkit.OwnCluster(t)
	}
	w := &World{
		Cluster: opts.Cluster,
		NAS:     testkit.SSHD(t, testkit.SSHDOptions{}),
		Prom:    testkit.Prometheus(t, testkit.GoldenLoads()),
		AdminBE: testkit.AdminBE(t),
		Share:   t.TempDir(),
		Images:  t.TempDir(),
	}
	if opts.OwnMariaDB {
		w.MariaDB = testkit.OwnMariaDB(t)
	} else {
		w.MariaDB = testkit.MariaDB(t)
	}
	w.Database = w.MariaDB.NewDatabase(t)
	w.Env = map[string]string{
		"KUBECONFIG": w.Cluster.ServiceKubeconfig(t), "NAMESPACE": w.Cluster.Namespace,
		"DB_HOST": w.MariaDB.Host, "DB_PORT": strconv.Itoa(w.MariaDB.Port), "DB_USER": w.MariaDB.User,
		"DB_PASSWORD": w.MariaDB.Password, "DB_NAME": w.Database,
		"NAS_SSH_HOST": w.NAS.Host, "NAS_SSH_PORT": strconv.Itoa(w.NAS.Port), "NAS_SSH_USER": w.NAS.User,
		"NAS_SSH_KEY_PATH": w.NAS.KeyPath, "NAS_SSH_KNOWN_HOSTS": w.NAS.KnownHosts, "NFS_USER_SHARE_PATH": w.NAS.Share,
		"NFS_SERVER": "192.0.2.30", "PROM_URL": w.Prom.URL, "WAS_URL_TEMPLATE": w.AdminBE.Template(),
		"BASE_ETC_DIR": w.Share, "IMAGE_STORE_DIR": w.Images,
	}
	maps.Copy(w.Env, opts.Env)
	return w
}

// Service runs the real binary in this world, with env over the world's own.
func (w *World) Service(t testing.TB, env map[string]string) *testkit.ServiceProcess {
	t.Helper()
	s := w.NewService(t, testkit.Build{}, env)
	s.Start(t)
	return s
}

// NewService is Service of another build, and without the start.
func (w *World) NewService(t testing.TB, build testkit.Build, env map[string]string) *testkit.ServiceProcess {
	t.Helper()
	full := maps.Clone(w.Env)
	maps.Copy(full, env)
	return testkit.NewService(t, build, full)
}

// Environ is the world's environment as NAME=value lines.
func (w *World) Environ() []string {
	var lines []string
	for name, value := range w.Env {
		lines = append(lines, name+"="+value)
	}
	return lines
}

// Answer is what the service said.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	JSON   map[string]any // nil if the body is no JSON object
}

// Text is the value of a key of the answer as text.
func (a Answer) Text(key string) string {
	if a.JSON[key] == nil {
		return ""
	}
	return fmt.Sprint(a.JSON[key])
}

// Send sends a request and reads the answer. The body is JSON text; empty = none. The error is that
// of the connection.
func Send(ctx context.Context, base, method, path, body string) (Answer, error) {
	return SendBy(ctx, http.DefaultClient, base, method, path, body)
}

// SendBy is Send by a client of the caller's.
func SendBy(ctx context.Context, client *http.Client, base, method, path, body string) (Answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	answer := Answer{Status: response.StatusCode, Header: response.Header}
	if answer.Body, err = io.ReadAll(response.Body); err != nil {
		return Answer{}, err
	}
	decoder := json.NewDecoder(bytes.NewReader(answer.Body))
	decoder.UseNumber()
	_ = decoder.Decode(&answer.JSON)
	return answer, nil
}

// Call is Send that fails the test if there is no answer or another status.
func Call(t testing.TB, base, method, path, body string, status int) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	answer, err := Send(ctx, base, method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if answer.Status != status {
		t.Fatalf("%s %s %s: status %d, want %d: %s", method, path, body, answer.Status, status, answer.Body)
	}
	return answer
}

// UserBody is the body of PUT /accounts/users for a plain user.
func UserBody(name string) string {
	return fmt.Sprintf(`{"name":%q,"passwd_base64":"cGFzc3dvcmQ="}`, name)
}

// Pods lists the workspace pods, as the API server has them.
func (w *World) Pods(t testing.TB) []corev1.Pod {
	t.Helper()
	list, err := w.Cluster.Admin(t).CoreV1().Pods(w.Cluster.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: farm.LabelApp + "=" + farm.AppGuest})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// Services lists the workspace Services, as the API server has them.
func (w *World) Services(t testing.TB) []corev1.Service {
	t.Helper()
	list, err := w.Cluster.Admin(t).CoreV1().Services(w.Cluster.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: farm.LabelApp + "=" + farm.AppNodePort})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// Rows maps each reserved NodePort to its pod, as the database has them.
func (w *World) Rows(t testing.TB) map[int]string {
	t.Helper()
	rows := map[int]string{}
	if !w.tableExists(t, "nodeport_allocations") {
		return rows
	}
	result, err := w.MariaDB.Open(t, w.Database).QueryContext(t.Context(), "SELECT node_port, pod_name FROM nodeport_allocations")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = result.Close() }()
	for result.Next() {
		var port int
		var pod string
		if err := result.Scan(&port, &pod); err != nil {
			t.Fatal(err)
		}
		rows[port] = pod
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// Operations counts the records of operations that are not ended.
func (w *World) Operations(t testing.TB) int {
	t.Helper()
	if !w.tableExists(t, "config_server_operations") {
		return 0
	}
	var n int
	if err := w.MariaDB.Open(t, w.Database).QueryRowContext(t.Context(), "SELECT COUNT(*) FROM config_server_operations").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (w *World) tableExists(t testing.TB, table string) bool {
	t.Helper()
	var n int
	err := w.MariaDB.Open(t, w.Database).QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = ? AND table_name = ?", w.Database, table).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// Homes lists the names of the homes on the NAS.
func (w *World) Homes(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(w.NAS.ShareDir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// ShareFiles maps each file of the share, by its path below it, to its content.
func (w *World) ShareFiles(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(w.Share, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(w.Share, path)
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
