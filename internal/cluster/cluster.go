// Package cluster is the service's view of Kubernetes: nodes, workspace pods and their NodePort
// Services, commands in a container, and the two waits, until a pod is Ready and until it is gone.
//
// Every call to the API server has its own deadline. Errors name the operation and the object
// once, and carry a *farm.APIError where the API server was asked. States that the service needs
// again and again (nodes, taken NodePorts, workspace pods) come from watches that Start begins and
// that degrade to direct calls while they are broken, so that a create makes few calls and no LIST.
package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"config-server/internal/farm"
)

// Options of a Cluster. Zero values mean the defaults given.
type Options struct {
	// Namespace holds the workspaces; required.
	Namespace string
	Log       *slog.Logger // nil = discarded
	// CallLimit bounds one call to the API server, client-go's own retries included; 15 s.
	CallLimit time.Duration
	// MaxCalls bounds the calls to the API server that run at once; 32. The others wait for their turn,
	// as long as their context lets them, and their CallLimit begins with it: hundreds of calls at
	// once would make one another wait in the API server until none has its answer in time.
	MaxCalls int
	// Backstop is the time after which a wait looks at the pod itself while its watch is well; it
	// doubles with each look. 3 s.
	Backstop time.Duration
	// WrapTransport sees every typed call, for counting; nil = nobody does. It is used by Connect
	// and FromREST.
	WrapTransport func(http.RoundTripper) http.RoundTripper
	// Called is told of each call to the API server, the wait for its turn left out, and of each command
	// in a container; nil = nobody.
	Called farm.CallObserver
	// Exec replaces commands in containers, for a stand-in without kubelet; nil = through the API
	// server.
	Exec ExecFunc
	// Logs replaces the reading of containers' logs, likewise; nil = through the API server.
	Logs LogFunc
	// Objects replaces the reading of paths, likewise; nil = through the API server.
	Objects ObjectFunc
}

const (
	defaultCallLimit = 15 * time.Second
	defaultMaxCalls  = 32
	defaultBackstop  = 3 * time.Second
)

// Cluster talks to one Kubernetes cluster. It is safe for concurrent use.
type Cluster struct {
	namespace string
	log       *slog.Logger
	callLimit time.Duration
	turns     chan struct{} // one token a running call; waiters are served in order
	backstop  time.Duration
	exec      ExecFunc
	called    farm.CallObserver
	logs      LogFunc    // nil = there are none
	objects   ObjectFunc // nil = there are none

	client   kubernetes.Interface
	setupErr error // non-nil = there is no client; every call returns it

	nodes    *watched
	pods     *watched
	services *watched
	waiters  waiters
	graves   graves
	glanced  glanced
	glances  chan struct{} // one token a running look at events

	life sync.Mutex
	stop context.CancelFunc
	done sync.WaitGroup
}

// Connect uses the configuration of the cluster that the process runs in, else the kubeconfig file
// of that name, else (empty name) those that KUBECONFIG names or the one in the home folder. It
// never fails: without a usable configuration every call returns an error that wraps
// farm.ErrClientSetup, so that the service starts and says what is missing.
func Connect(kubeconfig string, opts Options) *Cluster {
	cfg, err := loadConfig(kubeconfig)
	if err != nil {
		return broken(err, opts)
	}
	return FromREST(cfg, opts)
}

// FromREST uses the given configuration, which it does not change. Like Connect it never fails.
func FromREST(cfg *rest.Config, opts Options) *Cluster {
	typed := tuned(cfg)
	typed.WarningHandlerWithContext = warnings{logOr(opts.Log)}
	if opts.WrapTransport != nil {
		typed.Wrap(opts.WrapTransport)
	}
	client, err := kubernetes.NewForConfig(typed)
	if err != nil {
		return broken(err, opts)
	}
	if opts.Exec == nil {
		opts.Exec = remoteExec(client, cfg, opts.Namespace)
	}
	if opts.Logs == nil {
		opts.Logs = remoteLogs(client, opts.Namespace)
	}
	if opts.Objects == nil {
		opts.Objects = remoteObjects(client)
	}
	return New(client, opts)
}

