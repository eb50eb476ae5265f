package gpuassign

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"config-server/internal/database"
	"config-server/internal/farm"
)

// Rows lists all rows by node and index.
func (a *Assigner) Rows(ctx context.Context) ([]farm.GPURow, error) {
	var all []farm.GPURow
	err := a.DB.Read(ctx, "list_gpus", func(ctx context.Context, q database.Queryer) (err error) {
		all, err = queryRows(ctx, q, "ORDER BY node_name, gpu_index, id")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list assigned GPUs: %w", err)
	}
	return all, nil
}

// Release removes a pod's rows and returns how many there were. It is safe to repeat.
func (a *Assigner) Release(ctx context.Context, pod farm.PodName) (int, error) {
	removed, err := a.DB.Count(ctx, "release_gpus", func(ctx context.Context, tx *sql.Tx) (int, error) {
		return database.Affected(tx.ExecContext(ctx, "DELETE FROM config_server_gpus WHERE pod_name = ?", string(pod)))
	})
	if err != nil {
		return 0, fmt.Errorf("release the GPUs of pod %s: %w", pod, err)
	}
	return removed, nil
}

// ReleaseRows removes rows that were read before, each only if it still is the pod's, and returns how many
// it removed.
func (a *Assigner) ReleaseRows(ctx context.Context, rows []farm.GPURow) (int, error) {
	removed, err := a.DB.Count(ctx, "release_gpu_rows", func(ctx context.Context, tx *sql.Tx) (int, error) {
		count := 0
		for _, row := range rows {
			n, err := database.Affected(tx.ExecContext(ctx, "DELETE FROM config_server_gpus WHERE id = ? AND pod_name = ?", row.ID, string(row.Pod)))
			if err != nil {
				return 0, err
			}
			count += n
		}
		return count, nil
	})
	if err != nil {
		return 0, fmt.Errorf("release %d assigned GPUs: %w", len(rows), err)
	}
	return removed, nil
}

// Adopt writes the missing ones of rows, which were read off running workspaces, and returns how many were
// missing. One whose index another workspace has already is written all the same, as one that is shared:
// what runs cannot be refused any more.
func (a *Assigner) Adopt(ctx context.Context, rows []farm.GPURow) (int, error) {
	added, err := a.DB.Count(ctx, "adopt_gpus", func(ctx context.Context, tx *sql.Tx) (int, error) {
		if err := a.DB.LockRow(ctx, tx, mutexRow); err != nil {
			return 0, err
		}
		have, err := queryRows(ctx, tx, "ORDER BY id")
		if err != nil {
			return 0, err
		}
		written, held := map[podIndex]bool{}, map[nodeIndex]bool{}
		for _, row := range have {
			written[podIndex{row.Pod, row.Index}], held[nodeIndex{row.Node, row.Index}] = true, true
		}
		count := 0
		for _, row := range rows {
			of, at := podIndex{row.Pod, row.Index}, nodeIndex{row.Node, row.Index}
			if written[of] {
				continue
			}
			if err := insertRow(ctx, tx, row, a.Mode == Exclusive && !held[at]); err != nil {
				return 0, err
			}
			written[of], held[at] = true, true
			count++
		}
		return count, nil
	})
	if err != nil {
		return 0, fmt.Errorf("adopt %d assigned GPUs: %w", len(rows), err)
	}
	return added, nil
}

// The two keys of the table.
type (
	podIndex struct {
		pod   farm.PodName
		index int
	}
	nodeIndex struct {
		node  farm.NodeName
		index int
	}
)

// insert writes the rows of a pod.
func (a *Assigner) insert(ctx context.Context, tx *sql.Tx, owner farm.PortOwner, place farm.GPUPlace) error {
	for _, index := range place.GPUs.Indexes() {
		row := farm.GPURow{User: owner.User, Pod: owner.Pod, Node: place.Node, Index: index}
		if err := insertRow(ctx, tx, row, a.Mode == Exclusive); err != nil {
			return err
		}
	}
	return nil
}

// insertRow writes a row. One that is alone collides with another of its index that is.
func insertRow(ctx context.Context, tx *sql.Tx, row farm.GPURow, alone bool) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO config_server_gpus (username, pod_name, node_name, gpu_index, alone) VALUES (?, ?, ?, ?, ?)",
		string(row.User), string(row.Pod), string(row.Node), row.Index, sql.NullInt16{Int16: 1, Valid: alone})
	return err
}

func queryRows(ctx context.Context, q database.Queryer, rest string) ([]farm.GPURow, error) {
	rows, err := q.QueryContext(ctx, strings.TrimSpace("SELECT id, username, pod_name, node_name, gpu_index, created_at FROM config_server_gpus "+rest))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []farm.GPURow
	for rows.Next() {
		var row farm.GPURow
		if err := rows.Scan(&row.ID, &row.User, &row.Pod, &row.Node, &row.Index, &row.CreatedAt); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
