package app

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"config-server/internal/accounts"
	"config-server/internal/adminbe"
	"config-server/internal/catalog"
	"config-server/internal/cluster"
	"config-server/internal/config"
	"config-server/internal/database"
	"config-server/internal/farm"
	"config-server/internal/findings"
	"config-server/internal/gpuassign"
	"config-server/internal/gpuload"
	"config-server/internal/gpuoptions"
	"config-server/internal/httpapi"
	"config-server/internal/images"
	"config-server/internal/kerberos"
	"config-server/internal/ledger"
	"config-server/internal/locks"
	"config-server/internal/nas"
	"config-server/internal/nodeports"
	"config-server/internal/obs"
	"config-server/internal/operations"
	"config-server/internal/podspec"
	"config-server/internal/progress"
	"config-server/internal/reconciler"
	"config-server/internal/remote"
	"config-server/internal/saga"
	"config-server/internal/selfvolumes"
	"config-server/internal/workspaces"
)

// parts are the adapters and use cases of one service.
type parts struct {
	metrics  *obs.Metrics
	database *database.DB
	locks    locks.Locker
	cluster  *cluster.Cluster
	catalog  *catalog.Service
	load     load
	gpus     *gpuoptions.Scanner
	// deviceFiles is nil unless GPUs are assigned.
	deviceFiles *gpuassign.Assigner
	deviceCount deviceCount
	selfHomes   *selfvolumes.Finder // nil without HOME_VOLUME=self
	userConfig  *adminbe.Client
	homes       *nas.Homes
	ledger      *ledger.Ledger
	cache       *images.Cache   // nil without REDIS_HOST
	realm       *kerberos.Realm // nil without KRB5_REALM
	farmNodes   []farmNode
	accounts    *accounts.Service
	progress    *progress.Store
	workspaces  *workspaces.Service
	reconciler  *reconciler.Reconciler
	findings    *findings.Store
	handler     *httpapi.API
}

