package progress

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"config-server/internal/database"
	"config-server/internal/farm"
)

// Bounds of what a row holds, in characters; steps in entries.
const (
	maxMessage = 1000
	maxDetail  = 8000
	maxSteps   = 64
)

// columns are those of a row, in the order in which values and scan have them.
var columns = []string{
	"id", "kind", "username", "pod_name", "node_name", "old_pod_name", "old_node_name", "stage", "message", "code", "detail", "steps",
	"request_id", "instance", "started_at", "updated_at", "done",
}

// stamp is a time as both dialects keep and compare it.
const stamp = "2006-01-02 15:04:05.000"

// history is what stands in the column steps.
type history struct {
	Steps []farm.StepResult `json:"steps"`
	Undo  []farm.UndoResult `json:"undo"`
}

// bounded makes a state fit its row. Texts come from outside, kubelet's for example.
func bounded(p farm.Progress) farm.Progress {
	p.Message = farm.CutText(strings.ToValidUTF8(p.Message, "?"), maxMessage)
	p.Detail = farm.CutText(strings.ToValidUTF8(p.Detail, "?"), maxDetail)
	p.Steps = p.Steps[max(0, len(p.Steps)-maxSteps):]
	p.Undo = p.Undo[max(0, len(p.Undo)-maxSteps):]
	p.StartedAt = p.StartedAt.UTC().Truncate(time.Millisecond)
	return p
}

func values(p farm.Progress) ([]any, error) {
	steps, err := json.Marshal(history{Steps: p.Steps, Undo: p.Undo})
	if err != nil {
		return nil, fmt.Errorf("encode steps of operation %s: %w", p.ID, err)
	}
	return []any{
		p.ID, string(p.Kind), string(p.User), string(p.Pod), string(p.Node), string(p.OldPod), string(p.OldNode), string(p.Stage), p.Message,
		string(p.Code), p.Detail, string(steps), p.RequestID, p.Instance, p.StartedAt.UTC().Format(stamp), p.UpdatedAt.UTC().Format(stamp), p.Done,
	}, nil
}

// replace writes rows in one statement, whatever was in them before.
func (s *Store) replace(ctx context.Context, states []farm.Progress) error {
	one := "(" + strings.Repeat("?, ", len(columns)-1) + "?)"
	var args []any
	for _, p := range states {
		row, err := values(p)
		if err != nil {
			return err
		}
		args = append(args, row...)
	}
	statement := "REPLACE INTO config_server_progress (" + strings.Join(columns, ", ") + ") VALUES " +
		strings.Repeat(one+", ", len(states)-1) + one
	_, err := s.db.Exec(ctx, "write_progress", statement, args...)
	return err
}

func (s *Store) read(ctx context.Context, name, where string, args ...any) ([]farm.Progress, error) {
	var all []farm.Progress
	err := s.db.Read(ctx, name, func(ctx context.Context, q database.Queryer) error {
		all = nil
		rows, err := q.QueryContext(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM config_server_progress "+where, args...)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var p farm.Progress
			var steps string
			err := rows.Scan(&p.ID, &p.Kind, &p.User, &p.Pod, &p.Node, &p.OldPod, &p.OldNode, &p.Stage, &p.Message, &p.Code, &p.Detail, &steps,
				&p.RequestID, &p.Instance, &p.StartedAt, &p.UpdatedAt, &p.Done)
			if err != nil {
				return err
			}
			var done history
			if err := json.Unmarshal([]byte(steps), &done); err != nil {
				return fmt.Errorf("steps of operation %s: %w", p.ID, err)
			}
			p.Steps, p.Undo = done.Steps, done.Undo
			p.StartedAt, p.UpdatedAt = p.StartedAt.UTC(), p.UpdatedAt.UTC()
			all = append(all, p)
		}
		return rows.Err()
	})
	return all, err
}

// Close ends an operation that nobody runs any more with the state that p says. It reports false,
// and changes nothing, if the row is no longer as it was at p.UpdatedAt or is done.
func (s *Store) Close(ctx context.Context, p farm.Progress) (bool, error) {
	seen := p.UpdatedAt.UTC().Format(stamp)
	p = bounded(p)
	result, err := s.db.Exec(ctx, "close_progress",
		"UPDATE config_server_progress SET stage = ?, message = ?, detail = ?, done = 1, updated_at = ? WHERE id = ? AND done = 0 AND updated_at = ?",
		string(p.Stage), p.Message, p.Detail, now(s.opts.Now).Format(stamp), p.ID, seen)
	if err != nil {
		return false, fmt.Errorf("close operation %s: %w", p.ID, err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("close operation %s: %w", p.ID, err)
	}
	if n > 0 {
		s.signal(p.User)
	}
	return n > 0, nil
}

// Purge removes what ended longer than keep ago, and of what is left all but the newest most.
func (s *Store) Purge(ctx context.Context, keep time.Duration, most int) error {
	_, err := s.db.Exec(ctx, "purge_progress", "DELETE FROM config_server_progress WHERE done = 1 AND updated_at < ?",
		now(s.opts.Now).Add(-keep).Format(stamp))
	if err != nil {
		return fmt.Errorf("remove old progress: %w", err)
	}
	// The inner SELECT stands in a table of its own, because MySQL deletes from no table that it reads.
	_, err = s.db.Exec(ctx, "purge_progress_by_number", `DELETE FROM config_server_progress WHERE done = 1 AND updated_at <=
		(SELECT updated_at FROM (SELECT updated_at FROM config_server_progress WHERE done = 1 ORDER BY updated_at DESC LIMIT 1 OFFSET ?) AS oldest)`, most)
	if err != nil {
		return fmt.Errorf("remove progress beyond %d operations: %w", most, err)
	}
	return nil
}
