package workspaces

import (
	"context"
	"fmt"
	"strings"
	"time"

	"config-server/internal/farm"
)

// recoveryPrefix stands before the steps of recovery.
const recoveryPrefix = "RECOVER:"

// resume goes on telling of an operation that recovery takes over. What was told before is kept, as
// far as it can be read.
func (s *Service) resume(ctx context.Context, record farm.Operation) *told {
	p, found, err := s.Progress.Get(ctx, record.ID)
	if err != nil {
		s.Log.DebugContext(ctx, "what was told of an operation cannot be read", "operation", record.ID, "error", err)
	}
	if !found {
		p = progressOf(record)
		p.Stage = farm.StageStarted
	}
	p.Instance = s.Instance
	for i := range p.Steps {
		if p.Steps[i].Result == farm.ResultRunning {
			p.Steps[i].Result = farm.ResultError // it was cut off
		}
	}
	return &told{Service: s, progress: p, prefix: recoveryPrefix, words: func(string) (farm.Stage, string) {
		return "", textCutOff + ", recovery is at work"
	}}
}

const (
	textCutOff  = "the service was stopped in the midst of it"
	textCleared = "; what was left over is removed"
)

// recovered ends the operation with what recovery did about it. One that had ended itself, and had
// only left something over, keeps its end.
func (t *told) recovered(outcome string, err error) {
	p := &t.progress
	switch {
	case err != nil:
		t.advance("", textCutOff+", recovery failed and tries again")
	case p.Done:
		p.Message = strings.TrimSuffix(p.Message, textCleared) + textCleared
	case outcome == OutcomeFinished:
		p.Stage, p.Done, p.Message = farm.StageReady, true, textCutOff+", recovery finished it"
	default:
		p.Stage, p.Done, p.Message = farm.StageFailed, true, textCutOff+"; everything was taken back"
		p.Detail = p.Message
	}
	t.report()
}

// CloseCutOff ends what was told of operations that nobody runs any more and of which no record is
// left: they were cut off before their record was written, so there is nothing to mend. It tells
// which, one line each.
func (s *Service) CloseCutOff(ctx context.Context) ([]string, error) {
	open, err := s.Progress.UnderWay(ctx)
	if err != nil || len(open) == 0 {
		return nil, err
	}
	// Read after the former: an operation that was recorded meanwhile is in it.
	records, err := s.Operations.List(ctx)
	if err != nil {
		return nil, err
	}
	recorded := map[string]bool{}
	for _, record := range records {
		recorded[record.ID] = true
	}
	gone := map[string]bool{}
	var lines []string
	for _, p := range open {
		if recorded[p.ID] || s.isRunning(p.ID) {
			continue
		}
		cut, err := s.isCutOff(ctx, p, gone)
		if err != nil {
			return lines, err
		}
		if !cut {
			continue
		}
		p.Stage, p.Message = farm.StageFailed, textCutOff+"; nothing of it is left"
		p.Detail = p.Message
		closed, err := s.Progress.Close(ctx, p)
		if err != nil {
			return lines, err
		}
		if closed {
			lines = append(lines, fmt.Sprintf("%s of pod %s was cut off", p.Kind, p.Pod))
		}
	}
	return lines, nil
}

// isCutOff reports whether nobody can be at work on an operation: its process is gone, or nothing
// was told for longer than a request and its undo may take.
func (s *Service) isCutOff(ctx context.Context, p farm.Progress, gone map[string]bool) (bool, error) {
	if time.Since(p.UpdatedAt) > s.Budget+s.UndoLimit {
		return true, nil
	}
	if p.Instance == s.Instance {
		return false, nil
	}
	if dead, known := gone[p.Instance]; known {
		return dead, nil
	}
	dead, err := s.isGone(ctx, p.Instance)
	if err != nil {
		return false, fmt.Errorf("see whether instance %s lives: %w", p.Instance, err)
	}
	gone[p.Instance] = dead
	return dead, nil
}