// build makes every part. Each one that has an end puts it on the clean-up stack.
func (a *App) build(opts Options) (*parts, error) {
	c := a.config
	p := &parts{metrics: obs.NewMetrics(opts.Build)}
	observe := crashPoints(saga.Observers(p.metrics.Observe, obs.LogSteps(a.log)))
	called := func(part string) farm.CallObserver { return p.metrics.Calls(part, a.log) }

	var err error
	if p.database, err = a.openDatabase(p.metrics); err != nil {
		return nil, err
	}
	a.cleanups.add("database", func(context.Context) error { return p.database.Close() })
	p.locks = locks.Observed(a.openLocks(p.database), lockWaits(p.metrics))
	p.progress = a.openProgress(p.database)

	p.cluster = a.openCluster(opts, called(obs.PartKubernetes))
	a.cleanups.add("watches", func(context.Context) error { p.cluster.Stop(); return nil })

	scorer, err := gpuload.New(gpuload.Options{URL: c.PromURL, Timeout: c.HTTPTimeout.Duration(), Called: called(obs.PartPrometheus)})
	if err != nil {
		return nil, fmt.Errorf("PROM_URL: %w", err)
	}
	p.load = load{scorer}
	if p.userConfig, err = adminbe.New(adminbe.Options{
		URLTemplate: c.WASURLTemplate, Timeout: c.HTTPTimeout.Duration(), RequestID: obs.RequestID, Called: called(obs.PartAdminBE),
	}); err != nil {
		return nil, fmt.Errorf("WAS_URL_TEMPLATE: %w", err)
	}
	if p.homes, err = a.openNAS(p.metrics); err != nil {
		return nil, err
	}
	p.cache = a.openCache(called(obs.PartRedis))
	store := images.New(images.Options{
		StoreDir: c.Images.StoreDir, DockerBin: c.Images.DockerBin, LoadTimeout: c.Images.LoadTimeout.Duration(), SaveTimeout: c.Images.SaveTimeout.Duration(),
		Cache: p.cache, Called: called(obs.PartEngine),
	})
	p.ledger = ledger.New(ledger.Options{
		Dir: c.Share.Dir, Lock: p.locks, SudoCommands: c.Share.SudoCommands, ReservedNames: c.Share.ReservedNames,
		Instance: a.instance, Point: crashPoint, Log: a.log,
	})
	keytabs, err := a.openKerberos(p)
	if err != nil {
		return nil, err
	}
	p.accounts = accounts.New(accounts.Options{
		Ledger: p.ledger, Homes: p.homes, Kerberos: keytabs, Locks: p.locks, Observer: observe, Log: a.log,
		Budget: c.Drain.AccountBudget.Duration(), UndoLimit: c.Drain.UndoReserve.Duration(), KeepEmptyGroups: c.Share.KeepEmptyGroups,
	})
	ports := nodeports.New(p.database, nodeports.Options{Min: c.NodePorts.Min, Max: c.NodePorts.Max})
	p.tellStates(c, ports)
	p.findings = findings.New(p.database)
	p.metrics.Audit(auditKinds(), p.countFindings)
	records := operations.New(p.database, a.instance)
	p.gpus = a.openGPUs(p.cluster)
	p.tellGPUs()
	p.deviceFiles = a.openDeviceFiles(p, scorer)
	p.tellDeviceFiles()
	var homes workspaces.Homes
	if p.selfHomes = a.openSelfHomes(p.cluster); p.selfHomes != nil {
		homes = p.selfHomes
	}
	held := a.openCatalog(p, opts)
	teams, err := a.openProjects(p.cluster, p.ledger)
	if err != nil {
		return nil, err
	}
	p.workspaces = workspaces.New(workspaces.Options{
		Teams:   openTeams(c.Projects, teams),
		Cluster: p.cluster, UserConfigs: p.userConfig, Load: p.load, Ports: ports,
		Accounts: p.ledger, Images: savedImages{store, p.cluster}, Pins: held, Kerberos: keytabs, GPUs: p.gpus, DeviceFiles: p.assigns(), Homes: homes, Locks: p.locks,
		Operations: records, Observer: observe, Progress: p.progress, RequestID: obs.RequestID, Meter: p.metrics, Log: a.log,
		Settings: podSettings(c), SessionTemplate: c.Pods.Template, Instance: a.instance, DeadAfter: a.deadAfter(),
		ReadyLimit: c.Pods.Ready.Duration(), PendingLimit: c.Pods.Pending.Duration(), UnschedulableLimit: c.Pods.Unschedulable.Duration(), PullGrace: c.Pods.PullGrace.Duration(),
		GoneLimit: c.Pods.Gone.Duration(), SaveLimit: c.Images.SaveTimeout.Duration(),
		Budget: c.Drain.PodBudget.Duration(), UndoLimit: c.Drain.UndoReserve.Duration(),
	})
	p.reconciler = reconciler.New(reconciler.Options{
		Cluster: p.cluster, Ports: ports, GPUs: p.assigned(), Operations: records, Locks: p.locks, UserLock: farm.UserLock,
		Tasks: p.tasks(),
		Grace: c.Reconciler.Grace.Duration(), Now: time.Now, Log: a.log,
		NewPass: func(ctx context.Context) context.Context { return obs.WithRequestID(ctx, obs.NewRequestID()) },
		Passed:  passed(p.metrics),
	})
	var shown httpapi.Projects // nil and not a nil reader
	if teams != nil {
		shown = teams
	}
	p.handler = httpapi.New(httpapi.Options{
		Workspaces: p.workspaces, Accounts: p.accounts, Progress: progress.NewView(p.progress, p.cluster), Overview: a.overview(p, ports), GPUs: p.gpus, Images: p.catalog, Projects: shown, Ending: a.ending, Log: a.log, Metrics: p.metrics, APIToken: c.APIToken,
		Ready: []httpapi.Check{
			{Name: "share", Run: p.ledger.CheckWritable},
			{Name: "database", Run: p.database.Ping},
			{Name: "kubernetes", Run: p.cluster.Ping},
		},
		Draining: a.draining.Load, AccountsBudget: c.Drain.AccountBudget.Duration(), PodsBudget: c.Drain.PodBudget.Duration(),
	})
	return p, nil
}

func (a *App) openDatabase(metrics *obs.Metrics) (*database.DB, error) {
	c := a.config
	told := []database.Option{database.Retried(a.retries(metrics)), database.Called(metrics.Calls(obs.PartDatabase, a.log))}
	if c.Database.Host == "" {
		db, err := database.OpenSQLite(c.DatabasePath(), told...)
		if err != nil {
			return nil, fmt.Errorf("open the embedded database: %w", err)
		}
		return db, nil
	}
	return database.OpenMySQL(database.MySQLConfig{
		Host: c.Database.Host, Port: c.Database.Port, User: c.Database.User, Password: c.Database.Password, Name: c.Database.Name,
	}, told...)
}

