package testkit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// stages tells kwok how pods live and leaves nodes alone.
//
//go:embed stages.yaml
var stages []byte

// clusterParts are the programs of one cluster.
type clusterParts struct {
	etcd, apiserver, kwok, kubelet *process
	addresses                      clusterAddresses
}

func (c *clusterParts) named(part string) *process {
	return map[string]*process{
		PartAPIServer: c.apiserver, PartEtcd: c.etcd, PartKwok: c.kwok, PartKubelet: c.kubelet,
	}[part]
}

// stop ends all parts at once: nobody needs their data any more.
func (c *clusterParts) stop() {
	for _, p := range []*process{c.kwok, c.kubelet, c.apiserver, c.etcd} {
		if p != nil {
			p.kill()
		}
	}
}

// moduleRoot finds the checkout, which has the pinned versions and the chart.
var moduleRoot = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "deploy", "lab", "parts")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the checkout: tests with real parts run inside it")
		}
		dir = parent
	}
})

// Root is the folder of the checkout, which tests with real parts run in.
func Root() (string, error) { return moduleRoot() }

// partModules name the modules below deploy/lab/parts whose pinned versions name what is built from them.
var partModules = map[string][2]string{
	"etcd":                     {"etcd", "go.etcd.io/etcd/server/v3"},
	"helm":                     {"helm", "helm.sh/helm/v3"},
	"kube-apiserver":           {"kubernetes", "k8s.io/kubernetes"},
	"kube-scheduler":           {"kubernetes", "k8s.io/kubernetes"},
	"kubectl":                  {"kubernetes", "k8s.io/kubernetes"},
	"kwok":                     {"kwok", "sigs.k8s.io/kwok"},
	"prometheus-operator-crds": {"prometheus-operator", "github.com/prometheus-operator/prometheus-operator"},
}

// clusterPrograms are those that a cluster consists of.
var clusterPrograms = []string{"etcd", "kube-apiserver", "kwok"}

// Built returns the path of what deploy/lab/parts/build.sh has made under that name: a program, or a folder.
func Built(t testing.TB, name string) string {
	t.Helper()
	path, err := builtProgram(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// builtProgram returns the path of what deploy/lab/parts/build.sh has made under that name.
func builtProgram(name string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	module := partModules[name]
	text, err := os.ReadFile(filepath.Join(root, "deploy", "lab", "parts", module[0], "go.mod"))
	if err != nil {
		return "", fmt.Errorf("find the version of %s: %w", name, err)
	}
	version := ""
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(strings.TrimPrefix(line, "require "))
		if len(fields) >= 2 && fields[0] == module[1] {
			version = fields[1]
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	path := filepath.Join(cache, "config-server", "bin", name+"-"+version)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s %s is not built: run make parts (make test does)", name, version)
	}
	return path, nil
}

// kubeletProgram builds the kubelet stand-in once for this process.
var kubeletProgram = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	dir, err := partDir("bin")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "parts")
	cmd := exec.Command("go", "build", "-o", path, "./internal/testkit/parts")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the kubelet stand-in: %w\n%s", err, out)
	}
	return path, nil
})

