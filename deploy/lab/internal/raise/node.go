package raise

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/machine"
	"config-server/deploy/lab/internal/site"
)

// nodeDir is the folder of a node's programs.
func (l *Lab) nodeDir(node site.Node, parts ...string) string {
	return l.Site.Path(append([]string{"nodes", node.Name}, parts...)...)
}

// nodeMachine is the machine on which a node's programs run.
func (l *Lab) nodeMachine(node site.Node) (*daemon.Daemon, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("describe node %s: %w", node.Name, err)
	}
	spec := machine.Spec{
		Name: node.Name, Scratch: l.Site.Scratch(node.Name), Cgroup: node.Cgroup(),
		// What was built is needed inside even where the cache is on a disk of its own.
		Shared: []string{l.Site.Dir, cache},
		Binds:  map[string]string{site.SharePath: l.Site.Homes()},
	}
	for gpu := range node.GPUs {
		spec.Devices = append(spec.Devices, "nvidia"+strconv.Itoa(gpu))
	}
	spec.Devices = append(spec.Devices, "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
	spec.Files = l.farmNodeFiles(node)
	return l.machine(spec)
}

// machine describes a played machine.
func (l *Lab) machine(spec machine.Spec) (*daemon.Daemon, error) {
	if err := os.MkdirAll(spec.Scratch, 0o755); err != nil {
		return nil, fmt.Errorf("describe machine %s: %w", spec.Name, err)
	}
	d, err := machine.Daemon(l.Program, spec, l.Site.RunDir(), l.Site.LogDir())
	if err != nil {
		return nil, err
	}
	return l.daemon(d, "", "")
}

// startMachine starts a machine after the end of whatever is left of a former one: a session of its
// sshd, say, would go on beside the new one and be talked to.
func (l *Lab) startMachine(ctx context.Context, host *daemon.Daemon, cgroup string) error {
	if !host.Current() {
		if cgroup != "" {
			if err := clearCgroup(ctx, cgroup); err != nil {
				return err
			}
		}
		if err := l.endMachine(ctx, host.Name); err != nil {
			return err
		}
	}
	return l.start(ctx, host)
}

// startRuntime starts a node's machine and its containerd, and gives it the images.
func (l *Lab) startRuntime(ctx context.Context, node site.Node) error {
	if err := l.bridge(ctx, node); err != nil {
		return err
	}
	host, err := l.nodeMachine(node)
	if err != nil {
		return err
	}
	if err := l.startMachine(ctx, host, node.Cgroup()); err != nil {
		return err
	}
	runtime, err := l.containerd(node, host)
	if err != nil {
		return err
	}
	if err := l.start(ctx, runtime); err != nil {
		return err
	}
	return l.importImages(ctx, node)
}

// bridge makes the interface of the node's pods, whose address is the node's.
func (l *Lab) bridge(ctx context.Context, node site.Node) error {
	if _, err := run(ctx, "ip", "link", "show", node.Bridge()); err != nil {
		if _, err := run(ctx, "ip", "link", "add", node.Bridge(), "type", "bridge"); err != nil {
			return err
		}
	}
	if _, err := run(ctx, "ip", "addr", "replace", node.Gateway()+"/24", "dev", node.Bridge()); err != nil {
		return err
	}
	_, err := run(ctx, "ip", "link", "set", node.Bridge(), "up")
	return err
}

