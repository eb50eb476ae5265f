package app

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"config-server/internal/cluster"
	"config-server/internal/config"
	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
	"config-server/internal/testkit/world"
)

// Limits of the service on a stand: short, so that what hangs costs little. A machine that is too
// busy for them gets patience times as long.
const (
	standCallLimit = 1500 * time.Millisecond // of one call to the API server
	standLimit     = 90 * time.Second        // of a whole row: beyond it something hangs that must not
	patience       = 4
)

// limits are the settings that bound the service's waits.
func limits(times float64) map[string]string {
	env := map[string]string{}
	for name, seconds := range map[string]float64{
		"HTTP_TIMEOUT_SEC": 0.7, "POD_READY_TIMEOUT": 1.5, "POD_DELETE_TIMEOUT": 2, "IMAGE_LOAD_TIMEOUT": 1, "IMAGE_SAVE_TIMEOUT": 1,
		"POD_REQUEST_BUDGET": 5, "ACCOUNT_REQUEST_BUDGET": 3, "UNDO_RESERVE": 5, "DRAIN_TIMEOUT": 5,
	} {
		env[name] = fmt.Sprintf("%.1f", seconds*times)
	}
	return env
}

// wait makes all limits of the service so many times as long as usual.
func (s *stand) wait(t testing.TB, times int) {
	t.Helper()
	s.times = times
	maps.Copy(s.Env, limits(float64(times)))
	s.restart(t, nil, true)
}

// stand is a farm of real parts with a fault proxy in front of each, and the service in this process
// on it. Rows of the fault table run on it one after the other.
type stand struct {
	*world.World
	kube kubernetes.Interface // with every right, past the proxy
	db   *sql.DB              // past the proxy
	api  *faultproxy.HTTP
	prom *faultproxy.HTTP
	sql  *faultproxy.MySQL
	disk string // the file system of the share, small and its own
	pod  string // that the present row is about

	times int // as long as usual are the limits
	app   *App
	env   map[string]string // that the app runs with
	seen  *recorder
	log   *bytes.Buffer
	mu    sync.Mutex // of log
}

// newStand raises a stand. Its NodePorts are those of its number, so that stands do not meet in
// the cluster that they share.
func newStand(t testing.TB, f *farmOfFaults) *stand {
	t.Helper()
	number, prom := int(f.stands.Add(1)), f.prom
	mariaDB := testkit.MariaDB(t)
	s := &stand{log: &bytes.Buffer{}, times: 1, World: &world.World{
		Cluster: testkit.Cluster(t), MariaDB: mariaDB, Database: mariaDB.NewDatabase(t), NAS: testkit.SSHD(t, testkit.SSHDOptions{}),
		Prom: prom, AdminBE: testkit.AdminBE(t), Images: t.TempDir(),
	}}
	s.kube = s.Cluster.Admin(t)
	s.db = mariaDB.Open(t, s.Database)
	s.mountShare(t)
	transport, err := rest.TransportFor(plainHTTP(s.Cluster.ServiceConfig()))
	if err != nil {
		t.Fatal(err)
	}
	s.api = faultproxy.NewHTTP(t, s.Cluster.ServiceConfig().Host, transport)
	s.prom = faultproxy.NewHTTP(t, prom.URL, nil)
	s.sql = faultproxy.NewMySQL(t, net.JoinHostPort(mariaDB.Host, strconv.Itoa(mariaDB.Port)))
	s.Env = map[string]string{
		"LISTEN_ADDR": "127.0.0.1:0", "STATE_DIR": filepath.Join(t.TempDir(), "state"), "NAMESPACE": s.Cluster.Namespace,
		"DB_HOST": s.sql.Host, "DB_PORT": strconv.Itoa(s.sql.Port), "DB_USER": mariaDB.User, "DB_PASSWORD": mariaDB.Password, "DB_NAME": s.Database,
		"NAS_SSH_HOST": s.NAS.Host, "NAS_SSH_PORT": strconv.Itoa(s.NAS.Port), "NAS_SSH_USER": s.NAS.User,
		"NAS_SSH_KEY_PATH": s.NAS.KeyPath, "NAS_SSH_KNOWN_HOSTS": s.NAS.KnownHosts, "NFS_USER_SHARE_PATH": s.NAS.Share,
		"NFS_SERVER": "192.0.2.30", "PROM_URL": s.prom.URL, "WAS_URL_TEMPLATE": s.AdminBE.Template(),
		"BASE_ETC_DIR": s.Share, "IMAGE_STORE_DIR": s.Images, "SUDO_ALLOWED_COMMANDS": "/usr/bin/apt",
		"NODEPORT_MIN": strconv.Itoa(30500 + 40*number), "NODEPORT_MAX": strconv.Itoa(30539 + 40*number),
		"RECONCILE_INTERVAL": "0",
	}
	maps.Copy(s.Env, limits(1))
	s.start(t, nil, true)
	t.Cleanup(func() { s.stop(t) })
	s.must(t, http.MethodPut, "/accounts/users", `{"name":"first","passwd_base64":"cGFzc3dvcmQ=","supplementary_groups":[{"name":"ailab","gid":20005}]}`)
	return s
}

