package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/streaming/pkg/httpstream"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/kubelet"
)

// ownCluster is for tests that stop its parts.
func ownCluster(t *testing.T) farmed {
	t.Helper()
	cluster := testkit.OwnCluster(t)
	return farmed{KubeCluster: cluster, admin: cluster.Admin(t)}
}

func TestRealWaitsOutliveARestartOfTheAPIServer(t *testing.T) {
	t.Parallel()
	f := ownCluster(t)
	c := f.running(t)
	becomes, err := c.CreatePod(t.Context(), f.pod(t, "kim"))
	if err != nil {
		t.Fatal(err)
	}
	goes, err := c.CreatePod(t.Context(), f.pod(t, "lee"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeletePod(t.Context(), goes.Name, goes.UID); err != nil {
		t.Fatal(err)
	}
	isReady, isGone := make(chan error, 1), make(chan error, 1)
	go func() { isReady <- c.WaitReady(t.Context(), becomes, farm.ReadyLimits{Total: 2 * time.Minute}) }()
	go func() { isGone <- c.WaitGone(t.Context(), goes.Name, goes.UID, 2*time.Minute) }()
	waits := func() int {
		c.waiters.mu.Lock()
		defer c.waiters.mu.Unlock()
		return len(c.waiters.byPod)
	}
	seen(t, "both waits stand", func() bool { return waits() == 2 })

	f.Kill(t, testkit.PartAPIServer)
	seen(t, "the watches are broken", func() bool {
		return !c.nodes.fresh() && !c.pods.fresh() && !c.services.fresh()
	})
	if _, known := c.TakenPorts(); known {
		t.Error("taken ports are known without an API server")
	}
	_, err = c.Nodes(t.Context())
	var api *farm.APIError
	if !errors.As(err, &api) || api.Status != 0 {
		t.Errorf("nodes without an API server: %v", err)
	}
	if err := c.Ping(t.Context()); err == nil {
		t.Error("a ping of a killed API server succeeds")
	}
	if n := waits(); n != 2 {
		t.Errorf("%d waits stand while the API server is away", n)
	}

	f.Start(t, testkit.PartAPIServer)
	f.say(t, becomes.Name, ready)
	f.finish(t, goes.Name)
	if err := <-isReady; err != nil {
		t.Error(err)
	}
	if err := <-isGone; err != nil {
		t.Error(err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	seen(t, "the watches are well again", func() bool {
		_, known := c.TakenPorts()
		return known && c.nodes.fresh() && c.pods.fresh()
	})
}

func TestRealStartBeforeTheAPIServer(t *testing.T) {
	t.Parallel()
	f := ownCluster(t)
	f.Kill(t, testkit.PartAPIServer)
	c := FromREST(f.ServiceConfig(), Options{Namespace: f.Namespace})
	c.Start(context.WithoutCancel(t.Context()))
	t.Cleanup(c.Stop)
	seen(t, "the watches are broken", func() bool { return c.nodes.broken.Load() })
	if _, err := c.Nodes(t.Context()); err == nil {
		t.Error("nodes without an API server")
	}
	f.Start(t, testkit.PartAPIServer)
	testkit.WaitFor(t, 30*time.Second, "nodes after the API server came", func(ctx context.Context) error {
		nodes, err := c.Nodes(ctx)
		if err == nil && (len(nodes) != 4 || !nodes[0].Ready) {
			err = fmt.Errorf("they are %+v", nodes)
		}
		if err != nil {
			t.Logf("not at once: %v", err)
		}
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !c.WaitSynced(ctx) {
		t.Error("the watches do not come")
	}
}

func TestRealServerThatHangs(t *testing.T) {
	t.Parallel()
	f := ownCluster(t)
	c := f.running(t, func(o *Options) { o.CallLimit = 300 * time.Millisecond })
	f.Freeze(t, testkit.PartAPIServer)
	// A few calls may slip through before the last thread of the server stands still.
	seen(t, "a call that ends by its own limit", func() bool {
		begin := time.Now()
		_, _, err := c.Pod(t.Context(), "ailab-kim-01020304")
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("a call took %s", took)
		}
		return errors.Is(err, context.DeadlineExceeded)
	})
	f.Thaw(t, testkit.PartAPIServer)
	seen(t, "an answer", func() bool {
		_, found, err := c.Pod(t.Context(), "ailab-kim-01020304")
		return !found && err == nil
	})
}

func TestRealFates(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	c := f.running(t)
	for name, test := range map[string]struct {
		fate string
		is   error // nil = Ready
		says string
	}{
		"becomes Ready":   {"1.0", nil, ""},
		"never pulled":    {testkit.ImageNeverPull, farm.ErrNeverReady, "ErrImageNeverPull: Container image is not present"},
		"refused":         {testkit.ImageConfigError, farm.ErrNeverReady, "CreateContainerConfigError: secret not found"},
		"failed":          {testkit.ImageFails, farm.ErrNeverReady, "the pod has failed: container shell ended with status 1"},
		"nothing happens": {testkit.ImageNeverReady, farm.ErrWaitTimeout, "phase Pending"},
		"not yet Ready":   {testkit.ImageNotReady, farm.ErrWaitTimeout, "phase Running"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := f.pod(t, farm.UserName("u"+strings.ReplaceAll(strings.ToLower(name), " ", "-")))
			spec.Spec.NodeName, spec.Spec.Containers[0].Image = "farm6", "dguailab/decs:"+test.fate
			pod, err := c.CreatePod(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			limit := 30 * time.Second
			if errors.Is(test.is, farm.ErrWaitTimeout) {
				limit = time.Second
			}
			check(t, c.WaitReady(t.Context(), pod, farm.ReadyLimits{Total: limit}), test.is, test.says)
			if existed, err := c.DeletePod(t.Context(), pod.Name, pod.UID); !existed || err != nil {
				t.Errorf("deletion: %v, %v", existed, err)
			}
			if err := c.WaitGone(t.Context(), pod.Name, pod.UID, 30*time.Second); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRealExec(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	c := f.running(t)
	spec := f.pod(t, "kim")
	spec.Spec.NodeName = "farm6"
	pod, err := c.CreatePod(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(t.Context(), pod, farm.ReadyLimits{Total: time.Minute}); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("0123456789", maxOutput)
	f.OnExec(t,
		kubelet.Result{Contains: "fails", Exit: 3, Stdout: "said", Stderr: "no space left"},
		kubelet.Result{Contains: "talks", Stdout: long + "end"},
		kubelet.Result{Contains: "breaks", Break: true},
		kubelet.Result{Contains: "hangs", Hang: true},
	)
	// The WebSocket path is the default; the SPDY path is what older servers and proxies leave.
	for path, exec := range map[string]func(context.Context, ...string) (farm.ExecResult, error){
		"websocket": func(ctx context.Context, command ...string) (farm.ExecResult, error) {
			return c.Exec(ctx, pod.Name, farm.ContainerName, command)
		},
		"spdy": func(ctx context.Context, command ...string) (farm.ExecResult, error) {
			cfg := f.ServiceConfig()
			cfg.Wrap(withoutWebSocket)
			return FromREST(cfg, Options{Namespace: f.Namespace}).Exec(ctx, pod.Name, farm.ContainerName, command)
		},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			got, err := exec(t.Context(), "/usr/local/bin/save_image.sh", "fails", "with spaces", "$(id)")
			if diff := cmp.Diff(farm.ExecResult{ExitCode: 3, Stdout: "said", Stderr: "no space left"}, got); diff != "" || err != nil {
				t.Errorf("a command that fails: %v (-want +got):\n%s", err, diff)
			}
			got, err = exec(t.Context(), "silent")
			if got != (farm.ExecResult{}) || err != nil {
				t.Errorf("a command that succeeds: %+v, %v", got, err)
			}
			got, err = exec(t.Context(), "talks")
			if err != nil || len(got.Stdout) != maxOutput || !strings.HasSuffix(got.Stdout, "789end") {
				t.Errorf("a command that talks: %d bytes, %v", len(got.Stdout), err)
			}
			if got, err := exec(t.Context(), "breaks"); err == nil {
				t.Errorf("a command whose end is unknown is no result: %+v", got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			begin := time.Now()
			if _, err := exec(ctx, "hangs"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 10*time.Second {
				t.Errorf("a command that hangs, after %s: %v", time.Since(begin), err)
			}
		})
	}
	var api *farm.APIError
	if _, err := c.Exec(t.Context(), "ailab-none-01020304", farm.ContainerName, []string{"true"}); !errors.As(err, &api) {
		t.Errorf("in a pod that is not there: %v", err)
	}
}

// withoutWebSocket plays a proxy that does not upgrade to WebSocket, which begins with a GET.
func withoutWebSocket(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			return nil, &httpstream.UpgradeFailureError{Cause: errors.New("the proxy does not upgrade")}
		}
		return next.RoundTrip(r)
	})
}