func (l *Lab) containerd(node site.Node, host *daemon.Daemon) (*daemon.Daemon, error) {
	namespace, err := namespaceOf(host)
	if err != nil {
		return nil, err
	}
	socket := l.Site.Containerd(node)
	config := `version = 2
root = "` + l.nodeDir(node, "containerd") + `"
state = "` + l.nodeDir(node, "containerd-state") + `"
[grpc]
  address = "` + socket + `"
[ttrpc]
  address = "` + socket + `.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "` + l.nodeDir(node, "opt") + `"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + site.PauseImage + `"
  # A machine without CAP_SYS_RESOURCE cannot lower the score, and every pod would fail.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "` + l.nodeDir(node, "cni") + `"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
`
	if err := l.write(l.nodeDir(node, "containerd.toml"), config, 0o644); err != nil {
		return nil, err
	}
	network := `{
  "cniVersion": "1.0.0", "name": "` + node.Bridge() + `",
  "plugins": [
    {"type": "bridge", "bridge": "` + node.Bridge() + `", "isGateway": true, "ipMasq": false, "hairpinMode": true,
     "ipam": {"type": "host-local", "dataDir": "` + l.nodeDir(node, "ipam") + `", "ranges": [[{"subnet": "` + node.Subnet() + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}}
  ]
}
`
	if err := l.write(l.nodeDir(node, "cni", "10-lab.conflist"), network, 0o644); err != nil {
		return nil, err
	}
	return l.daemon(&daemon.Daemon{
		Name: node.Name + "-containerd", Path: "/usr/bin/containerd", Args: []string{"--config", l.nodeDir(node, "containerd.toml")}, Namespace: namespace,
		Ready: func(ctx context.Context) error {
			_, err := run(ctx, "ctr", "--address", socket, "version")
			return err
		},
	}, socket, "unix://"+socket)
}

// importImages gives containerd the images that it does not have.
func (l *Lab) importImages(ctx context.Context, node site.Node) error {
	archive, err := l.imageArchive()
	if err != nil {
		return err
	}
	marker := l.nodeDir(node, "imported")
	info, err := os.Stat(archive)
	if err != nil {
		return fmt.Errorf("import images: %w", err)
	}
	want := fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	if was, err := os.ReadFile(marker); err == nil && string(was) == want {
		return nil
	}
	l.Say("%-24s imports the images", node.Name)
	if _, err := run(ctx, "ctr", "--address", l.Site.Containerd(node), "--namespace", "k8s.io", "images", "import", archive); err != nil {
		return err
	}
	return l.write(marker, want, 0o644)
}

// startKubelet starts a node's kubelet.
func (l *Lab) startKubelet(ctx context.Context, node site.Node) error {
	kubelet, err := l.kubelet(node)
	if err != nil {
		return err
	}
	return l.start(ctx, kubelet)
}

func (l *Lab) kubelet(node site.Node) (*daemon.Daemon, error) {
	host, err := l.nodeMachine(node)
	if err != nil {
		return nil, err
	}
	namespace, err := namespaceOf(host)
	if err != nil {
		return nil, err
	}
	config := `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: ` + node.Gateway() + `
port: ` + strconv.Itoa(l.Site.KubeletPort()) + `
healthzBindAddress: 127.0.0.1
healthzPort: ` + strconv.Itoa(l.Site.HealthPort(node)) + `
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: ` + l.kube(caFile) + `}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: unix://` + l.Site.Containerd(node) + `
podLogsDir: ` + l.nodeDir(node, "pod-logs") + `
volumePluginDir: ` + l.nodeDir(node, "plugins") + `
# What a machine without systemd, with cgroups of either kind and without CAP_SYS_RESOURCE takes.
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
oomScoreAdj: 0
failSwapOn: false
clusterDNS: ["10.214.0.10"]
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
evictionHard: {}
imageGCHighThresholdPercent: 100
configMapAndSecretChangeDetectionStrategy: Watch
nodeStatusUpdateFrequency: 5s
`
	if err := l.write(l.nodeDir(node, "kubelet.yaml"), config, 0o644); err != nil {
		return nil, err
	}
	url := "http://127.0.0.1:" + strconv.Itoa(l.Site.HealthPort(node)) + "/healthz"
	kubelet, err := l.builtDaemon(node.Name+"-kubelet", "kubelet", node.Gateway()+":"+strconv.Itoa(l.Site.KubeletPort()), url,
		"--config="+l.nodeDir(node, "kubelet.yaml"), "--kubeconfig="+l.Site.Kubeconfig(node.Name), "--root-dir="+l.nodeDir(node, "kubelet"),
		"--cert-dir="+l.nodeDir(node, "pki"), "--hostname-override="+node.Name, "--node-ip="+node.Gateway())
	if err != nil {
		return nil, err
	}
	kubelet.Namespace = namespace
	return kubelet, nil
}