// plainHTTP keeps a proxy's connections to the API server at HTTP/1.1, because upgrades for exec
// need it.
func plainHTTP(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.TLSClientConfig.NextProtos = []string{"http/1.1"}
	return config
}

// mountShare gives the share a file system of its own, which a row may fill to the last byte.
func (s *stand) mountShare(t testing.TB) {
	t.Helper()
	s.disk = t.TempDir()
	if err := syscall.Mount("tmpfs", s.disk, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatalf("mount a small disk for the share: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(s.disk, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount the disk of the share: %v", err)
		}
	})
	s.Share = filepath.Join(s.disk, "share")
	if err := os.Mkdir(s.Share, 0o755); err != nil {
		t.Fatal(err)
	}
}

// fill takes all space of the share's disk but so many pages.
func (s *stand) fill(t testing.TB, free int64) {
	t.Helper()
	var room syscall.Statfs_t
	if err := syscall.Statfs(s.disk, &room); err != nil {
		t.Fatal(err)
	}
	filler := make([]byte, max(0, int64(room.Bavail)-free)*room.Bsize)
	if err := os.WriteFile(s.filler(), filler, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *stand) filler() string { return filepath.Join(s.disk, "filler") }

// Write collects the service's log, which a row that is not as it should be shows.
func (s *stand) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

// start runs the service with env over the stand's own. Recovery runs only when a row says so.
func (s *stand) start(t testing.TB, env map[string]string, synced bool) {
	t.Helper()
	s.env = maps.Clone(s.Env)
	maps.Copy(s.env, env)
	var lines []string
	for name, value := range s.env {
		lines = append(lines, name+"="+value)
	}
	c, err := config.Load(lines)
	if err != nil {
		t.Fatal(err)
	}
	s.app, err = New(Options{
		Config: c, Log: slog.New(slog.NewTextHandler(s, nil)),
		Cluster: func(opts cluster.Options) *cluster.Cluster {
			opts.CallLimit = standCallLimit * time.Duration(s.times)
			return cluster.FromREST(&rest.Config{Host: s.api.URL}, opts)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.seen = &recorder{next: s.app.server.Handler}
	s.app.server.Handler = s.seen
	ctx, cancel := context.WithCancel(context.Background())
	s.app.background = cancel
	s.app.parts.cluster.Start(ctx)
	s.app.loops.Go(func() { _ = s.app.server.Serve(s.app.listener) })
	if !synced {
		return
	}
	wait, stop := context.WithTimeout(t.Context(), standLimit)
	defer stop()
	if !s.app.parts.cluster.WaitSynced(wait) {
		t.Fatal("the watches have no first state")
	}
	if err := s.app.parts.database.Ready(wait); err != nil {
		t.Fatal(err)
	}
}

func (s *stand) stop(t testing.TB) {
	t.Helper()
	if err := s.app.Stop(); err != nil {
		t.Errorf("stop the service: %v", err)
	}
}

// restart runs the service anew.
func (s *stand) restart(t testing.TB, env map[string]string, synced bool) {
	t.Helper()
	s.stop(t)
	s.start(t, env, synced)
}

// lockFile is the file of a named lock.
func (s *stand) lockFile(name string) string {
	return filepath.Join(s.env["STATE_DIR"], "locks", strings.ReplaceAll(name, "/", "%2F")+".lock")
}

// loseLock takes the lock of that name from the service: somebody removes the file under it.
func (s *stand) loseLock(name string) { _ = os.Remove(s.lockFile(name)) }

// answer is what the service said, to whom it may concern.
type answer struct {
	status int
	body   map[string]any
	gone   bool // nobody was there to hear it
}

// send sends one request and waits until the service has done with it, whether or not the client
// waits for that.
func (s *stand) send(t testing.TB, method, path, body string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), standLimit)
	defer cancel()
	one := s.seen.expect(cancel)
	base := "http://" + s.app.Addr().String()
	_, err := world.Send(ctx, base, method, path, body)
	select {
	case <-one.done:
	case <-time.After(standLimit):
		t.Errorf("%s %s: the service has not done with it after %s (%v)", method, path, standLimit, err)
		return answer{gone: true}
	}
	a := answer{status: one.status, gone: err != nil}
	if err := json.Unmarshal(one.body.Bytes(), &a.body); err != nil {
		t.Errorf("%s %s: the answer is no JSON object: %s", method, path, one.body.String())
	}
	return a
}

// must sends a request of which the rows that follow need the success. A machine that is too busy
// for it is asked again, a few times.
func (s *stand) must(t testing.TB, method, path, body string) answer {
	t.Helper()
	a := s.send(t, method, path, body)
	for range 3 {
		if a.status < http.StatusInternalServerError {
			break
		}
		a = s.send(t, method, path, body)
	}
	if a.status/100 != 2 {
		t.Fatalf("%s %s %s: %d %v\n%s", method, path, body, a.status, a.body, s.takeLog())
	}
	return a
}

func (s *stand) takeLog() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.log.String()
	s.log.Reset()
	return text
}

// leave has the client go away in the midst of its request, and returns when the service knows it.
func (s *stand) leave() { s.seen.leave() }

// recorder keeps what the service answers, and tells when it has done with a request.
type recorder struct {
	next http.Handler

	mu  sync.Mutex
	now *seen
}

// seen is one request.
type seen struct {
	giveUp func()
	began  chan struct{}
	known  chan struct{} // closed when the service knows that its caller is gone
	done   chan struct{}
	status int
	body   bytes.Buffer
}

func (r *recorder) expect(giveUp func()) *seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = &seen{giveUp: giveUp, began: make(chan struct{}), known: make(chan struct{}), done: make(chan struct{})}
	return r.now
}

