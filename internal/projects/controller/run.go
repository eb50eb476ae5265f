package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	runtimecontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"config-server/internal/projects/v1alpha1"
)

// AdoptLibrary has the library under the controller log into the log of the process. Without it, it complains on standard error.
func AdoptLibrary(log *slog.Logger) { runtimelog.SetLogger(logr.FromSlogHandler(log.Handler())) }

// leaseName is the Lease of the one instance that works.
const leaseName = "config-server-controller"

// workers are how many objects of a kind are looked at at once.
const workers = 4

// watched are the kinds that the controller reads from its cache.
func watched(opts Options) []client.Object {
	kinds := []client.Object{
		&corev1.Node{}, &corev1.Namespace{}, &corev1.ResourceQuota{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.Role{},
		&rbacv1.RoleBinding{}, &v1alpha1.NodeGroup{},
	}
	if opts.Source == nil {
		kinds = append(kinds, &v1alpha1.Project{})
	}
	return kinds
}

// cacheOptions keep of each object only what is looked at: images and conditions are most of a node.
func cacheOptions(resync time.Duration) cache.Options {
	lean := cache.TransformStripManagedFields()
	return cache.Options{
		SyncPeriod: &resync, DefaultTransform: lean,
		ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: func(o any) (any, error) {
			if node, ok := o.(*corev1.Node); ok {
				node.Status, node.Annotations = corev1.NodeStatus{}, nil
			}
			return lean(o)
		}}},
	}
}

// Run has the cluster follow projects until the context is done. Of several instances one works, the others wait for its Lease.
func Run(ctx context.Context, opts Options) error {
	opts.defaults()
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	direct, err := client.New(opts.REST, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	if err := mayListAll(ctx, opts, direct); err != nil {
		return err
	}
	anyName := true
	renew, retry := opts.Lease*2/3, opts.Lease*2/15
	m, err := manager.New(opts.REST, manager.Options{
		Scheme: scheme, Cache: cacheOptions(opts.Resync), Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.FromSlogHandler(opts.Log.Handler()),
		LeaderElection: opts.DryRun == nil, LeaderElectionID: leaseName, LeaderElectionNamespace: opts.Namespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &opts.Lease, RenewDeadline: &renew, RetryPeriod: &retry,
		// Tests run two instances in one process.
		Controller: config.Controller{SkipNameValidation: &anyName},
	})
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	registry := prometheus.NewRegistry()
	c := newController(opts, direct, m.GetClient(), registry)
	if opts.DryRun == nil {
		c.events = m.GetEventRecorder("config-server-controller")
	}
	if err := c.build(m); err != nil {
		return err
	}
	if opts.Listen != "" {
		if err := m.Add(&listener{address: opts.Listen, handler: pages(registry)}); err != nil {
			return fmt.Errorf("listen on %s: %w", opts.Listen, err)
		}
	}
	if err := m.Start(ctx); err != nil {
		return fmt.Errorf("run the controller: %w", err)
	}
	return nil
}

// build makes the queues of projects, nodes and node groups, and what feeds them.
func (c *controller) build(m manager.Manager) error {
	teams := c.queue(m, "project", map[client.Object]affects{
		&corev1.Namespace{}: namespaceItself, &corev1.ResourceQuota{}: ofQuota, &rbacv1.ClusterRole{}: ofRights, &rbacv1.ClusterRoleBinding{}: ofRights,
		&rbacv1.Role{}: ofRights, &rbacv1.RoleBinding{}: ofRights, &corev1.Node{}: c.projectsOfNode, &v1alpha1.NodeGroup{}: c.projectsOfGroup,
	})
	nodes := c.queue(m, "node", map[client.Object]affects{&corev1.Node{}: nodeItself, &v1alpha1.NodeGroup{}: c.nodesOfGroup})
	if c.opts.Source == nil {
		teams.Watches(&v1alpha1.Project{}, c.enqueue(itself))
		nodes.Watches(&v1alpha1.Project{}, c.enqueue(c.nodesOfProject))
	} else if err := c.follows(m, teams, nodes); err != nil {
		return err
	}
	groups := c.queue(m, "nodegroup", map[client.Object]affects{&v1alpha1.NodeGroup{}: itself, &corev1.Node{}: c.groupsOfNode})
	for b, work := range map[*builder.Builder]func(context.Context, string) (reconcile.Result, error){
		teams: c.reconcileProject, nodes: c.reconcileNode, groups: c.reconcileGroup,
	} {
		err := b.Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			return work(ctx, request.Name)
		}))
		if err != nil {
			return fmt.Errorf("make the controller: %w", err)
		}
	}
	return nil
}

func (c *controller) queue(m manager.Manager, name string, watches map[client.Object]affects) *builder.Builder {
	b := builder.ControllerManagedBy(m).Named(name).WithOptions(runtimecontroller.Options{MaxConcurrentReconciles: workers})
	for object, which := range watches {
		b.Watches(object, c.enqueue(which))
	}
	return b
}

// follows has changes of the source touch everything: nobody tells what has changed, and what has not costs no write.
func (c *controller) follows(m manager.Manager, teams, nodes *builder.Builder) error {
	toTeams, toNodes := make(chan event.GenericEvent), make(chan event.GenericEvent)
	teams.WatchesRawSource(source.Channel(toTeams, c.enqueue(func(ctx context.Context, _, _ client.Object) []string {
		names, err := c.everything(ctx)
		if err != nil {
			c.log.WarnContext(ctx, "the projects cannot be listed", "error", err)
		}
		return names
	})))
	nodes.WatchesRawSource(source.Channel(toNodes, c.enqueue(func(ctx context.Context, _, _ client.Object) []string {
		return c.nodesWhere(ctx, anyNode)
	})))
	err := m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		changed := func() {
			for _, to := range []chan event.GenericEvent{toTeams, toNodes} {
				select {
				case to <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{}}:
				case <-ctx.Done():
				}
			}
		}
		changed()
		c.opts.Source.Watch(ctx, c.opts.SourceInterval, changed)
		return nil
	}))
	if err != nil {
		return fmt.Errorf("watch the source of projects: %w", err)
	}
	return nil
}

// pages are what the controller answers over HTTP. The library's registry has the figures of the process.
func pages(registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{registry, metrics.Registry}, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return mux
}

// listener answers over HTTP in every instance, the waiting ones too.
type listener struct {
	address string
	handler http.Handler
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (l *listener) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (l *listener) Start(ctx context.Context) error {
	socket, err := new(net.ListenConfig).Listen(ctx, "tcp", l.address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", l.address, err)
	}
	server := &http.Server{Handler: l.handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.address, err)
	}
	return nil
}
