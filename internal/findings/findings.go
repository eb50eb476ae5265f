// Package findings keeps the outcome of the last audit in the database, so that every replica can
// show it.
package findings

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"config-server/internal/audit"
	"config-server/internal/database"
	"config-server/internal/farm"
)

// maxError is the number of characters of an error that is kept.
const maxError = 1000

// Store keeps one outcome, the last.
type Store struct{ db *database.DB }

// New makes a Store. It asks nothing of the database yet.
func New(db *database.DB) *Store { return &Store{db: db} }

// Save keeps what an audit has found, as of now by the database's clock, in place of what was kept.
func (s *Store) Save(ctx context.Context, found []audit.Finding) error {
	if found == nil {
		found = []audit.Finding{}
	}
	text, err := json.Marshal(found)
	if err == nil {
		// REPLACE, so that a row which somebody removed comes back.
		_, err = s.db.Exec(ctx, "save_findings",
			"REPLACE INTO config_server_audit (id, checked_at, findings, error) VALUES (1, CURRENT_TIMESTAMP, ?, '')", string(text))
	}
	if err != nil {
		return fmt.Errorf("save %d findings of an audit: %w", len(found), err)
	}
	return nil
}

// SaveError keeps why an audit did not come to its end. What an earlier one has found stays.
func (s *Store) SaveError(ctx context.Context, failure error) error {
	text := farm.CutText(strings.ToValidUTF8(failure.Error(), "\uFFFD"), maxError)
	if _, err := s.db.Exec(ctx, "save_audit_error", "UPDATE config_server_audit SET error = ? WHERE id = 1", text); err != nil {
		return fmt.Errorf("save the error of an audit: %w", err)
	}
	return nil
}

// Last reads what is kept; an Outcome without a time if there was no audit yet.
func (s *Store) Last(ctx context.Context) (audit.Outcome, error) {
	var last audit.Outcome
	err := s.db.Read(ctx, "read_findings", func(ctx context.Context, q database.Queryer) error {
		last = audit.Outcome{}
		var checked sql.NullTime
		var found string
		row := q.QueryRowContext(ctx, "SELECT checked_at, findings, error FROM config_server_audit WHERE id = 1")
		if err := row.Scan(&checked, &found, &last.Error); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return err
		}
		if checked.Valid {
			last.CheckedAt = checked.Time.UTC()
		}
		return json.Unmarshal([]byte(found), &last.Findings)
	})
	if err != nil {
		return audit.Outcome{}, fmt.Errorf("read the findings of the last audit: %w", err)
	}
	return last, nil
}
