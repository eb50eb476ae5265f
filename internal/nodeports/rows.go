package nodeports

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"config-server/internal/database"
	"config-server/internal/farm"
)

// Rows lists all rows by port, those outside the range included. CreatedAt is in UTC, to the second.
func (a *Allocator) Rows(ctx context.Context) ([]farm.Row, error) {
	rows, err := a.read(ctx, "list_ports", "ORDER BY node_port")
	if err != nil {
		return nil, fmt.Errorf("list NodePort rows: %w", err)
	}
	return rows, nil
}

// RowsOf lists a pod's rows by port.
func (a *Allocator) RowsOf(ctx context.Context, pod farm.PodName) ([]farm.Row, error) {
	rows, err := a.read(ctx, "list_pod_ports", "WHERE pod_name = ? ORDER BY node_port", pod)
	if err != nil {
		return nil, fmt.Errorf("list NodePort rows of pod %s: %w", pod, err)
	}
	return rows, nil
}

// Release removes a pod's rows and returns how many there were. It is safe to repeat.
func (a *Allocator) Release(ctx context.Context, pod farm.PodName) (int, error) {
	removed, err := a.db.Count(ctx, "release_ports", func(ctx context.Context, tx *sql.Tx) (int, error) {
		return database.Affected(tx.ExecContext(ctx, "DELETE FROM nodeport_allocations WHERE pod_name = ?", string(pod)))
	})
	if err != nil {
		return 0, fmt.Errorf("release NodePorts of pod %s: %w", pod, err)
	}
	return removed, nil
}

// ReleaseRows removes rows that were read before, each only if it still has the pod and the port
// that it had then, and returns how many it removed. All or none are removed.
func (a *Allocator) ReleaseRows(ctx context.Context, rows []farm.Row) (int, error) {
	removed, err := a.db.Count(ctx, "release_rows", func(ctx context.Context, tx *sql.Tx) (int, error) {
		count := 0
		for _, row := range rows {
			n, err := database.Affected(tx.ExecContext(ctx, "DELETE FROM nodeport_allocations WHERE id = ? AND pod_name = ? AND node_port = ?",
				row.ID, string(row.Pod), row.Port.External))
			if err != nil {
				return 0, err
			}
			count += n
		}
		return count, nil
	})
	if err != nil {
		return 0, fmt.Errorf("release %d NodePort rows: %w", len(rows), err)
	}
	return removed, nil
}

// Adopt writes the missing ones of rows, which were read off live Services, and returns how many
// were missing. A row that is there already is left as it is. Where the port has another pod's row
// nothing is written for it, and the error wraps farm.ErrOwner and names both pods; the other rows
// are written all the same.
func (a *Allocator) Adopt(ctx context.Context, rows []farm.Row) (int, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	leave, err := a.enter(ctx)
	if err != nil {
		return 0, fmt.Errorf("adopt %d NodePort rows: %w", len(rows), err)
	}
	defer leave()

	var conflicts []error
	added, err := a.db.Count(ctx, "adopt_ports", func(ctx context.Context, tx *sql.Tx) (int, error) {
		count := 0
		conflicts = nil
		if err := a.db.LockRow(ctx, tx, mutexRow); err != nil {
			return 0, err
		}
		owners, err := owners(ctx, tx)
		if err != nil {
			return 0, err
		}
		for _, row := range rows {
			pod, exists := owners[row.Port.External]
			if exists && pod == row.Pod {
				continue
			}
			if exists {
				conflicts = append(conflicts, fmt.Errorf("adopt NodePort %d of pod %s: %w: it has a row of pod %s",
					row.Port.External, row.Pod, farm.ErrOwner, pod))
				continue
			}
			if err := insertStorable(ctx, tx, row); err != nil {
				return 0, err
			}
			owners[row.Port.External] = row.Pod
			count++
		}
		return count, nil
	})
	if err != nil {
		return 0, fmt.Errorf("adopt %d NodePort rows: %w", len(rows), err)
	}
	return added, errors.Join(conflicts...)
}

// owners maps each port that has a row to its pod.
func owners(ctx context.Context, tx *sql.Tx) (map[int]farm.PodName, error) {
	rows, err := tx.QueryContext(ctx, "SELECT node_port, pod_name FROM nodeport_allocations")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	owners := map[int]farm.PodName{}
	for rows.Next() {
		var port int
		var pod farm.PodName
		if err := rows.Scan(&port, &pod); err != nil {
			return nil, err
		}
		owners[port] = pod
	}
	return owners, rows.Err()
}

func (a *Allocator) read(ctx context.Context, name, where string, args ...any) ([]farm.Row, error) {
	var all []farm.Row
	err := a.db.Read(ctx, name, func(ctx context.Context, q database.Queryer) (err error) {
		all, err = queryRows(ctx, q, where, args...)
		return err
	})
	return all, err
}

func queryRows(ctx context.Context, q database.Queryer, where string, args ...any) ([]farm.Row, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, username, pod_name, node_name, internal_port, node_port, purpose, created_at
		FROM nodeport_allocations `+where, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []farm.Row
	for rows.Next() {
		var row farm.Row
		var purpose sql.NullString
		var created sql.NullTime
		if err := rows.Scan(&row.ID, &row.User, &row.Pod, &row.Node, &row.Port.Internal, &row.Port.External, &purpose, &created); err != nil {
			return nil, err
		}
		row.Port.Purpose, row.CreatedAt = purpose.String, created.Time
		all = append(all, row)
	}
	return all, rows.Err()
}
