package app

import (
	"context"
	"time"

	"config-server/internal/catalog"
	"config-server/internal/obs"
	"config-server/internal/pins"
	"config-server/internal/registry"
)

// openCatalog makes the use cases on images, and returns the pins, which workspaces ask for.
func (a *App) openCatalog(p *parts, opts Options) *pins.Store {
	c := a.config
	client := registry.New(registry.Options{Insecure: c.Images.InsecureRegistries, Transport: opts.Registries, Called: p.metrics.Calls(obs.PartRegistry, a.log)})
	a.cleanups.add("registries", func(context.Context) error { client.Close(); return nil })
	held := pins.New(p.database, pins.DefaultKeep)
	p.catalog = catalog.New(catalog.Options{
		Pins: held, Registry: client, Cluster: p.cluster, SessionTemplate: c.Pods.Template, Settings: podSettings(c),
		StartLimit: c.Pods.Pending.Duration(), RequestID: obs.RequestID, Now: time.Now, Log: a.log,
	})
	return held
}
