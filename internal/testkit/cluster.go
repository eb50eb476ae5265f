package testkit

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ServiceAccount is the account in each namespace whose rights are the chart's.
const ServiceAccount = "config-server"

// OwnNamespace is the namespace of an OwnCluster, which is the service's default.
const OwnNamespace = "ailab-infra"

// farmNodes are the nodes of every cluster: Ready, 64 cores, 256 GiB, no taints.
var farmNodes = []string{"farm5", "farm6", "farm7", "farm8"}

// KubeCluster is a real API server with etcd, role-based rights on, and NodePorts 30000 to 32767.
// kwok plays its nodes: pods become Ready at once and go away when deleted, unless their image says
// otherwise (Image constants). Exec calls are answered as OnExec says.
type KubeCluster struct {
	// Namespace is this test's, with the chart's rights granted to its ServiceAccount.
	Namespace string

	addresses clusterAddresses
	parts     *clusterParts // nil when another process runs the cluster
	token     string
}

// clusterAddresses is what another process needs to use a cluster.
type clusterAddresses struct {
	Server      string `json:"server"`       // https://127.0.0.1:port
	CAFile      string `json:"ca_file"`      // certificate of the API server
	AdminToken  string `json:"admin_token"`  // may do everything
	KubeletPort int    `json:"kubelet_port"` // where exec calls are answered
	ExecFolder  string `json:"exec_folder"`  // results and calls, see package kubelet
}

// namespaceCount makes the names of namespaces unique within this process.
var namespaceCount atomic.Int64

// sharedCluster starts this process's cluster on first use.
var sharedCluster = sync.OnceValues(func() (*clusterParts, error) {
	dir, err := partDir("cluster")
	if err != nil {
		return nil, err
	}
	return startCluster(dir)
})

// Cluster returns a namespace of its own in a cluster that this test shares with others. NodePorts
// and nodes are shared too: a test that counts or changes them takes an OwnCluster.
func Cluster(t testing.TB) *KubeCluster {
	t.Helper()
	needCluster(t)
	c := &KubeCluster{Namespace: fmt.Sprintf("t%d-%d", os.Getpid(), namespaceCount.Add(1))}
	if set := sharedSet(t); set != nil && set.Cluster != nil {
		c.addresses = *set.Cluster
	} else {
		parts, err := sharedCluster()
		if err != nil {
			t.Fatal(err)
		}
		c.addresses = parts.addresses
	}
	c.prepareNamespace(t)
	t.Cleanup(func() { c.empty(t) })
	return c
}

// OwnCluster starts an empty cluster for this test alone, which may stop and start its parts. Its
// namespace is OwnNamespace.
func OwnCluster(t testing.TB) *KubeCluster {
	t.Helper()
	return ownCluster(t, testPartDir(t, "cluster"))
}

// ownCluster starts a cluster with its data in dir and further arguments for the API server.
func ownCluster(t testing.TB, dir string, apiserver ...string) *KubeCluster {
	t.Helper()
	needCluster(t)
	parts, err := startCluster(dir, apiserver...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		parts.stop()
		if t.Failed() {
			t.Logf("end of the API server's log:\n%s", parts.apiserver.logTail())
		}
	})
	c := &KubeCluster{Namespace: OwnNamespace, addresses: parts.addresses, parts: parts}
	c.prepareNamespace(t)
	return c
}

// needCluster fails the test when a program is missing. They are built, not installed.
func needCluster(t testing.TB) {
	t.Helper()
	Need(t, "cluster", "golang", "go")
	for _, program := range clusterPrograms {
		if _, err := builtProgram(program); err != nil {
			t.Fatal(err)
		}
	}
}

// AdminConfig gives a client every right, for the test's own look at the cluster.
func (c *KubeCluster) AdminConfig() *rest.Config { return c.addresses.config(c.addresses.AdminToken) }

// Admin is a client with every right.
func (c *KubeCluster) Admin(t testing.TB) kubernetes.Interface {
	t.Helper()
	return c.addresses.admin(t)
}

