// Package controller makes the cluster follow projects: labels of nodes, namespaces with what their queues need, quotas, rights, and
// the status of projects and node groups. What shall be is decided in package projects; here it is read, compared and written.
package controller

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"config-server/internal/projects"
	"config-server/internal/projects/v1alpha1"
)

// Source has projects that are no objects of the API server.
type Source interface {
	// Projects lists all of them.
	Projects(ctx context.Context) ([]projects.Project, error)
	// Watch calls changed whenever they may have changed, until the context is done.
	Watch(ctx context.Context, interval time.Duration, changed func())
}

// Options of a controller. REST, Settings and Namespace are needed.
type Options struct {
	REST     *rest.Config
	Settings projects.Settings
	// Source has the projects; nil = the Project objects of the API server.
	Source Source
	// Namespace is where the Lease of the one instance that works lies.
	Namespace string
	// Listen is host:port of /metrics and /healthz; empty = none.
	Listen string
	// DryRun gets a line for each write, and nothing is written; nil = writes are made.
	DryRun io.Writer
	Log    *slog.Logger // nil = discarded

	// Resync is how often everything is looked at without a reason; 0 = 10 minutes.
	Resync time.Duration
	// Patience is how long nothing is tried after a right was missing; 0 = 1 minute.
	Patience time.Duration
	// Lease is how long an instance that has died still counts as working; 0 = 15 seconds.
	Lease time.Duration
	// SourceInterval is how often Source is looked at; 0 = 5 seconds.
	SourceInterval time.Duration
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for value, standard := range map[*time.Duration]time.Duration{
		&o.Resync: 10 * time.Minute, &o.Patience: time.Minute, &o.Lease: 15 * time.Second, &o.SourceInterval: 5 * time.Second,
	} {
		if *value == 0 {
			*value = standard
		}
	}
	// The API server has fairness of its own.
	o.REST = rest.CopyConfig(o.REST)
	o.REST.QPS = -1
	o.REST.UserAgent = "config-server-controller"
}

// ownerLabel marks objects that the controller made, with the name of their project. Others of the same name are left as they are.
const ownerLabel = "ailab.io/project"

// createdAnnotation marks a namespace that the controller made, with the UID of the Project that it was made for. Only such a one has
// an owner reference, and gets it back.
const createdAnnotation = "ailab.io/created-for"

// controller is what the reconcilers share.
type controller struct {
	opts   Options
	reader client.Reader // of the cache
	live   client.Reader // of the API server
	write  *writer
	events events.EventRecorder // nil = none are told
	log    *slog.Logger
	// problems are the blocking conditions of projects at their last look, by type.
	problems *problems
}

// newScheme knows the objects that the controller reads and writes.
func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	if err := scheme.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("make the scheme: %w", err)
	}
	if err := v1alpha1.AddToScheme(s); err != nil {
		return nil, fmt.Errorf("make the scheme: %w", err)
	}
	return s, nil
}

// newController has the reconcilers read from reader, which is a cache, and write by way of c.
func newController(opts Options, c client.Client, reader client.Reader, registry *prometheus.Registry) *controller {
	writes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "project_controller_writes_total", Help: "Writes to the API server, by kind of object and verb, those that failed too.",
	}, []string{"kind", "verb"})
	p := newProblems()
	registry.MustRegister(writes, p)
	return &controller{
		opts: opts, reader: reader, live: c, log: opts.Log, problems: p,
		write: &writer{client: c, scheme: c.Scheme(), writes: writes, dry: opts.DryRun, overwritten: map[string]string{}},
	}
}
