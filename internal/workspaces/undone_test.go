package workspaces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"config-server/internal/farm"
)

// keyed is a realm whose calls end as a case says.
type keyed struct {
	Kerberos
	deploy, remove error
}

func (k keyed) Enabled() bool { return true }

func (k keyed) Deploy(context.Context, farm.NodeName, farm.UserName, farm.ID) error { return k.deploy }

func (k keyed) Remove(context.Context, farm.NodeName, farm.UserName) error { return k.remove }

// What became of a keytab is told as it is: undone only if it lay there and is gone.
func TestUndoOfAKeytabIsToldTruly(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	other := farm.Pod{Name: "ailab-kim-other", User: "kim", Node: "farm6", Guest: true}
	for name, c := range map[string]struct {
		deploy, remove error
		pods           []farm.Pod
		undone, failed bool
	}{
		"deployed and removed":           {undone: true},
		"another workspace needs it":     {pods: []farm.Pod{other}},
		"its deployment had no answer":   {deploy: broken},
		"the node is not listed":         {deploy: farm.ErrNotFound},
		"its removal is put off":         {remove: fmt.Errorf("%w: %w", farm.ErrDeferred, broken), failed: true},
		"its removal could not be noted": {remove: broken, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Options{Cluster: seen{pods: c.pods}, Kerberos: keyed{deploy: c.deploy, remove: c.remove}, Log: slog.New(slog.DiscardHandler)})
			l := &launch{Service: s, user: "kim", pod: "ailab-kim-1", node: "farm6"}
			if err := l.deployKeytab(t.Context()); !errors.Is(err, c.deploy) || (err == nil) != (c.deploy == nil) {
				t.Fatalf("deploy: %v", err)
			}
			undone, err := l.undoKeytab(t.Context())
			if undone != c.undone || (err != nil) != c.failed {
				t.Errorf("undone %t, %v", undone, err)
			}
		})
	}
}

// The record counts as taken back only if it was written.
func TestUndoOfARecordIsToldTruly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin    error
		leftover bool
		undone   bool
	}{
		"written and removed":   {nil, false, true},
		"written, and to stay":  {nil, true, false},
		"may have been written": {errors.New("no answer"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(Options{Operations: &begun{err: c.begin}, Log: slog.New(slog.DiscardHandler), Budget: time.Minute, UndoLimit: time.Minute})
			l := &launch{Service: s, user: "kim", pod: "ailab-kim-1", leftover: c.leftover}
			if err := l.record(t.Context()); (err != nil) != (c.begin != nil) {
				t.Fatal(err)
			}
			if undone, err := l.undoRecord(t.Context()); undone != c.undone || err != nil {
				t.Errorf("undone %t, %v", undone, err)
			}
		})
	}
}

// begun are records that can be begun and ended.
type begun struct {
	records
	err error
}

func (b *begun) Begin(context.Context, farm.Operation) error { return b.err }

// Each undo of a launch says what it takes back, in a word that the API knows.
func TestEveryUndoSaysWhat(t *testing.T) {
	t.Parallel()
	s := New(Options{DeviceFiles: &gives{}, Log: slog.New(slog.DiscardHandler)})
	s.Settings.AccountSecret = true
	l := &launch{Service: s}
	told := map[string]bool{}
	for _, step := range l.createSteps(nil) {
		for _, undo := range step.Undos {
			told[undo.What] = true
		}
	}
	for _, what := range farm.Whats {
		if !told[what] {
			t.Errorf("no undo says %s", what)
		}
		delete(told, what)
	}
	if len(told) > 0 {
		t.Errorf("the API does not know %v", told)
	}
}