// ServiceConfig gives a client the rights of the chart's ServiceAccount in this namespace, no more.
func (c *KubeCluster) ServiceConfig() *rest.Config { return c.addresses.config(c.token) }

// ServiceKubeconfig writes a kubeconfig with the chart's rights and this namespace, for the real
// binary, and returns its path.
func (c *KubeCluster) ServiceKubeconfig(t testing.TB) string {
	t.Helper()
	return c.kubeconfig(t, c.token)
}

// AdminKubeconfig writes a kubeconfig with every right and returns its path.
func (c *KubeCluster) AdminKubeconfig(t testing.TB) string {
	t.Helper()
	return c.kubeconfig(t, c.addresses.AdminToken)
}

func (c *KubeCluster) kubeconfig(t testing.TB, token string) string {
	t.Helper()
	path := testPartDir(t, "kubeconfig") + "/config"
	if err := c.addresses.writeKubeconfig(path, token, c.Namespace); err != nil {
		t.Fatal(err)
	}
	return path
}

func (a clusterAddresses) config(token string) *rest.Config {
	return &rest.Config{
		Host: a.Server, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAFile: a.CAFile},
		QPS: -1, // tests shall not wait for the client's own brake
	}
}

func (a clusterAddresses) admin(t testing.TB) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(a.config(a.AdminToken))
	if err != nil {
		t.Fatalf("make a client of the cluster: %v", err)
	}
	return client
}

func (a clusterAddresses) writeKubeconfig(path, token, namespace string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: a.Server, CertificateAuthority: a.CAFile}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test", Namespace: namespace}
	config.CurrentContext = "test"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// prepareNamespace makes the namespace with the chart's rights and a token of its ServiceAccount.
func (c *KubeCluster) prepareNamespace(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace}}
	if _, err := c.Admin(t).CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("create namespace %s: %v", c.Namespace, err)
	}
	c.Grant(t, "least")
	c.token = c.newToken(ctx, t)
}

// empty removes what tests leave in a shared cluster: pods, and Services, which hold NodePorts.
// Nothing in these clusters ends namespaces, so the empty namespace stays.
func (c *KubeCluster) empty(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	core := c.Admin(t).CoreV1()
	now := int64(0)
	services, err := core.Services(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Errorf("remove the Services of %s: %v", c.Namespace, err)
		return
	}
	for _, service := range services.Items {
		if err := core.Services(c.Namespace).Delete(ctx, service.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("remove Service %s: %v", service.Name, err)
		}
	}
	if err := core.Pods(c.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}); err != nil {
		t.Errorf("remove the pods of %s: %v", c.Namespace, err)
	}
}

// The parts of an OwnCluster, for faults.
const (
	PartAPIServer = "kube-apiserver"
	PartEtcd      = "etcd"
	PartKwok      = "kwok"    // without it, pods stay as they are
	PartKubelet   = "kubelet" // without it, exec calls fail
)

// Stop ends a part of an OwnCluster in a friendly way.
func (c *KubeCluster) Stop(t testing.TB, part string) { c.own(t, part).stop() }

// Kill ends a part of an OwnCluster at once.
func (c *KubeCluster) Kill(t testing.TB, part string) { c.own(t, part).kill() }

// Start starts a stopped part again, on the same port and data, and waits until it is ready.
func (c *KubeCluster) Start(t testing.TB, part string) { c.own(t, part).restart(t) }

// Freeze makes a part hang with its connections open until Thaw.
func (c *KubeCluster) Freeze(t testing.TB, part string) { c.own(t, part).freeze(t) }

// Thaw lets a frozen part go on.
func (c *KubeCluster) Thaw(t testing.TB, part string) { c.own(t, part).thaw(t) }

func (c *KubeCluster) own(t testing.TB, part string) controlled {
	t.Helper()
	if c.parts == nil {
		return control(t, nil, "cluster")
	}
	p := c.parts.named(part)
	if p == nil {
		t.Fatalf("a cluster has no part %q", part)
	}
	return controlled{p}
}
