package workspaces

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"config-server/internal/farm"
	"config-server/internal/saga"
)

// Progress is told what operations do, for people to read. Telling never waits and never fails; what
// is asked of it may.
type Progress interface {
	// Report tells the state of an operation.
	Report(progress farm.Progress)
	// Get reads what was told of an operation; false if nothing was.
	Get(ctx context.Context, id string) (farm.Progress, bool, error)
	// UnderWay lists the operations of all instances that were told to begin and not to end.
	UnderWay(ctx context.Context) ([]farm.Progress, error)
	// Close ends one of them with the state given, unless more was told of it since it was read: then
	// it reports false.
	Close(ctx context.Context, progress farm.Progress) (bool, error)
}

// told tells one operation as it goes on. It belongs to the goroutine that runs the operation.
type told struct {
	*Service
	progress farm.Progress
	// prefix stands before the names of steps: recovery's are told from the operation's own.
	prefix string
	// words are the stage of a step and one line about it; an empty stage leaves that as it is.
	words func(step string) (farm.Stage, string)
	// refresh takes over what the operation has found out since; nil = nothing.
	refresh func(*farm.Progress)
}

// tell begins to tell of an operation.
func (s *Service) tell(ctx context.Context, operation farm.Operation, words func(string) (farm.Stage, string), refresh func(*farm.Progress)) *told {
	t := &told{Service: s, words: words, refresh: refresh, progress: progressOf(operation)}
	t.progress.StartedAt = time.Now()
	t.progress.Stage, t.progress.Message = farm.StageStarted, "begun"
	if s.RequestID != nil {
		t.progress.RequestID = s.RequestID(ctx)
	}
	return t
}

// progressOf is what the record of an operation says.
func progressOf(o farm.Operation) farm.Progress {
	return farm.Progress{
		ID: o.ID, Kind: o.Kind, User: o.User, Pod: o.Pod, Node: o.Node, OldPod: o.OldPod, OldNode: o.OldNode,
		Instance: o.Instance, StartedAt: o.StartedAt,
	}
}

// report sends a copy: the steps go on changing.
func (t *told) report() {
	if t.refresh != nil {
		t.refresh(&t.progress)
	}
	p := t.progress
	p.Steps, p.Undo = slices.Clone(p.Steps), slices.Clone(p.Undo)
	t.Progress.Report(p)
}

// observed are the options of a run that is told.
func (t *told) observed(useCase string) saga.Options {
	opts := t.sagaOptions(useCase)
	opts.Observer = func(ctx context.Context, event saga.Event) {
		t.observe(event)
		if t.Observer != nil {
			t.Observer(ctx, event)
		}
	}
	return opts
}

func (t *told) observe(event saga.Event) {
	p := &t.progress
	step := t.prefix + event.Step
	switch event.Phase {
	case saga.Before:
		p.Steps = append(p.Steps, farm.StepResult{Step: step, Result: farm.ResultRunning})
		t.advance(t.words(event.Step))
		t.report()
	case saga.After:
		last := &p.Steps[len(p.Steps)-1]
		last.Seconds, last.Result = math.Round(event.Elapsed.Seconds()*1000)/1000, farm.ResultOK
		if event.Err != nil {
			last.Result = farm.ResultError
			t.advance("", step+" failed")
			t.report()
		}
		// Of a step that went well the next one tells, at once. So it is with undos.
	case saga.BeforeUndo:
		t.advance("", "taking back what "+step+" did")
		t.report()
	case saga.AfterUndo:
		result := farm.ResultNone
		switch {
		case event.Err != nil:
			result = farm.ResultError
		case event.Undone:
			result = farm.ResultUndone
		}
		p.Undo = append(p.Undo, farm.UndoResult{Step: step, What: event.What, Result: result})
	}
}

// advance sets the message, and the stage if it is a later one. An operation that has ended keeps both.
func (t *told) advance(stage farm.Stage, message string) {
	p := &t.progress
	if p.Done {
		return
	}
	if slices.Index(farm.Stages, stage) > slices.Index(farm.Stages, p.Stage) {
		p.Stage = stage
	}
	if message != "" {
		p.Message = message
	}
}

// ready ends the operation well.
func (t *told) ready(message string) {
	t.progress.Stage, t.progress.Message, t.progress.Done = farm.StageReady, message, true
	t.report()
}

// failed ends the operation with the failure of its run and the error that the caller gets.
func (t *told) failed(useCase string, run, answer error) {
	p := &t.progress
	p.Stage, p.Done = farm.StageFailed, true
	p.Message = useCase + " failed"
	if failure, ok := saga.AsFailure(run); ok {
		p.Message = fmt.Sprintf("%s failed at %s", useCase, failure.Step)
		if inner, ok := farm.AsError(failure.Err); ok {
			p.Code = inner.Code // /migrate tells its caller none
		}
		switch {
		case p.Kind == farm.OperationDelete:
			p.Message += "; it may be repeated"
		case failure.UndoErr != nil:
			p.Message += "; not everything could be taken back yet, which is tried again"
		default:
			p.Message += "; everything was taken back"
		}
	}
	p.Detail = answer.Error()
	if e, ok := farm.AsError(answer); ok {
		p.Detail = e.Detail
		if e.Reason != "" {
			p.Detail += ": " + e.Reason
		}
		if e.Code != "" {
			p.Code = e.Code
		}
	}
	t.report()
}

// untold is a Progress that nobody reads.
type untold struct{}

func (untold) Report(farm.Progress) {}

func (untold) Get(context.Context, string) (farm.Progress, bool, error) {
	return farm.Progress{}, false, nil
}

func (untold) UnderWay(context.Context) ([]farm.Progress, error) { return nil, nil }

func (untold) Close(context.Context, farm.Progress) (bool, error) { return false, nil }