func (r *recorder) current() *seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *recorder) leave() {
	one := r.current()
	one.giveUp()
	select {
	case <-one.known:
	case <-time.After(standLimit):
	}
}

// ServeHTTP serves the request and keeps the answer.
func (r *recorder) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	one := r.current()
	close(one.began)
	defer close(one.done)
	stop := context.AfterFunc(request.Context(), func() { close(one.known) })
	defer stop()
	r.next.ServeHTTP(&keeper{ResponseWriter: w, seen: one}, request)
}

type keeper struct {
	http.ResponseWriter
	seen *seen
}

// WriteHeader keeps the status.
func (k *keeper) WriteHeader(status int) {
	k.seen.status = status
	k.ResponseWriter.WriteHeader(status)
}

// Write keeps the body.
func (k *keeper) Write(p []byte) (int, error) {
	k.seen.body.Write(p)
	return k.ResponseWriter.Write(p)
}

// Unwrap lets the service reach the connection.
func (k *keeper) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// text is a value of the answer as text.
func (a answer) text(key string) string {
	if a.body[key] == nil {
		return ""
	}
	return fmt.Sprint(a.body[key])
}

// arrived tells whether the service has the request that was sent last.
func (r *recorder) arrived() bool {
	select {
	case <-r.current().began:
		return true
	default:
		return false
	}
}
