// Package demo plays the outside parts of a GPU farm inside one process, so that the service can be
// shown and tried without root and without any other program: an SSH server that is the NAS on a
// temporary folder, admin_be and Prometheus over HTTP, and client-go's fake clientset in front of
// a small API server with kubelets. Journey tours the service over HTTP and tells what it sees.
//
// Nothing here is proven by running on it: it shows how the service behaves, and the tests on real
// parts prove that it does.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"config-server/internal/cluster"
)

// The values of the demonstration farm that a caller can see in pods and commands.
const (
	namespace = "ailab-infra"
	sharePath = "/volume1/share/user"
	nasUser   = "farm-admin"
	nfsServer = "192.0.2.30"
)

// Options of the surroundings. Zero values mean the defaults given.
type Options struct {
	// StandIns is the address on which admin_be and Prometheus are played; 127.0.0.1:0.
	StandIns string
	// Slow is how long the pods of users slow* take to become Ready; 5 s.
	Slow time.Duration
	// ReadyLimit is the service's POD_READY_TIMEOUT, which pods of users never* run into; 15 s.
	ReadyLimit time.Duration
	// Drift lets the load of the nodes rise and fall with time. Without it only SetLoad changes it.
	Drift bool
}

// Surroundings are the stand-ins, running. Every method is safe for concurrent use.
type Surroundings struct {
	opts Options
	dir  string

	nas     *nasServer
	api     *apiServer
	kubelet *kubelet
	users   *userConfigs
	load    *load
	web     *http.Server
	webAddr string
	serving sync.WaitGroup

	mu      sync.Mutex
	cluster *cluster.Cluster // the last that Cluster made
}

// Start makes a temporary folder and begins every stand-in. The error names the one that this
// machine refuses; nothing is left then.
func Start(opts Options) (_ *Surroundings, err error) {
	if opts.StandIns == "" {
		opts.StandIns = "127.0.0.1:0"
	}
	if opts.Slow == 0 {
		opts.Slow = 5 * time.Second
	}
	if opts.ReadyLimit == 0 {
		opts.ReadyLimit = 15 * time.Second
	}
	s := &Surroundings{opts: opts, users: newUserConfigs(), load: newLoad(opts.Drift)}
	if s.dir, err = os.MkdirTemp("", "config-server-demo-"); err != nil {
		return nil, fmt.Errorf("make the folder of the demo: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, folder := range []string{s.path("etc"), s.path("state"), s.path("images"), s.path("homes")} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return nil, fmt.Errorf("make a folder of the demo: %w", err)
		}
	}
	if s.nas, err = startNAS(s.path("homes"), s.path("nas-key"), s.path("nas-known-hosts")); err != nil {
		return nil, fmt.Errorf("play the NAS: %w", err)
	}
	if s.api, err = newAPIServer(); err != nil {
		return nil, fmt.Errorf("play Kubernetes: %w", err)
	}
	s.kubelet = startKubelet(s.api, opts.Slow)
	if err = s.serve(); err != nil {
		return nil, fmt.Errorf("play admin_be and Prometheus: %w", err)
	}
	return s, nil
}

func (s *Surroundings) path(name string) string { return filepath.Join(s.dir, name) }

func (s *Surroundings) serve() error {
	listener, err := net.Listen("tcp", s.opts.StandIns)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.opts.StandIns, err)
	}
	s.webAddr = listener.Addr().String()
	mux := http.NewServeMux()
	s.users.register(mux)
	s.load.register(mux)
	s.web = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	s.serving.Go(func() { _ = s.web.Serve(listener) })
	return nil
}

// Environ is the configuration of a service that lives in these surroundings, as NAME=value. It is
// the environment that a deployment would set, and no more.
func (s *Surroundings) Environ() []string {
	host, port, _ := net.SplitHostPort(s.nas.address())
	return []string{
		"LISTEN_ADDR=127.0.0.1:0",
		"NAMESPACE=" + namespace,
		"STATE_DIR=" + s.path("state"),
		"BASE_ETC_DIR=" + s.path("etc"),
		"IMAGE_STORE_DIR=" + s.path("images"),
		"NFS_SERVER=" + nfsServer,
		"NFS_USER_SHARE_PATH=" + sharePath,
		"NAS_SSH_HOST=" + host,
		"NAS_SSH_PORT=" + port,
		"NAS_SSH_USER=" + nasUser,
		"NAS_SSH_KEY_PATH=" + s.path("nas-key"),
		"NAS_SSH_KNOWN_HOSTS=" + s.path("nas-known-hosts"),
		"PROM_URL=http://" + s.webAddr,
		"WAS_URL_TEMPLATE=http://" + s.webAddr + userConfigPath + "{username}",
		"SUDO_ALLOWED_COMMANDS=/usr/bin/apt,/usr/bin/apt-get",
		"POD_READY_TIMEOUT=" + strconv.FormatFloat(s.opts.ReadyLimit.Seconds(), 'f', -1, 64),
		"DRAIN_TIMEOUT=5s",
		"PROJECTS=on",
	}
}

// Cluster is the connection to the Kubernetes that is played here, in the shape in which the
// service takes one.
func (s *Surroundings) Cluster(opts cluster.Options) *cluster.Cluster {
	opts.Exec, opts.Logs, opts.Objects = s.kubelet.exec, s.kubelet.logs, objects
	made := cluster.New(s.api.client, opts)
	s.mu.Lock()
	s.cluster = made
	s.mu.Unlock()
	return made
}

// WaitSynced waits until the service's view of the cluster stands, or ctx is done. Nothing needs
// it but a tour whose ports are foretold: before that, a port that somebody else has is found out
// by trying it.
func (s *Surroundings) WaitSynced(ctx context.Context) {
	s.mu.Lock()
	made := s.cluster
	s.mu.Unlock()
	if made != nil {
		made.WaitSynced(ctx)
	}
}

// LogPath is a file for the service's log that goes with the folder.
func (s *Surroundings) LogPath() string { return s.path("service.log") }

// Address is the host and port at which admin_be and Prometheus are played.
func (s *Surroundings) Address() string { return s.webAddr }

// Dir is the temporary folder: etc is the share with passwd, homes is the NAS.
func (s *Surroundings) Dir() string { return s.dir }

// SetLoad changes what Prometheus tells of a node.
func (s *Surroundings) SetLoad(node string, load Load) { s.load.set(node, &load) }

// Close ends every stand-in and removes the folder. The service has to be stopped before.
func (s *Surroundings) Close() error {
	var errs []error
	if s.web != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := s.web.Shutdown(ctx); err != nil {
			errs = append(errs, s.web.Close())
		}
		s.serving.Wait()
	}
	if s.kubelet != nil {
		s.kubelet.close()
	}
	if s.api != nil {
		s.api.store.close()
	}
	if s.nas != nil {
		errs = append(errs, s.nas.close())
	}
	if err := os.RemoveAll(s.dir); err != nil {
		errs = append(errs, fmt.Errorf("remove the folder of the demo: %w", err))
	}
	return errors.Join(errs...)
}