// New uses a ready client; with nil every call returns farm.ErrClientSetup. Commands in containers
// need Options.Exec, their logs Options.Logs, paths Options.Objects.
func New(client kubernetes.Interface, opts Options) *Cluster {
	c := &Cluster{
		namespace: opts.Namespace,
		log:       logOr(opts.Log),
		callLimit: opts.CallLimit,
		backstop:  opts.Backstop,
		exec:      opts.Exec,
		called:    opts.Called,
		logs:      opts.Logs,
		objects:   opts.Objects,
		client:    client,
	}
	if c.callLimit == 0 {
		c.callLimit = defaultCallLimit
	}
	if opts.MaxCalls == 0 {
		opts.MaxCalls = defaultMaxCalls
	}
	c.turns = make(chan struct{}, opts.MaxCalls)
	c.glances = make(chan struct{}, glances)
	if c.backstop == 0 {
		c.backstop = defaultBackstop
	}
	if client == nil {
		c.setupErr = farm.ErrClientSetup
		return c
	}
	c.nodes = watchNodes(client, c.log)
	c.services = watchServices(client, c.log)
	c.pods = watchPods(client, c.namespace, c.log)
	c.pods.onChange(c.podChanged)
	return c
}

func logOr(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

func broken(err error, opts Options) *Cluster {
	c := New(nil, opts)
	c.setupErr = fmt.Errorf("%w: %w", farm.ErrClientSetup, err)
	return c
}

// Namespace is the namespace of the workspaces.
func (c *Cluster) Namespace() string { return c.namespace }

// Client is the client for other adapters, or an error that wraps farm.ErrClientSetup.
func (c *Cluster) Client() (kubernetes.Interface, error) { return c.client, c.setupErr }

// Start begins the watches and returns at once. They end with ctx or with Stop. A second call, or
// one without a usable client, does nothing.
func (c *Cluster) Start(ctx context.Context) {
	c.life.Lock()
	defer c.life.Unlock()
	if c.stop != nil {
		return
	}
	if c.setupErr != nil {
		c.log.Warn("kubernetes is not configured: every call that needs it will fail", "error", c.setupErr)
		return
	}
	ctx, c.stop = context.WithCancel(ctx)
	for _, w := range []*watched{c.nodes, c.pods, c.services} {
		c.done.Go(func() { w.run(ctx) })
	}
}

// Stop ends the watches and waits for them.
func (c *Cluster) Stop() {
	c.life.Lock()
	defer c.life.Unlock()
	if c.stop != nil {
		c.stop()
		c.done.Wait()
	}
}

// WaitSynced waits until every watch has its first state, or ctx is done; it reports whether all
// have. Nothing depends on it: it spares the first requests their direct calls.
func (c *Cluster) WaitSynced(ctx context.Context) bool {
	if c.setupErr != nil {
		return false
	}
	for _, w := range []*watched{c.nodes, c.pods, c.services} {
		if !w.waitSynced(ctx) {
			return false
		}
	}
	return true
}

// Ping asks the API server for one pod of the namespace. It proves that the server is reached,
// knows this client and lets it read pods. It waits for nobody's turn.
func (c *Cluster) Ping(ctx context.Context) error {
	return c.callNow(ctx, "list pods of namespace "+c.namespace, func(ctx context.Context) error {
		_, err := c.client.CoreV1().Pods(c.namespace).List(ctx, onePod)
		return err
	})
}

// call runs one call to the API server in its turn, under its own deadline, and names it in the error.
func (c *Cluster) call(ctx context.Context, operation string, f func(ctx context.Context) error) error {
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return fmt.Errorf("%s: wait for other calls to the API server: %w", operation, context.Cause(ctx))
	}
	return c.callNow(ctx, operation, f)
}

// callNow is call without the wait for a turn.
func (c *Cluster) callNow(ctx context.Context, operation string, f func(ctx context.Context) error) error {
	if c.setupErr != nil {
		return fmt.Errorf("%s: %w", operation, c.setupErr)
	}
	limited, cancel := context.WithTimeout(ctx, c.callLimit)
	defer cancel()
	begin := time.Now()
	err := f(limited)
	c.called.Tell(ctx, operation, begin, unanswered(err))
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w (%w)", operation, context.Cause(ctx), err)
	case limited.Err() != nil:
		return fmt.Errorf("%s: no answer within %s: %w", operation, c.callLimit, apiError(err))
	default:
		return fmt.Errorf("%s: %w", operation, apiError(err))
	}
}
