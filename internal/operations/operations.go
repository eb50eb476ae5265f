// Package operations keeps a record of each create, delete and migrate that is under way.
//
// A use case begins its record before its first side effect and ends it last. A record whose
// instance is gone is what recovery works from. The record belongs to one instance at a time:
// whoever recovers it claims it first, and from then on its former owner can no longer advance it.
package operations

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"config-server/internal/database"
	"config-server/internal/farm"
)

// Kind names the use case of a record.
type Kind = farm.OperationKind

// The kinds.
const (
	Create  = farm.OperationCreate
	Delete  = farm.OperationDelete
	Migrate = farm.OperationMigrate
)

// Record is an operation under way. Its times are the database's, in UTC, to the second; Begin and
// Claim set Instance.
type Record = farm.Operation

// Store keeps the records of one instance and shows those of all.
type Store struct {
	db       *database.DB
	instance string
}

// New makes a Store. instance is this process's name among all replicas and restarts.
func New(db *database.DB, instance string) *Store { return &Store{db: db, instance: instance} }

// NewID makes an id for a record.
func NewID() string { return uuid.NewString() }

// Begin writes a record, as this instance's. Instance and the times in r are ignored.
func (s *Store) Begin(ctx context.Context, r Record) error {
	_, err := s.db.Exec(ctx, "begin_operation", `INSERT INTO config_server_operations
		(id, kind, username, pod_name, node_name, old_pod_name, old_node_name, stage, instance)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ID, string(r.Kind), string(r.User), string(r.Pod), string(r.Node), string(r.OldPod), string(r.OldNode), r.Stage, s.instance)
	if database.IsDuplicate(err) {
		// Nobody else has this id: the statement was kept when its answer was lost, and ran again. An
		// operation must not run without its record, so that is looked at.
		_, lost := s.Get(ctx, r.ID)
		if lost == nil {
			return nil
		}
		err = errors.Join(err, lost)
	}
	if err != nil {
		return fmt.Errorf("begin operation %s of %s: %w", r.Kind, r.User, err)
	}
	return nil
}

// Advance notes how far an operation has come. It returns farm.ErrNotFound, wrapped, when the record
// is gone or another instance has claimed it: then the operation must not go on.
func (s *Store) Advance(ctx context.Context, id, stage string) error {
	if err := s.update(ctx, "advance_operation", "stage", id, stage); err != nil {
		return fmt.Errorf("advance operation %s to %s: %w", id, stage, err)
	}
	return nil
}

// Place notes another node of the operation's pod. It fails like Advance.
func (s *Store) Place(ctx context.Context, id string, node farm.NodeName) error {
	if err := s.update(ctx, "place_operation", "node_name", id, string(node)); err != nil {
		return fmt.Errorf("place operation %s on %s: %w", id, node, err)
	}
	return nil
}

// update sets one column of this instance's record.
func (s *Store) update(ctx context.Context, name, column, id, value string) error {
	result, err := s.db.Exec(ctx, name,
		"UPDATE config_server_operations SET "+column+" = ?, updated_at = CURRENT_TIMESTAMP WHERE id = ? AND instance = ?", value, id, s.instance)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		err = fmt.Errorf("record of instance %s: %w", s.instance, farm.ErrNotFound)
	}
	return err
}

// End removes this instance's record. A record that is gone is a success; one that another instance
// has claimed is farm.ErrNotFound, wrapped: then what the operation made is being taken back.
func (s *Store) End(ctx context.Context, id string) error {
	result, err := s.db.Exec(ctx, "end_operation", "DELETE FROM config_server_operations WHERE id = ? AND instance = ?", id, s.instance)
	if err != nil {
		return fmt.Errorf("end operation %s: %w", id, err)
	}
	if n, err := result.RowsAffected(); err == nil && n > 0 {
		return nil
	}
	// Nothing was removed: the record was removed before, or it is somebody else's now.
	record, err := s.Get(ctx, id)
	switch {
	case errors.Is(err, farm.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("end operation %s: %w", id, err)
	}
	return fmt.Errorf("end operation %s: instance %s has claimed it: %w", id, record.Instance, farm.ErrNotFound)
}

// Claim makes a record this instance's, if it still is of instance from. It reports false if it is
// not: then somebody else has ended or claimed it.
func (s *Store) Claim(ctx context.Context, id, from string) (bool, error) {
	claimed := false
	err := s.db.InTx(ctx, "claim_operation", func(ctx context.Context, tx *sql.Tx) error {
		claimed = false
		result, err := tx.ExecContext(ctx, "UPDATE config_server_operations SET instance = ?, updated_at = CURRENT_TIMESTAMP WHERE id = ? AND instance = ?",
			s.instance, id, from)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		claimed = n > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("claim operation %s of instance %s: %w", id, from, err)
	}
	return claimed, nil
}

// Get reads one record. It returns farm.ErrNotFound, wrapped, if there is none.
func (s *Store) Get(ctx context.Context, id string) (Record, error) {
	records, err := s.read(ctx, "read_operation", "WHERE id = ?", id)
	if err == nil && len(records) == 0 {
		err = farm.ErrNotFound
	}
	if err != nil {
		return Record{}, fmt.Errorf("read operation %s: %w", id, err)
	}
	return records[0], nil
}

// List reads the records of all instances, the oldest first.
func (s *Store) List(ctx context.Context) ([]Record, error) {
	records, err := s.read(ctx, "list_operations", "ORDER BY started_at, id")
	if err != nil {
		return nil, fmt.Errorf("list operations: %w", err)
	}
	return records, nil
}

func (s *Store) read(ctx context.Context, name, where string, args ...any) ([]Record, error) {
	var all []Record
	err := s.db.Read(ctx, name, func(ctx context.Context, q database.Queryer) error {
		all = nil
		rows, err := q.QueryContext(ctx, `SELECT id, kind, username, pod_name, node_name, old_pod_name, old_node_name,
			stage, instance, started_at, updated_at FROM config_server_operations `+where, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var r Record
			err := rows.Scan(&r.ID, &r.Kind, &r.User, &r.Pod, &r.Node, &r.OldPod, &r.OldNode,
				&r.Stage, &r.Instance, &r.StartedAt, &r.UpdatedAt)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return rows.Err()
	})
	return all, err
}
