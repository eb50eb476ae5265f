package raise

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/site"
)

// ServiceName is the name of config-server's process among the lab's.
const ServiceName = "config-server"

// service describes config-server: the checkout's own binary, with the rights of the chart.
func (l *Lab) service() (*daemon.Daemon, error) {
	binary := filepath.Join(l.Checkout, "bin", "config-server")
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("find the service: %w (make build builds it, and make lab calls that)", err)
	}
	env, err := l.ServiceEnv()
	if err != nil {
		return nil, err
	}
	d := &daemon.Daemon{Name: ServiceName, Path: binary, Args: []string{"serve"}, Dir: l.Site.Path("service")}
	for name, value := range env {
		d.Env = append(d.Env, name+"="+value)
	}
	sort.Strings(d.Env)
	return l.daemon(d, l.Site.URL(site.Service), l.Site.URL(site.Service)+"/readyz")
}

// ServiceEnv is the whole configuration of the service in the lab.
func (l *Lab) ServiceEnv() (map[string]string, error) {
	s := l.Site
	type farmNode struct {
		Name string `json:"name"`
		Host string `json:"host"`
		Port int    `json:"port"`
	}
	var nodes []farmNode
	for _, node := range s.Nodes {
		nodes = append(nodes, farmNode{Name: node.Name, Host: "127.0.0.1", Port: s.SSHPort(node)})
	}
	nodesJSON, err := json.Marshal(nodes)
	if err != nil {
		return nil, fmt.Errorf("describe the service: %w", err)
	}
	env := map[string]string{
		"KUBECONFIG": s.Kubeconfig("service"), "NAMESPACE": site.Namespace, "LISTEN_ADDR": s.Address(site.Service), "STATE_DIR": s.Path("service", "state"),
		"PROM_URL": s.URL(site.Prometheus), "WAS_URL_TEMPLATE": s.URL(site.AdminBE) + "/api/requests/config/{username}",
		"DB_HOST": "127.0.0.1", "DB_PORT": strconv.Itoa(s.PortOf(site.MariaDB)), "DB_USER": site.DBUser, "DB_PASSWORD": s.DBPassword, "DB_NAME": site.Database,
		"REDIS_HOST": "127.0.0.1", "REDIS_PORT": strconv.Itoa(s.PortOf(site.Redis)),
		"NAS_SSH_HOST": "127.0.0.1", "NAS_SSH_PORT": strconv.Itoa(s.PortOf(site.NAS)), "NAS_SSH_USER": site.NASUser,
		"NAS_SSH_KEY_PATH": s.Path("keys", "nas"), "NAS_SSH_KNOWN_HOSTS": s.Path("keys", "nas-known-hosts"), "NFS_USER_SHARE_PATH": site.SharePath,
		"FARM_SSH_USER": site.FarmUser, "FARM_SSH_KEY_PATH": s.Path("keys", "farm"), "FARM_SSH_KNOWN_HOSTS": s.Path("keys", "farm-known-hosts"), "FARM_NODES_JSON": string(nodesJSON),
		"HOME_VOLUME": "hostPath", "FARM_HOME_MOUNT_ROOT": site.SharePath, "BASE_ETC_DIR": s.Share(), "IMAGE_STORE_DIR": s.Path("image-store"),
		"SUDO_ALLOWED_COMMANDS": "/usr/bin/id", "IMAGE_PULL_POLICY": "Never",
		// A machine with two processors has room for a few workspaces only if they ask for little.
		"DEFAULT_CPU_REQUEST": "100m", "DEFAULT_CPU_LIMIT": "1000m", "DEFAULT_MEM_REQUEST": "64Mi", "DEFAULT_MEM_LIMIT": "512Mi",
		"RECONCILE_INTERVAL": "5s", "POD_READY_TIMEOUT": "40s", "ACCOUNT_SECRET": "true",
	}
	if s.UserConfigs != "" {
		env["WAS_URL_TEMPLATE"] = s.UserConfigs
	}
	if s.Kerberos {
		env["KRB5_REALM"], env["KRB5_KDC_HOST"] = site.Domain, s.Address(site.KDC)
		env["KRB5_ADMIN_PRINCIPAL"], env["KRB5_ADMIN_PASSWORD"] = site.KadminPrincipal, s.KadminPass
		env["KRB5_CONFIG"] = s.Path("kdc", "krb5.conf")
	}
	maps.Copy(env, l.Settings)
	return env, nil
}

func (l *Lab) startService(ctx context.Context) error {
	if err := os.MkdirAll(l.Site.Path("service", "state"), 0o755); err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	service, err := l.service()
	if err != nil {
		return err
	}
	return l.start(ctx, service)
}
