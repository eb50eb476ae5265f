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

const (
	// maxError is the number of characters of an error that is kept.
	maxError = 1000
	// MaxFindings is the number of findings that are kept. A NAS that is not mounted makes one for
	// each account; nobody reads more, and everybody who looks would load all of them.
	MaxFindings = 1000
)

// Store keeps one outcome, the last.
type Store struct{ db *database.DB }

// New makes a Store. It asks nothing of the database yet.
func New(db *database.DB) *Store { return &Store{db: db} }

// Save keeps what an audit has found, as of now by the database's clock, in place of what was kept:
// the first MaxFindings, and how many there are of each kind.
func (s *Store) Save(ctx context.Context, found []audit.Finding) error {
	if found == nil {
		found = []audit.Finding{}
	}
	counts := map[audit.Kind]int{}
	for _, one := range found {
		counts[one.Kind]++
	}
	text, err := json.Marshal(found[:min(len(found), MaxFindings)])
	numbers, countsErr := json.Marshal(counts)
	if err = errors.Join(err, countsErr); err == nil {
		// REPLACE, so that a row which somebody removed comes back.
		_, err = s.db.Exec(ctx, "save_findings",
			"REPLACE INTO config_server_audit (id, checked_at, findings, counts, error) VALUES (1, CURRENT_TIMESTAMP, ?, ?, '')", string(text), string(numbers))
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
	var found string
	last, err := s.read(ctx, "read_findings", "findings", &found)
	if err == nil && found != "" {
		err = json.Unmarshal([]byte(found), &last.Findings)
	}
	if err != nil {
		return audit.Outcome{}, fmt.Errorf("read the findings of the last audit: %w", err)
	}
	return last, nil
}

// Counts is Last without the findings, for those who only count: every scrape does.
func (s *Store) Counts(ctx context.Context) (audit.Outcome, error) {
	var none string
	last, err := s.read(ctx, "count_findings", "''", &none)
	if err != nil {
		return audit.Outcome{}, fmt.Errorf("count the findings of the last audit: %w", err)
	}
	return last, nil
}

// read reads the row with one column of the caller's choice, an SQL expression that the caller wrote.
func (s *Store) read(ctx context.Context, name, column string, into *string) (audit.Outcome, error) {
	var last audit.Outcome
	err := s.db.Read(ctx, name, func(ctx context.Context, q database.Queryer) error {
		last = audit.Outcome{}
		var checked sql.NullTime
		var counts string
		row := q.QueryRowContext(ctx, "SELECT checked_at, counts, error, "+column+" FROM config_server_audit WHERE id = 1")
		if err := row.Scan(&checked, &counts, &last.Error, into); err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return err
		}
		if checked.Valid {
			last.CheckedAt = checked.Time.UTC()
		}
		return json.Unmarshal([]byte(counts), &last.Counts)
	})
	return last, err
}
