// Package source makes projects of the Linux groups of the ledger.
package source

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"config-server/internal/farm"
	"config-server/internal/projects"
)

// Groups lists the groups of the ledger with all their members. Version is the same for as long as they are.
type Groups interface {
	Groups(ctx context.Context) (groups []farm.Group, version string, err error)
}

// Options of a Ledger. Groups is needed.
type Options struct {
	Groups Groups
	// Names are the groups that are projects, where they exist and their number is in the service's band.
	Names []string
	// Settings is the file that says who manages a project, its nodes and its quota; empty = none.
	Settings string
	Log      *slog.Logger // nil = discarded
}

// Ledger has the groups of the ledger as projects. It is safe for concurrent use.
type Ledger struct {
	opts Options

	mu       sync.Mutex
	settings map[string]setting
	stamp    stamp // of the file when it was last read, well or not
}

// stamp tells two states of a file apart.
type stamp struct {
	changed time.Time
	size    int64
}

// New reads the settings. The error names every fault in them.
func New(opts Options) (*Ledger, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	l := &Ledger{opts: opts}
	if opts.Settings == "" {
		return l, nil
	}
	now, err := stampOf(opts.Settings)
	if err != nil {
		return nil, err
	}
	if l.settings, err = readSettings(opts.Settings, opts.Names); err != nil {
		return nil, err
	}
	l.stamp = now
	return l, nil
}

func stampOf(file string) (stamp, error) {
	info, err := os.Stat(file)
	if err != nil {
		return stamp{}, fmt.Errorf("look at the settings of projects: %w", err)
	}
	return stamp{info.ModTime(), info.Size()}, nil
}

// Projects lists the groups that are projects. A group's members have the role of a member; managers, nodes and quota are those of the
// settings, and a manager need not be in the group. Settings that have changed count at once; while they are faulty, the last good
// ones do.
func (l *Ledger) Projects(ctx context.Context) ([]projects.Project, error) {
	groups, _, err := l.opts.Groups.Groups(ctx)
	if err != nil {
		return nil, err
	}
	settings := l.present(ctx)
	var all []projects.Project
	for _, group := range groups {
		name := string(group.Name)
		known := slices.ContainsFunc(all, func(p projects.Project) bool { return p.Name == name })
		if !slices.Contains(l.opts.Names, name) || !group.GID.InBand() || known {
			continue
		}
		all = append(all, projectOf(group, settings[name]))
	}
	return all, nil
}

func projectOf(group farm.Group, s setting) projects.Project {
	p := projects.Project{
		Name: string(group.Name), Quota: maps.Clone(s.Quota.Hard),
		Binding: projects.Binding{Nodes: slices.Clone(s.Binding.Nodes), NodeGroups: slices.Clone(s.Binding.NodeGroups)},
	}
	for _, name := range s.Managers {
		p.Members = append(p.Members, projects.Member{User: name, Role: projects.Manager})
	}
	for _, name := range group.Members {
		if !p.Has(string(name)) {
			p.Members = append(p.Members, projects.Member{User: string(name), Role: projects.PlainMember})
		}
	}
	return p
}

// present are the settings as the file has them, read again if it has changed.
func (l *Ledger) present(ctx context.Context) map[string]setting {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opts.Settings == "" {
		return nil
	}
	now, err := stampOf(l.opts.Settings)
	if err == nil && now == l.stamp {
		return l.settings
	}
	if err != nil && l.stamp == (stamp{}) {
		return l.settings // told already
	}
	l.stamp = now
	var fresh map[string]setting
	if err == nil {
		fresh, err = readSettings(l.opts.Settings, l.opts.Names)
	}
	if err != nil {
		l.opts.Log.WarnContext(ctx, "the settings of projects have changed and are faulty: the last good ones stay", "error", err)
		return l.settings
	}
	l.settings = fresh
	return fresh
}

// Watch calls changed whenever groups or settings have changed since the last look, until the context is done. It looks once each
// interval, which costs two looks at time stamps while nothing has changed; a ledger that cannot be read counts as unchanged.
func (l *Ledger) Watch(ctx context.Context, interval time.Duration, changed func()) {
	var last string
	for begun := false; ; begun = true {
		now, err := l.version(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			l.opts.Log.WarnContext(ctx, "the groups that are projects cannot be read", "error", err)
		case err == nil && now != last:
			last = now
			if begun {
				changed()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
	}
}

func (l *Ledger) version(ctx context.Context) (string, error) {
	_, version, err := l.opts.Groups.Groups(ctx)
	if err != nil || l.opts.Settings == "" {
		return version, err
	}
	// A file that is gone is a state too: it is told by an empty stamp.
	now, _ := stampOf(l.opts.Settings)
	return fmt.Sprintf("%s %d %d", version, now.changed.UnixNano(), now.size), nil
}
