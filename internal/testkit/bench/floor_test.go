//go:build bench

package bench_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"config-server/internal/farm"
	"config-server/internal/podspec"
	"config-server/internal/testkit/load"
	"config-server/internal/testkit/world"
)

// floor does what create-pod cannot do without, one call after the other, with the same client
// libraries and nothing around them: one GET to admin_be, one query to Prometheus, one transaction,
// one pod POST, the wait for kubelet's Ready on a shared watch, one Service POST a port.
type floor struct {
	world   *world.World
	http    *http.Client
	prom    prometheus.API
	db      *sql.DB
	kube    kubernetes.Interface
	ready   sync.Map // pod name -> chan struct{}
	counter atomic.Int64
}

// floorApp labels the floor's objects, so that nobody takes them for workspaces.
const floorApp = "bench-floor"

// floorNode is where the floor's pods go; the service chooses the same one by its load.
const floorNode = "farm6"

func newFloor(t testing.TB, w *world.World) *floor {
	t.Helper()
	f := &floor{world: w, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}}
	promClient, err := api.NewClient(api.Config{Address: w.Prom.URL, RoundTripper: &http.Transport{MaxIdleConnsPerHost: 2000}})
	if err != nil {
		t.Fatal(err)
	}
	f.prom = prometheus.NewAPI(promClient)
	f.db = w.MariaDB.Open(t, w.MariaDB.NewDatabase(t))
	f.db.SetMaxOpenConns(16)
	f.db.SetMaxIdleConns(16)
	_, err = f.db.ExecContext(t.Context(), `CREATE TABLE allocations (id INT AUTO_INCREMENT PRIMARY KEY, username VARCHAR(255), pod_name VARCHAR(255),
		node_name VARCHAR(255), internal_port INT, node_port INT UNIQUE, purpose VARCHAR(255), KEY (pod_name), KEY (username))`)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(w.Cluster.ServiceConfig())
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if f.kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	f.watch(t)
	return f
}

// watch tells waiters of pods that became Ready. It is client-go's shared watch, which goes on when
// the API server ends a stream, as it does with clients that cannot keep up.
func (f *floor) watch(t testing.TB) {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(f.kube, 0, informers.WithNamespace(f.world.Cluster.Namespace),
		informers.WithTweakListOptions(func(opts *metav1.ListOptions) { opts.LabelSelector = "app=" + floorApp }))
	informer := factory.Core().V1().Pods().Informer()
	told := func(object any) {
		pod := object.(*corev1.Pod)
		for _, condition := range pod.Status.Conditions {
			if condition.Type != corev1.PodReady || condition.Status != corev1.ConditionTrue {
				continue
			}
			if waiter, ok := f.ready.LoadAndDelete(pod.Name); ok {
				close(waiter.(chan struct{}))
			}
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: told, UpdateFunc: func(_, object any) { told(object) }}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.StartWithContext(ctx)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	factory.WaitForCacheSyncWithContext(ctx)
}

// create is one round of the bare calls. Its status is 201 or 0.
func (f *floor) create(ctx context.Context, user string) (int, error) {
	n := int(f.counter.Add(1)) - 1 // never begun anew: names that come again would meet the last of the old pods
	low := 32766 - 2*(n%1200)
	if err := f.userConfig(ctx, user); err != nil {
		return 0, err
	}
	if _, _, err := f.load(ctx); err != nil {
		return 0, fmt.Errorf("ask Prometheus: %w", err)
	}
	pod := farm.PodName(fmt.Sprintf("floor-%s-%08x", user, n))
	ports := []farm.Port{
		// From the top, so that the service, which takes the lowest, never meets them.
		{Internal: 22, External: low, Purpose: "ssh"},
		{Internal: 8888, External: low + 1, Purpose: "jupyter"},
	}
	if err := f.reserve(ctx, user, pod, ports); err != nil {
		return 0, fmt.Errorf("write rows: %w", err)
	}
	if err := f.pod(ctx, user, pod, ports); err != nil {
		return 0, err
	}
	for _, port := range ports {
		service := podspec.Service(f.world.Cluster.Namespace, farm.UserName(user), pod, port)
		service.Labels[farm.LabelApp] = floorApp
		if _, err := f.kube.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{}); err != nil {
			return 0, fmt.Errorf("create a Service: %w", err)
		}
	}
	return http.StatusCreated, nil
}

