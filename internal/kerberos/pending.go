package kerberos

import (
	"context"
	"fmt"
	"unicode/utf8"

	"config-server/internal/database"
	"config-server/internal/farm"
)

// Pending notes the removals from farm nodes that failed, so that they outlive the process.
type Pending interface {
	// Note keeps a removal; without an error it is kept.
	Note(ctx context.Context, left farm.KeytabLeft) error
	// Forget strikes it; one that is not there is no error.
	Forget(ctx context.Context, left farm.KeytabLeft) error
	// List reads all, the oldest failure first.
	List(ctx context.Context) ([]farm.KeytabLeft, error)
}

// Table is the Pending of table krb5_cleanup_pending, which production has from before this service.
type Table struct{ db *database.DB }

// NewTable returns the table of a database.
func NewTable(db *database.DB) *Table { return &Table{db: db} }

// maxName is the width of the table's columns, in characters. A wider name would be cut by some
// servers, and the row would then speak of somebody else.
const maxName = 64

// Note keeps a removal. It fails, beside the database's failures, for names that the table cannot
// hold: longer than its columns, or equal but for case to a row that is there.
func (t *Table) Note(ctx context.Context, left farm.KeytabLeft) error {
	for _, name := range []string{string(left.User), string(left.Node)} {
		if utf8.RuneCountInString(name) > maxName {
			return fmt.Errorf("note a keytab of %s on node %s: a name has more than %d characters", left.User, left.Node, maxName)
		}
	}
	_, err := t.db.Exec(ctx, "note_keytab",
		"INSERT INTO krb5_cleanup_pending (username, node_name, failed_at) VALUES (?, ?, CURRENT_TIMESTAMP)", string(left.User), string(left.Node))
	if err != nil && !database.IsDuplicate(err) {
		return fmt.Errorf("note a keytab of %s on node %s: %w", left.User, left.Node, err)
	}
	ids, err := t.ids(ctx, left)
	switch {
	case err != nil:
		return fmt.Errorf("note a keytab of %s on node %s: %w", left.User, left.Node, err)
	case len(ids) == 0:
		return fmt.Errorf("note a keytab of %s on node %s: the table holds another spelling: %w", left.User, left.Node, farm.ErrExists)
	}
	return nil
}

// Forget strikes a removal.
func (t *Table) Forget(ctx context.Context, left farm.KeytabLeft) error {
	ids, err := t.ids(ctx, left)
	if err != nil {
		return fmt.Errorf("forget a keytab of %s on node %s: %w", left.User, left.Node, err)
	}
	for _, id := range ids {
		if _, err := t.db.Exec(ctx, "forget_keytab", "DELETE FROM krb5_cleanup_pending WHERE id = ?", id); err != nil {
			return fmt.Errorf("forget a keytab of %s on node %s: %w", left.User, left.Node, err)
		}
	}
	return nil
}

// List reads all removals, the oldest failure first.
func (t *Table) List(ctx context.Context) ([]farm.KeytabLeft, error) {
	rows, err := t.read(ctx, "list_keytabs", "ORDER BY failed_at, id")
	if err != nil {
		return nil, fmt.Errorf("list keytabs to be removed: %w", err)
	}
	var left []farm.KeytabLeft
	for _, row := range rows {
		left = append(left, row.left)
	}
	return left, nil
}

// ids finds the rows that speak of exactly these names: the table of production compares without case.
func (t *Table) ids(ctx context.Context, left farm.KeytabLeft) ([]int64, error) {
	rows, err := t.read(ctx, "find_keytab", "WHERE username = ? AND node_name = ?", string(left.User), string(left.Node))
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, row := range rows {
		if row.left == left {
			ids = append(ids, row.id)
		}
	}
	return ids, nil
}

type pendingRow struct {
	id   int64
	left farm.KeytabLeft
}

func (t *Table) read(ctx context.Context, name, where string, args ...any) ([]pendingRow, error) {
	var all []pendingRow
	err := t.db.Read(ctx, name, func(ctx context.Context, q database.Queryer) error {
		all = nil
		rows, err := q.QueryContext(ctx, "SELECT id, username, node_name FROM krb5_cleanup_pending "+where, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var row pendingRow
			if err := rows.Scan(&row.id, &row.left.User, &row.left.Node); err != nil {
				return err
			}
			all = append(all, row)
		}
		return rows.Err()
	})
	return all, err
}
