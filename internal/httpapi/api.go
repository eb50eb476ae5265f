package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"config-server/internal/accounts"
	"config-server/internal/audit"
	"config-server/internal/farm"
	"config-server/internal/obs"
	"config-server/internal/overview"
	"config-server/internal/workspaces"
)

// Workspaces has the use cases on pods. Errors are *farm.Error; any other is told as unforeseen.
// The context carries the request's budget and ends when the caller goes away.
type Workspaces interface {
	Create(ctx context.Context, req workspaces.CreateRequest) (workspaces.Created, error)
	Delete(ctx context.Context, pod string) (workspaces.Deleted, error)
	Migrate(ctx context.Context, req workspaces.MigrateRequest) (workspaces.Migrated, error)
}

// Accounts has the use cases on users and groups. Errors are *farm.Error; any other is told as
// unforeseen. Types and forms of a request are checked here, its meaning there.
type Accounts interface {
	Users(ctx context.Context) (accounts.UserList, error)
	User(ctx context.Context, name string) (farm.Account, []accounts.Membership, error)
	CreateUser(ctx context.Context, user accounts.NewUser) (accounts.Created, error)
	DeleteUser(ctx context.Context, name string) (accounts.Deleted, error)
	Groups(ctx context.Context) (accounts.GroupList, error)
	JoinGroups(ctx context.Context, user string, groups []string) ([]string, error)
	CreateGroup(ctx context.Context, group accounts.NewGroup) (farm.GroupRef, error)
	DeleteGroup(ctx context.Context, name string) (farm.GroupRef, error)
}

// Overview tells what stands now. Errors say which part cannot be read and why.
type Overview interface {
	Workspaces(ctx context.Context) ([]overview.Workspace, error)
	Nodes(ctx context.Context) (overview.Nodes, error)
	Findings(ctx context.Context) (audit.Outcome, error)
}

// GPUs tells what GPUs can be asked for. The error says that nothing is known.
type GPUs interface {
	List(ctx context.Context) (farm.GPUOffer, error)
}

// Check is a part whose health /readyz tells. Run returns nil or an error whose text is fit for the
// public: /readyz needs no token.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// Defaults of Options.
const (
	DefaultAccountsBudget = 100 * time.Second // admin_be gives up after 120 s
	DefaultPodsBudget     = 270 * time.Second // admin_be gives up after 300 s
	DefaultBodyLimit      = 1 << 20           // bytes
	DefaultBodyWait       = 30 * time.Second
	DefaultReadyLimit     = 3 * time.Second
)

// readBudget bounds GET /workspaces, /nodes, /images and /findings, gpuBudget GET /gpu-options and /projects, which ask the API server anew.
const (
	readBudget = 10 * time.Second
	gpuBudget  = 25 * time.Second
)

// Options of the API. Workspaces, Accounts, Progress, Overview, GPUs and Images are needed; everything else has a default.
type Options struct {
	Workspaces Workspaces
	Accounts   Accounts
	Progress   Progress
	Overview   Overview
	GPUs       GPUs
	Images     Images
	Projects   Projects     // nil = projects are switched off
	Log        *slog.Logger // nil = discard
	Metrics    *obs.Metrics // nil = an own registry
	// APIToken, if not empty, must come with each request in the header X-Internal-Token, except
	// on /health, /readyz and /metrics.
	APIToken string
	// Ready are the parts that /readyz asks, all at once, each for at most ReadyLimit.
	Ready      []Check
	ReadyLimit time.Duration
	// Draining reports that the service is shutting down: requests that change something are then
	// refused with 503, and /readyz says so. nil = never.
	Draining func() bool
	// Ending is closed when streams have to end, because the server does; nil = never.
	Ending <-chan struct{}
	// AccountsBudget and PodsBudget bound a request's work below its caller's time-out.
	AccountsBudget time.Duration
	PodsBudget     time.Duration
	// BodyLimit in bytes; a longer body is 413. BodyWait bounds the time in which it must arrive.
	BodyLimit int64
	BodyWait  time.Duration
}

// api is the handler's state: the options with their defaults.
type api struct {
	Options
	ready  *readiness
	docs   *documentation
	routes chi.Routes
	// streams has one token for each open stream.
	streams chan struct{}
}

// API is the handler of the whole service.
type API struct {
	http.Handler
	api *api
}

// AskParts asks every part what /readyz asks, and keeps the outcome in the metrics. It takes no longer than
// ReadyLimit.
func (a *API) AskParts(ctx context.Context) { a.api.askParts(ctx) }