func (f *floor) userConfig(ctx context.Context, user string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.ReplaceAll(f.world.AdminBE.Template(), "{username}", user), nil)
	if err != nil {
		return err
	}
	response, err := f.http.Do(request)
	if err != nil {
		return fmt.Errorf("ask admin_be: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// load is one query for all readings of all candidates, in the simplest form that tells them.
func (f *floor) load(ctx context.Context) (any, prometheus.Warnings, error) {
	const query = `avg by (__name__, Hostname) ({__name__=~"DCGM_FI_DEV_GPU_UTIL|DCGM_FI_DEV_FB_USED|DCGM_FI_DEV_GPU_TEMP", Hostname=~"farm5|farm6|farm7"})`
	value, warnings, _, err := f.prom.Query(ctx, query, time.Time{})
	return value, warnings, err
}

func (f *floor) reserve(ctx context.Context, user string, pod farm.PodName, ports []farm.Port) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, "INSERT INTO allocations (username, pod_name, node_name, internal_port, node_port, purpose) VALUES (?, ?, ?, ?, ?, ?), (?, ?, ?, ?, ?, ?)",
		user, string(pod), floorNode, ports[0].Internal, ports[0].External, ports[0].Purpose,
		user, string(pod), floorNode, ports[1].Internal, ports[1].External, ports[1].Purpose)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// pod posts a pod of the same shape as a workspace's and waits until it is Ready.
func (f *floor) pod(ctx context.Context, user string, name farm.PodName, ports []farm.Port) error {
	object, err := podspec.Build(podspec.Input{
		Settings: podspec.Settings{
			Namespace: f.world.Cluster.Namespace, CPURequest: "1000m", CPULimit: "1000m", MemRequest: "1024Mi", MemLimit: "1024Mi",
			ImagePullPolicy: "Never", HomeVolume: podspec.HomeNFS, NFSServer: "192.0.2.30", NFSPath: "/volume1/share/user",
		},
		Pod: name, PrimaryGroup: farm.GroupName(user), Node: floorNode, Ports: ports,
		Account: farm.Account{Name: farm.UserName(user), UID: firstUID, GID: firstUID, Home: "/home/" + user, Shell: "/bin/bash"},
		Config:  farm.UserConfig{Image: "dguailab/decs:1.0", Nodes: []farm.GPUNode{{Name: floorNode, NumGPU: 2, CPULimit: "4000m", MemoryLimit: "8192Mi"}}},
	})
	if err != nil {
		return fmt.Errorf("build a pod: %w", err)
	}
	object.Labels[farm.LabelApp] = floorApp
	ready := make(chan struct{})
	f.ready.Store(object.Name, ready)
	if _, err := f.kube.CoreV1().Pods(object.Namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create a pod: %w", err)
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Minute):
		return fmt.Errorf("pod %s does not become Ready", object.Name)
	}
}

// clear removes all that the floor has made and waits until it is gone.
func (f *floor) clear(t testing.TB) {
	t.Helper()
	ctx := t.Context()
	now := int64(0)
	mine := metav1.ListOptions{LabelSelector: "app=" + floorApp}
	core := f.world.Cluster.Admin(t).CoreV1()
	services, err := core.Services(f.world.Cluster.Namespace).List(ctx, mine)
	if err != nil {
		t.Fatal(err)
	}
	result := load.Closed(ctx, 8, len(services.Items), func(ctx context.Context, i int) (int, error) {
		err := core.Services(f.world.Cluster.Namespace).Delete(ctx, services.Items[i].Name, metav1.DeleteOptions{})
		return http.StatusOK, err
	})
	for _, text := range result.Example {
		t.Fatalf("remove the floor's Services: %s", text)
	}
	if err := core.Pods(f.world.Cluster.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, mine); err != nil {
		t.Fatal(err)
	}
	if _, err := f.db.ExecContext(ctx, "DELETE FROM allocations"); err != nil {
		t.Fatal(err)
	}
}
