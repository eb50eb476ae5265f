package database

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// A key that a table needs. Its columns must be the first ones of some index; a unique key's must
// be all of one unique index.
type key struct {
	table   string
	name    string
	columns []string
	unique  bool
}

// neededKeys lists the keys of the tables that were made by hand.
func neededKeys() []key {
	return []key{
		{table: "nodeport_allocations", name: "nodeport_allocations_node_port", columns: []string{"node_port"}, unique: true},
		{table: "nodeport_allocations", name: "nodeport_allocations_pod_name", columns: []string{"pod_name"}},
		{table: "nodeport_allocations", name: "nodeport_allocations_username", columns: []string{"username"}},
		{table: "krb5_cleanup_pending", name: "krb5_cleanup_pending_username_node_name", columns: []string{"username", "node_name"}, unique: true},
	}
}

// neededColumns lists the columns without which the service cannot use those tables.
func neededColumns() map[string][]string {
	return map[string][]string{
		"nodeport_allocations": {"id", "username", "pod_name", "node_name", "internal_port", "node_port", "purpose", "created_at"},
		"krb5_cleanup_pending": {"id", "username", "node_name", "failed_at"},
	}
}

// adopt adds the missing keys to the hand-made tables of MySQL, and refuses tables that are not
// what their name says. It changes nothing else.
func adopt(ctx context.Context, tx *sql.Tx) error {
	for table, columns := range neededColumns() {
		if err := checkColumns(ctx, tx, table, columns); err != nil {
			return err
		}
	}
	for _, k := range neededKeys() {
		if err := ensureKey(ctx, tx, k); err != nil {
			return err
		}
	}
	return nil
}

func checkColumns(ctx context.Context, tx *sql.Tx, table string, columns []string) error {
	have, err := texts(ctx, tx, `SELECT LOWER(column_name) FROM information_schema.columns
		WHERE table_schema = DATABASE() AND table_name = ?`, table)
	if err != nil {
		return fmt.Errorf("read columns of %s: %w", table, err)
	}
	var missing []string
	for _, column := range columns {
		if !slices.Contains(have, column) {
			missing = append(missing, column)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("table %s exists without the columns %s: add them, or rename the table so that a new one is made",
			table, strings.Join(missing, ", "))
	}
	return nil
}

func ensureKey(ctx context.Context, tx *sql.Tx, k key) error {
	unique := 1 // information_schema tells the opposite: non_unique
	if k.unique {
		unique = 0
	}
	indexes, err := texts(ctx, tx, `SELECT GROUP_CONCAT(LOWER(column_name) ORDER BY seq_in_index) FROM information_schema.statistics
		WHERE table_schema = DATABASE() AND table_name = ? AND non_unique <= ? GROUP BY index_name`, k.table, unique)
	if err != nil {
		return fmt.Errorf("read keys of %s: %w", k.table, err)
	}
	want := strings.Join(k.columns, ",")
	for _, index := range indexes {
		if index == want || !k.unique && strings.HasPrefix(index, want+",") {
			return nil
		}
	}
	kind := "KEY"
	if k.unique {
		kind = "UNIQUE KEY"
	}
	statement := fmt.Sprintf("ALTER TABLE %s ADD %s %s (%s)", k.table, kind, k.name, want)
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("add key on %s to table %s: %w", want, k.table, err)
	}
	return nil
}

func texts(ctx context.Context, q Queryer, query string, args ...any) ([]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}