// startCluster starts the parts of a cluster with their data in dir, and its nodes. The API server gets the further
// arguments.
func startCluster(dir string, apiserver ...string) (*clusterParts, error) {
	c := new(clusterParts)
	if err := c.prepare(dir); err != nil {
		return nil, err
	}
	c.apiserver.args = append(c.apiserver.args, apiserver...)
	for _, p := range []*process{c.etcd, c.apiserver, c.kubelet, c.kwok} {
		if err := p.start(); err != nil {
			c.stop()
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for _, name := range farmNodes {
		if err := c.addresses.addNode(ctx, Node{Name: name}); err != nil {
			c.stop()
			return nil, err
		}
	}
	return c, nil
}

// prepare writes the files of all parts and describes how they run.
func (c *clusterParts) prepare(dir string) error {
	programs := make(map[string]string)
	for _, name := range clusterPrograms {
		path, err := builtProgram(name)
		if err != nil {
			return err
		}
		programs[name] = path
	}
	standIn, err := kubeletProgram()
	if err != nil {
		return err
	}
	ports, err := freePorts(5)
	if err != nil {
		return err
	}
	files := func(name string) string { return filepath.Join(dir, name) }
	certificate, key := files("server.crt"), files("server.key")
	if err := writeCertificate(certificate, key); err != nil {
		return err
	}
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return fmt.Errorf("make the admin token: %w", err)
	}
	c.addresses = clusterAddresses{
		Server: "https://127.0.0.1:" + strconv.Itoa(ports[2]), CAFile: certificate,
		AdminToken: hex.EncodeToString(token), KubeletPort: ports[3], ExecFolder: files("exec"),
	}
	if err := os.MkdirAll(c.addresses.ExecFolder, 0o755); err != nil {
		return fmt.Errorf("make the folder for exec results: %w", err)
	}
	for name, text := range map[string]string{
		"tokens.csv":  c.addresses.AdminToken + ",admin,admin,system:masters\n",
		"stages.yaml": string(stages),
	} {
		if err := os.WriteFile(files(name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write the files of the cluster: %w", err)
		}
	}
	if err := c.addresses.writeKubeconfig(files("admin.kubeconfig"), c.addresses.AdminToken, ""); err != nil {
		return err
	}
	client, peer := "http://127.0.0.1:"+strconv.Itoa(ports[0]), "http://127.0.0.1:"+strconv.Itoa(ports[1])
	c.etcd = &process{
		name: "etcd", path: programs["etcd"], dir: dir, log: files("etcd.log"),
		args: []string{
			"--data-dir=" + files("etcd"), "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer,
			"--unsafe-no-fsync", "--log-level=warn",
		},
		ready: probe(client+"/health", nil, ""),
	}
	pool, err := certificatePool(certificate)
	if err != nil {
		return err
	}
	c.apiserver = &process{
		name: "kube-apiserver", path: programs["kube-apiserver"], dir: dir, log: files("apiserver.log"),
		args: []string{
			"--etcd-servers=" + client, "--service-cluster-ip-range=10.96.0.0/16",
			"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + key,
			"--service-account-signing-key-file=" + key, "--tls-cert-file=" + certificate, "--tls-private-key-file=" + key,
			"--cert-dir=" + files("certs"), "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports[2]),
			"--token-auth-file=" + files("tokens.csv"), "--authorization-mode=RBAC",
			"--service-node-port-range=30000-32767", "--endpoint-reconciler-type=none",
			"--disable-admission-plugins=ServiceAccount", "--kubelet-preferred-address-types=InternalIP",
			"--shutdown-delay-duration=0s",
		},
		ready: probe(c.addresses.Server+"/readyz", pool, c.addresses.AdminToken),
	}
	c.kubelet = &process{
		name: "kubelet", path: standIn, dir: dir, log: files("kubelet.log"),
		args:  []string{"kubelet", "127.0.0.1:" + strconv.Itoa(ports[3]), certificate, key, c.addresses.ExecFolder},
		ready: dialTCP("127.0.0.1:" + strconv.Itoa(ports[3])),
	}
	kwokAddress := "127.0.0.1:" + strconv.Itoa(ports[4])
	c.kwok = &process{
		name: "kwok", path: programs["kwok"], dir: dir, log: files("kwok.log"),
		args: []string{
			"--kubeconfig=" + files("admin.kubeconfig"), "--config=" + files("stages.yaml"), "--manage-all-nodes=true",
			"--server-address=" + kwokAddress,
		},
		// kwok would read a configuration in the home folder too.
		env:   []string{"HOME=" + dir},
		ready: probe("http://"+kwokAddress+"/healthz", nil, ""),
	}
	return nil
}

// probe is the readiness probe of parts that say so by HTTP.
func probe(url string, pool *x509.CertPool, token string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
		res, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %s", url, res.Status, text)
		}
		return nil
	}
}

// writeCertificate makes a key and a certificate for 127.0.0.1 that signs itself.
func writeCertificate(certificatePath, keyPath string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make the key of the cluster: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "testkit"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(7 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("make the certificate of the cluster: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("make the key of the cluster: %w", err)
	}
	if err := os.WriteFile(keyPath, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600); err != nil {
		return fmt.Errorf("write the key of the cluster: %w", err)
	}
	if err := os.WriteFile(certificatePath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return fmt.Errorf("write the certificate of the cluster: %w", err)
	}
	return nil
}

func certificatePool(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the cluster: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("read the certificate of the cluster: %s has none", path)
	}
	return pool, nil
}