// New builds the handler of the whole service. The server around it should bound the time for a
// request's header (http.Server.ReadHeaderTimeout) but set no ReadTimeout: that one would end the
// context of every request that works longer. The body's time is bounded here.
func New(opts Options) *API {
	a := &api{Options: opts.withDefaults(), streams: make(chan struct{}, maxStreams)}
	a.ready = newReadiness(a.Ready, a.ReadyLimit)
	a.docs = newDocumentation()

	r := chi.NewRouter()
	r.Use(takeRequestID, a.logAccess, a.measure, a.recoverPanic, a.limitBody, a.requireToken, a.refuseWhenDraining, a.refuseLongBody, middleware.GetHead)
	r.NotFound(a.handle(a.unknownRoute))
	r.MethodNotAllowed(a.handle(a.unknownMethod))
	a.routes = r

	r.Get(pathHealth, answerHealth) // for its place among the routes; health answers before them
	r.Get(pathReady, a.readyz)
	r.Method(http.MethodGet, pathMetrics, a.Metrics.Handler())
	a.docs.mount(r)
	mountUI(r, a.Projects != nil)
	r.Get("/pods/{username}/status", a.handle(a.getStatus))
	r.Get(patternBadStatus, a.handle(a.badStatusPath))
	r.Get("/operations", a.handle(a.listOperations))
	r.With(budget(gpuBudget)).Get("/gpu-options", a.handle(a.listGPUOptions))
	a.mountProjects(func(pattern string, h func(http.ResponseWriter, *http.Request) error) {
		r.With(budget(gpuBudget)).Get(pattern, a.handle(h))
	})
	r.Group(func(r chi.Router) {
		r.Use(budget(a.PodsBudget))
		r.Post("/create-pod", a.handle(a.createPod))
		r.Post("/delete-pod", a.handle(a.deletePod))
		r.Post("/migrate", a.handle(a.migrate))
	})
	r.With(budget(exportBudget)).Post("/images/export", a.handle(a.exportImage))
	r.Group(func(r chi.Router) {
		r.Use(budget(pinBudget))
		r.Post("/images/pin", a.handle(a.pinImage))
		r.Delete("/images/pin", a.handle(a.unpinImage))
	})
	r.Group(func(r chi.Router) {
		r.Use(budget(readBudget))
		r.Get("/images", a.handle(a.listImages))
		r.Get("/workspaces", a.handle(a.listWorkspaces))
		r.Get("/nodes", a.handle(a.listNodes))
		r.Get("/findings", a.handle(a.listFindings))
	})
	r.Group(func(r chi.Router) {
		r.Use(budget(a.AccountsBudget))
		a.mountAccounts(r)
	})
	a.expectRoutes(r)
	return &API{Handler: a.health(r), api: a}
}

// expectRoutes tells the metrics of every route.
func (a *api) expectRoutes(r chi.Routes) {
	// Walk fails only where its function does.
	_ = chi.Walk(r, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		a.Metrics.Expect(route, method)
		return nil
	})
}

func (a *api) mountAccounts(r chi.Router) {
	r.Get("/accounts/users", a.handle(a.listUsers))
	r.Put("/accounts/users", a.handle(a.createUser))
	r.Get("/accounts/users/{name}", a.handle(a.getUser))
	r.Delete("/accounts/users/{name}", a.handle(a.deleteUser))
	r.Put("/accounts/users/{name}/groups", a.handle(a.joinGroups))
	r.Get("/accounts/groups", a.handle(a.listGroups))
	r.Put("/accounts/groups", a.handle(a.createGroup))
	r.Delete("/accounts/groups/{name}", a.handle(a.deleteGroup))

	// A name that is empty or has a slash matches none of the above. It is a bad name and no
	// missing page: callers read 404 on DELETE as "already gone".
	r.Get("/accounts/users/*", a.handle(a.badPathName))
	r.Delete("/accounts/users/*", a.handle(a.badPathName))
	r.Put(patternBadJoin, a.handle(a.badJoinPath))
	r.Delete("/accounts/groups/*", a.handle(a.badPathName))
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = obs.NewMetrics(obs.Build{})
	}
	if o.Draining == nil {
		o.Draining = func() bool { return false }
	}
	o.AccountsBudget = cmp.Or(o.AccountsBudget, DefaultAccountsBudget)
	o.PodsBudget = cmp.Or(o.PodsBudget, DefaultPodsBudget)
	o.BodyLimit = cmp.Or(o.BodyLimit, DefaultBodyLimit)
	o.BodyWait = cmp.Or(o.BodyWait, DefaultBodyWait)
	o.ReadyLimit = cmp.Or(o.ReadyLimit, DefaultReadyLimit)
	return o
}

// handle adapts a handler that returns its failure, so that every error goes through one table.
func (a *api) handle(h func(w http.ResponseWriter, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			a.fail(w, r, err)
		}
	}
}
