package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"config-server/internal/config"
	"config-server/internal/obs"
)

// CheckResult is what one outside part answered.
type CheckResult struct {
	Part   string
	Object string // its address or path
	Err    error  // nil = ok
	Remedy string // what to do about Err
	// Minor: what Err tells costs something, but the service does its work without.
	Minor bool
}

// checkLimit bounds the look at one part.
const checkLimit = 10 * time.Second

// Check tries each outside part once, all at the same time, and returns their results in a fixed
// order. It changes nothing. The error says that the parts could not even be built.
func Check(ctx context.Context, c config.Config) (_ []CheckResult, err error) {
	c.ListenAddr = "127.0.0.1:0" // the real one may be in use by the service that is checked
	a, err := New(Options{Config: c, Log: slog.New(slog.DiscardHandler), Build: obs.Build{Version: "check"}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.cleanups.run(context.WithoutCancel(ctx))) }()

	checks := a.checks()
	results := make([]CheckResult, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, checkLimit)
			defer cancel()
			results[i] = check.CheckResult
			results[i].Err = check.run(ctx)
		})
	}
	all.Wait()
	return results, nil
}

type partCheck struct {
	CheckResult
	run func(context.Context) error
}

func (a *App) checks() []partCheck {
	c, p := a.config, a.parts
	database, databaseRemedy := c.DatabasePath(), "Is STATE_DIR writable and DB_PATH a SQLite file?"
	if c.Database.Host != "" {
		database = fmt.Sprintf("%s@%s/%s", c.Database.User, net.JoinHostPort(c.Database.Host, strconv.Itoa(c.Database.Port)), c.Database.Name)
		databaseRemedy = "Is the server up, and are DB_HOST, DB_PORT, DB_USER, DB_PASSWORD and DB_NAME right? The user needs CREATE, ALTER and INDEX on the database once."
	}
	list := []partCheck{
		{CheckResult{Part: "share", Object: c.Share.Dir, Remedy: "Mount the share at BASE_ETC_DIR, writable for this process."}, p.ledger.CheckWritable},
		{CheckResult{Part: "state", Object: c.StateDir, Remedy: "Make STATE_DIR a folder on a local disk, writable for this process."}, a.checkState},
		{CheckResult{Part: "database", Object: database, Remedy: databaseRemedy}, p.database.Ready},
		{CheckResult{Part: "kubernetes", Object: "namespace " + c.Namespace, Remedy: "In the cluster: is the ServiceAccount bound to config-server-role? Outside: set KUBECONFIG."}, p.cluster.Ping},
		{CheckResult{Part: "nodes", Object: "cluster", Remedy: "Bind the ClusterRole that lets the ServiceAccount list nodes."}, func(ctx context.Context) error {
			_, err := p.cluster.Nodes(ctx)
			return err
		}},
		{CheckResult{Part: "rights", Object: "namespace " + c.Namespace, Remedy: "Bind the ServiceAccount to the chart's Role and ClusterRole."}, a.checkRights(neededRights(c))},
		{CheckResult{Part: "further rights", Object: "namespace " + c.Namespace, Remedy: "If that is not wanted, bind the ServiceAccount to the chart's Role and ClusterRole, with rbac.clusterServices and rbac.clusterPods on.", Minor: true}, a.checkRights(furtherRights(c))},
		{CheckResult{Part: "prometheus", Object: c.PromURL, Remedy: "Is PROM_URL right and Prometheus up? Without it the first candidate node is taken."}, p.load.Check},
		{CheckResult{Part: "admin_be", Object: c.WASURLTemplate, Remedy: "Is WAS_URL_TEMPLATE right and admin_be up?"}, p.userConfig.Check},
		{CheckResult{Part: "NAS", Object: fmt.Sprintf("%s@%s:%d %s", c.NAS.User, c.NAS.Host, c.NAS.Port, c.NAS.SharePath), Remedy: "Can NAS_SSH_USER log in with the key at NAS_SSH_KEY_PATH, and does NFS_USER_SHARE_PATH exist there?"}, p.homes.Check},
		{CheckResult{Part: "image store", Object: c.Images.StoreDir, Remedy: "Mount the folder of saved images at IMAGE_STORE_DIR; without it users get their base image."}, a.checkImages},
	}
	if p.cache != nil {
		list = append(list, partCheck{CheckResult{Part: "redis", Object: net.JoinHostPort(c.Redis.Host, strconv.Itoa(c.Redis.Port)),
			Remedy: "Is REDIS_HOST right and Redis up? Nothing but image metadata depends on it."}, p.cache.Check})
	}
	if template := c.Pods.Template; template != "" {
		list = append(list, partCheck{CheckResult{Part: "template", Object: fmt.Sprintf("PodTemplate %s of namespace %s", template, c.Namespace),
			Remedy: "Make the PodTemplate that POD_TEMPLATE names, or unset it; workspaces are made without.", Minor: true}, a.checkTemplate})
	}
	if p.selfHomes != nil {
		list = append(list, partCheck{CheckResult{Part: "homes", Object: fmt.Sprintf("%s of this service's own pod", c.OwnHomes()),
			Remedy: "Mount a volume that other pods can have too there, and at SELF_PATHS, or set HOME_VOLUME to nfs or hostPath (docs/operations.md). Run check in the pod."},
			func(ctx context.Context) error { _, err := p.selfHomes.Find(ctx); return err }})
	}
	return append(list, a.krb5Checks()...)
}

// checkState proves that locks can be kept.
func (a *App) checkState(ctx context.Context) error {
	lock, _, err := a.parts.locks.TryLock(ctx, "check")
	if err != nil {
		return err
	}
	if lock != nil {
		lock.Unlock()
	}
	return nil
}

// checkTemplate looks whether the template of every session is there.
func (a *App) checkTemplate(ctx context.Context) error {
	_, found, err := a.parts.cluster.PodTemplate(ctx, a.config.Pods.Template)
	if err == nil && !found {
		err = errors.New("there is no such PodTemplate")
	}
	return err
}

// checkImages looks at the store, and at the docker client only if there is an image to load.
func (a *App) checkImages(context.Context) error {
	entries, err := os.ReadDir(a.config.Images.StoreDir)
	if err != nil {
		return fmt.Errorf("read the store: %w", err)
	}
	if len(entries) == 0 {
		return nil
	}
	if _, err := exec.LookPath(a.config.Images.DockerBin); err != nil {
		return fmt.Errorf("there are saved images, but DOCKER_BIN cannot be run: %w", err)
	}
	return nil
}
