package testkit

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// GatedCluster is an OwnCluster whose API server has these feature gates on.
func GatedCluster(t testing.TB, gates ...string) *KubeCluster {
	t.Helper()
	return ownCluster(t, testPartDir(t, "cluster"), gateArgs(gates)...)
}

// Scheduler starts a real kube-scheduler for an OwnCluster, with these feature gates on. It binds pods that
// have no node yet, and ends with the test.
func (c *KubeCluster) Scheduler(t testing.TB, gates ...string) {
	t.Helper()
	c.own(t, PartAPIServer)
	program := Built(t, "kube-scheduler")
	ports, err := freePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := certificatePool(c.addresses.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	dir := testPartDir(t, "scheduler")
	p := &process{
		name: "kube-scheduler", path: program, dir: dir, log: filepath.Join(dir, "scheduler.log"),
		args: append([]string{
			"--kubeconfig=" + c.AdminKubeconfig(t), "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports[0]),
			"--tls-cert-file=" + c.addresses.CAFile, "--tls-private-key-file=" + filepath.Join(filepath.Dir(c.addresses.CAFile), "server.key"),
		}, gateArgs(gates)...),
		ready: probe("https://127.0.0.1:"+strconv.Itoa(ports[0])+"/readyz", pool, ""),
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("end of the scheduler's log:\n%s", p.logTail())
		}
	})
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
}

func gateArgs(gates []string) []string {
	if len(gates) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(gates, "=true,") + "=true"}
}
