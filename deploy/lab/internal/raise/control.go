package raise

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/site"
)

const apiServerPart = site.APIServer

// modules name the modules below parts whose pinned versions name the built programs.
var modules = map[string][2]string{
	"etcd": {"etcd", "go.etcd.io/etcd/server/v3"}, "helm": {"helm", "helm.sh/helm/v3"}, "kwok": {"kwok", "sigs.k8s.io/kwok"},
	"kube-apiserver": {"kubernetes", "k8s.io/kubernetes"}, "kube-controller-manager": {"kubernetes", "k8s.io/kubernetes"},
	"kubelet": {"kubernetes", "k8s.io/kubernetes"}, "kube-proxy": {"kubernetes", "k8s.io/kubernetes"},
}

// Built is the path of a program that parts/build.sh has built.
func (l *Lab) Built(name string) (string, error) {
	module := modules[name]
	text, err := os.ReadFile(filepath.Join(l.Checkout, "deploy", "lab", "parts", module[0], "go.mod"))
	if err != nil {
		return "", fmt.Errorf("find the version of %s: %w", name, err)
	}
	version := ""
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(strings.TrimPrefix(line, "require ")); len(fields) >= 2 && fields[0] == module[1] {
			version = fields[1]
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	path := filepath.Join(cache, "config-server", "bin", name+"-"+version)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s %s is not built: deploy/lab/parts/build.sh builds it, and make lab calls that", name, version)
	}
	return path, nil
}

// builtDaemon is a daemon that runs a built program.
func (l *Lab) builtDaemon(name, program, address, probe string, args ...string) (*daemon.Daemon, error) {
	path, err := l.Built(program)
	if err != nil {
		return nil, err
	}
	return l.daemon(&daemon.Daemon{Name: name, Path: path, Args: args}, address, probe)
}

// tokens writes who the API server knows by which token.
func (l *Lab) tokens() error {
	s := l.Site
	lines := []string{
		s.AdminToken + ",admin,admin,system:masters",
		s.ManagerToken + ",system:kube-controller-manager,manager",
		s.ProxyToken + ",system:kube-proxy,proxy",
	}
	for _, node := range s.Nodes {
		lines = append(lines, s.KubeletTokens[node.Name]+",system:node:"+node.Name+","+node.Name+",system:nodes")
		if err := l.kubeconfig(node.Name, s.KubeletTokens[node.Name], "", "default"); err != nil {
			return err
		}
	}
	for who, token := range map[string]string{"admin": s.AdminToken, "manager": s.ManagerToken, "proxy": s.ProxyToken} {
		if err := l.kubeconfig(who, token, "", site.Namespace); err != nil {
			return err
		}
	}
	return l.write(l.kube("tokens.csv"), strings.Join(lines, "\n")+"\n", 0o600)
}

// startControlPlane starts etcd and the API server, and makes what the cluster has from the start.
func (l *Lab) startControlPlane(ctx context.Context) error {
	etcd, err := l.etcd()
	if err != nil {
		return err
	}
	if err := l.start(ctx, etcd); err != nil {
		return err
	}
	server, err := l.apiServer()
	if err != nil {
		return err
	}
	if err := l.start(ctx, server); err != nil {
		return err
	}
	return l.makeObjects(ctx)
}

func (l *Lab) etcd() (*daemon.Daemon, error) {
	client, peer := l.Site.URL(site.Etcd), l.Site.URL(site.EtcdPeer)
	return l.builtDaemon("etcd", "etcd", l.Site.Address(site.Etcd), client+"/health",
		"--data-dir="+l.Site.Path("etcd"), "--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		// What the kernel has is safe enough for a lab.
		"--unsafe-no-fsync", "--log-level=warn")
}

func (l *Lab) apiServer() (*daemon.Daemon, error) {
	s := l.Site
	return l.builtDaemon("kube-apiserver", "kube-apiserver", s.Address(site.APIServer), "https://"+s.Address(site.APIServer)+"/readyz",
		"--etcd-servers="+s.URL(site.Etcd), "--service-cluster-ip-range="+site.ServiceCIDR,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+l.kube(tokenKeyFile),
		"--service-account-signing-key-file="+l.kube(tokenKeyFile),
		"--tls-cert-file="+l.kube(serverFile), "--tls-private-key-file="+l.kube(serverKeyFile), "--client-ca-file="+l.kube(caFile),
		"--kubelet-client-certificate="+l.kube(clientFile), "--kubelet-client-key="+l.kube(clientKeyFile),
		// Names of nodes do not resolve here.
		"--kubelet-preferred-address-types=InternalIP",
		"--cert-dir="+l.kube("certs"), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+strconv.Itoa(s.PortOf(site.APIServer)),
		"--token-auth-file="+l.kube("tokens.csv"), "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--service-node-port-range=30000-32767", "--endpoint-reconciler-type=none", "--allow-privileged=false", "--shutdown-delay-duration=0s")
}

// startControllers starts kube-controller-manager and kube-proxy.
func (l *Lab) startControllers(ctx context.Context) error {
	s := l.Site
	manager, err := l.builtDaemon("kube-controller-manager", "kube-controller-manager", s.Address(site.Manager), "https://"+s.Address(site.Manager)+"/healthz",
		"--kubeconfig="+s.Kubeconfig("manager"), "--use-service-account-credentials=true",
		"--service-account-private-key-file="+l.kube(tokenKeyFile), "--root-ca-file="+l.kube(caFile),
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(s.PortOf(site.Manager)), "--cert-dir="+l.kube("manager-certs"), "--leader-elect=false")
	if err != nil {
		return err
	}
	if err := l.start(ctx, manager); err != nil {
		return err
	}
	// NodePorts are served on 127.0.0.1 alone, and the machine's connection tracking is left as it is.
	config := `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
bindAddress: 127.0.0.1
healthzBindAddress: ` + s.Address(site.ProxyHealth) + `
metricsBindAddress: ` + s.Address(site.ProxyMetrics) + `
clientConnection: {kubeconfig: ` + s.Kubeconfig("proxy") + `}
clusterCIDR: ` + site.PodCIDR + `
detectLocalMode: ClusterCIDR
hostnameOverride: ` + s.Nodes[0].Name + `
nodePortAddresses: ["127.0.0.0/8"]
oomScoreAdj: 0
iptables: {syncPeriod: 30s, minSyncPeriod: 100ms}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`
	if err := l.write(l.kube("proxy.yaml"), config, 0o644); err != nil {
		return err
	}
	proxy, err := l.builtDaemon("kube-proxy", "kube-proxy", s.Address(site.ProxyHealth), s.URL(site.ProxyHealth)+"/livez", "--config="+l.kube("proxy.yaml"))
	if err != nil {
		return err
	}
	return l.start(ctx, proxy)
}

// startKwok starts the player of the nodes that are only there to be chosen from.
func (l *Lab) startKwok(ctx context.Context) error {
	s := l.Site
	kwok, err := l.builtDaemon("kwok", "kwok", s.Address(site.Kwok), s.URL(site.Kwok)+"/healthz",
		"--kubeconfig="+s.Kubeconfig("admin"), "--manage-nodes-with-annotation-selector="+kwokAnnotation+"=fake",
		"--node-lease-duration-seconds=40", "--cidr=10.215.0.1/24", "--node-ip=127.0.0.1", "--server-address="+s.Address(site.Kwok))
	if err != nil {
		return err
	}
	// It would read a configuration in the home folder too.
	kwok.Env = []string{"HOME=" + s.Path("kube")}
	return l.start(ctx, kwok)
}

const kwokAnnotation = "kwok.x-k8s.io/node"