func (a *App) openLocks(db *database.DB) locks.Locker {
	if a.config.Share.Lock == "mysql" {
		named := locks.NewMySQL(db)
		a.cleanups.add("locks", func(context.Context) error { named.Close(); return nil })
		return named
	}
	local := locks.NewLocal(a.lockDir())
	if err := local.Sweep(); err != nil {
		a.log.Warn("files of locks that nobody holds stay", "error", err)
	}
	return local
}

// lockDir has the files of local locks.
func (a *App) lockDir() string { return filepath.Join(a.config.StateDir, "locks") }

// deadAfter: the kernel frees a lock file only with its process, MySQL a named lock with its
// connection too.
func (a *App) deadAfter() time.Duration {
	if a.config.Share.Lock == "mysql" {
		return 3 * lockProbe
	}
	return 0
}

func (a *App) openCluster(opts Options, called farm.CallObserver) *cluster.Cluster {
	options := cluster.Options{Namespace: a.config.Namespace, Log: a.log, Called: called, WrapTransport: crashTransport()}
	if opts.Cluster != nil {
		return opts.Cluster(options)
	}
	return cluster.Connect("", options)
}

func (a *App) openNAS(metrics *obs.Metrics) (*nas.Homes, error) {
	c := a.config.NAS
	client, err := remote.New(remote.Options{
		Host: c.Host, Port: c.Port, User: c.User, KeyPath: c.KeyPath, KnownHosts: c.KnownHosts, Log: a.log,
		Connected: func(again bool, err error) { metrics.SSHConnect(obs.SSHNAS, again, err) }, Called: metrics.Calls(obs.PartNAS, a.log),
	})
	if err != nil {
		return nil, fmt.Errorf("NAS_SSH_HOST: %w", err)
	}
	a.cleanups.add("NAS connection", func(context.Context) error { return client.Close() })
	homes, err := nas.New(nas.Options{Runner: crashRunner(client), Host: c.Host, SharePath: c.SharePath})
	if err != nil {
		return nil, fmt.Errorf("NFS_USER_SHARE_PATH: %w", err)
	}
	return homes, nil
}

func (a *App) openCache(called farm.CallObserver) *images.Cache {
	c := a.config.Redis
	if c.Host == "" {
		return nil
	}
	cache := images.NewCache(images.CacheOptions{Addr: net.JoinHostPort(c.Host, strconv.Itoa(c.Port)), DB: c.DB, Called: called, Log: a.log})
	a.cleanups.add("Redis", cache.Close)
	return cache
}

func podSettings(c config.Config) podspec.Settings {
	return podspec.Settings{
		Namespace:  c.Namespace,
		CPURequest: c.Pods.CPURequest, CPULimit: c.Pods.CPULimit, MemRequest: c.Pods.MemoryRequest, MemLimit: c.Pods.MemoryLimit,
		ImagePullPolicy: c.Pods.PullPolicy, HomeVolume: c.Pods.HomeVolume,
		NFSServer: c.Pods.NFSServer, NFSPath: c.NAS.SharePath, HomeHostPath: c.Pods.HomeRoot, Krb5Realm: c.Kerberos.Realm,
		AccountSecret: c.Pods.AccountSecret, RuntimeClass: runtimeClass(c),
	}
}

// load is the scorer with its rule of choice, as the use cases want them together.
type load struct{ *gpuload.Scorer }

// Choose returns the node with the lowest score.
func (load) Choose(order []farm.NodeName, scores map[farm.NodeName]float64) (farm.NodeName, bool) {
	return gpuload.Choose(order, scores)
}

// savedImages has a workspace saved through the cluster.
type savedImages struct {
	*images.Store
	cluster *cluster.Cluster
}

// Save runs the save script in the pod.
func (s savedImages) Save(ctx context.Context, pod farm.Pod) error {
	return s.Store.Save(ctx, func(ctx context.Context, pod farm.PodName, container string, command []string) (int, string, error) {
		result, err := s.cluster.Exec(ctx, pod, container, command)
		return result.ExitCode, result.Stderr, err
	}, pod)
}
