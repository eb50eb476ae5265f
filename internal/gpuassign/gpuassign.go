// Package gpuassign gives workspaces device files of GPUs, /dev/nvidia<index> of their node, and keeps
// who has which in config_server_gpus.
//
// An index is in use as long as it has a row, or a workspace that has not ended mounts it. Choosing is
// serialised by a locked row, also between replicas; a unique key on node and index is the second line
// for indexes that nobody may share. Which GPUs a node has, and how busy they are, NVIDIA's exporter
// tells through Prometheus.
package gpuassign

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"

	"config-server/internal/database"
	"config-server/internal/farm"
)

// Mode says how indexes are chosen.
type Mode string

// The modes.
const (
	// LeastLoaded takes the GPUs that the fewest workspaces have, of those the least busy.
	LeastLoaded Mode = "least-loaded"
	// Exclusive takes GPUs that no workspace has, and none that has one.
	Exclusive Mode = "exclusive"
)

// Pods has the workspace pods with the GPU device files that they mount, those that have ended included.
type Pods interface {
	KnownPods(ctx context.Context) ([]farm.Pod, error)
}

// Devices tells the GPUs of nodes by index, with their utilisation in percent. A node of which nothing is
// known is absent.
type Devices interface {
	Devices(ctx context.Context, nodes []farm.NodeName) (map[farm.NodeName]map[int]float64, error)
}

// Options of an Assigner. All but Log are required.
type Options struct {
	Mode    Mode
	DB      *database.DB
	Pods    Pods
	Devices Devices
	Log     *slog.Logger // nil = discard
}

// Assigner gives GPUs. It is safe for concurrent use, over several replicas too.
type Assigner struct {
	Options
}

// New makes an Assigner. It asks nothing yet.
func New(opts Options) *Assigner {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Assigner{Options: opts}
}

// mutexRow is the row that a replica locks while it chooses indexes.
const mutexRow = "gpus"

// Assign gives the owner's pod GPUs of the first of the wishes that can be fulfilled, and writes their
// rows. A wish for no GPU is fulfilled without one. It fails with farm.ErrGPUsTaken, wrapped, which tells
// of each node who has what, and with the errors of the database and of Pods. The node of the owner does
// not matter.
func (a *Assigner) Assign(ctx context.Context, owner farm.PortOwner, wishes []farm.GPUWish) (farm.GPUPlace, error) {
	fail := func(err error) (farm.GPUPlace, error) {
		return farm.GPUPlace{}, fmt.Errorf("assign GPUs to pod %s: %w", owner.Pod, err)
	}
	if len(wishes) > 0 && wishes[0].Count == 0 {
		return farm.GPUPlace{Node: wishes[0].Node}, nil
	}
	known, err := a.devices(ctx, wishes)
	if err != nil {
		return fail(err)
	}
	pods, err := a.Pods.KnownPods(ctx)
	if err != nil {
		return fail(fmt.Errorf("read the GPUs of running workspaces: %w", err))
	}
	var place farm.GPUPlace
	err = a.DB.InTx(ctx, "assign_gpus", func(ctx context.Context, tx *sql.Tx) error {
		place = farm.GPUPlace{}
		if err := a.DB.LockRow(ctx, tx, mutexRow); err != nil {
			return err
		}
		rows, err := queryRows(ctx, tx, "ORDER BY id")
		if err != nil {
			return err
		}
		if kept, done := assigned(owner.Pod, rows); done {
			place = kept // this runs again after a commit that had no answer
			return nil
		}
		if place, err = choose(a.Mode, wishes, survey(known, pods, rows)); err != nil {
			return err
		}
		return a.insert(ctx, tx, owner, place)
	}, database.Repeatable())
	if err != nil {
		return fail(err)
	}
	if _, told := known[place.Node]; !told && place.GPUs.Len() > 0 {
		place.Warning = fmt.Sprintf("nobody tells which GPUs %s has: those up to the highest that is in use or asked for are taken to exist", place.Node)
	}
	return place, nil
}

// devices asks once for all nodes on which GPUs are wanted. Without an answer the nodes count as unknown:
// a farm without metrics still has users.
func (a *Assigner) devices(ctx context.Context, wishes []farm.GPUWish) (map[farm.NodeName]map[int]float64, error) {
	var nodes []farm.NodeName
	for _, wish := range wishes {
		if wish.Count > 0 {
			nodes = append(nodes, wish.Node)
		}
	}
	known, err := a.Devices.Devices(ctx, nodes)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		a.Log.WarnContext(ctx, "the GPUs of nodes are not known", "error", err)
	}
	return known, nil
}

// assigned finds what a pod has already.
func assigned(pod farm.PodName, rows []farm.GPURow) (place farm.GPUPlace, done bool) {
	var indexes []int
	for _, row := range rows {
		if row.Pod == pod {
			place.Node = row.Node
			indexes = append(indexes, row.Index)
		}
	}
	place.GPUs = farm.NewGPUSet(indexes...)
	return place, len(indexes) > 0
}
