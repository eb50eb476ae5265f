package app

import (
	"context"
	"errors"
	"net"
	"os"
	"path"
	"time"

	"config-server/internal/cluster"
	"config-server/internal/obs"
	"config-server/internal/podspec"
	"config-server/internal/selfvolumes"
)

// openSelfHomes makes what finds the service's own volumes; nil = workspaces have nothing of them.
func (a *App) openSelfHomes(c *cluster.Cluster) *selfvolumes.Finder {
	if a.config.Pods.HomeVolume != podspec.HomeSelf {
		return nil
	}
	own := a.config.Self
	paths := []selfvolumes.Path{{Own: a.config.OwnHomes(), At: podspec.HomePath, Writable: true}}
	for _, dir := range own.Paths {
		paths = append(paths, selfvolumes.Path{Own: dir, At: path.Clean(dir)})
	}
	opts := selfvolumes.Options{Reader: c, Host: own.PodName, Namespace: a.config.Namespace, Paths: paths, Log: a.log}
	if opts.Host == "" {
		// A host without a name is looked up by its addresses.
		opts.Host, _ = os.Hostname()
	}
	if opts.Addresses = []string{own.PodIP}; own.PodIP == "" {
		opts.Addresses = hostAddresses()
	}
	return selfvolumes.New(opts)
}

// hostAddresses are those by which others reach this host, or container.
func hostAddresses() []string {
	var list []string
	// Without any only the name counts.
	all, _ := net.InterfaceAddrs()
	for _, address := range all {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			list = append(list, network.IP.String())
		}
	}
	return list
}

// findSelfHomes looks what workspaces can have of the service's own volumes, until it is known or certain that they
// can have nothing: then that is an error that ends the service. An API server that is down delays only this.
func (a *App) findSelfHomes(ctx context.Context) error {
	told := ""
	for {
		try, cancel := context.WithTimeout(obs.WithRequestID(ctx, obs.NewRequestID()), checkLimit)
		_, err := a.parts.selfHomes.Find(try)
		cancel()
		switch {
		case err == nil, ctx.Err() != nil:
			return nil
		case errors.Is(err, selfvolumes.ErrUnfit):
			return err
		case err.Error() != told:
			told = err.Error()
			a.log.WarnContext(ctx, "no workspace can be made until it is known where the homes are; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryPause):
		}
	}
}
