package progress

import (
	"context"
	"time"

	"config-server/internal/database"
	"config-server/internal/farm"
)

const (
	// batch is how many operations one statement writes.
	batch = 50
	// maxBackoff is how often RetryPause is doubled.
	maxBackoff = 4
)

// Start begins to write what is reported. A second call does nothing.
func (s *Store) Start() {
	s.life.Lock()
	defer s.life.Unlock()
	if s.end != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.end, s.stopped = cancel, make(chan struct{})
	go func() {
		defer close(s.stopped)
		s.write(ctx)
	}()
}

// Stop ends the writing and then writes what is left, also without a Start, as long as ctx lets it.
// What could not be written is not known to other processes; the error says how much that is.
func (s *Store) Stop(ctx context.Context) error {
	s.life.Lock()
	if s.end != nil {
		s.end()
		<-s.stopped
	}
	s.life.Unlock()
	return s.flush(ctx)
}

// write gathers for a window and writes, until ctx ends.
func (s *Store) write(ctx context.Context) {
	failures := 0
	for {
		if failures == 0 {
			select {
			case <-s.wake:
			case <-ctx.Done():
				return
			}
		}
		pause := s.opts.Window
		if failures > 0 {
			pause = s.opts.RetryPause << min(failures-1, maxBackoff)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		err := s.flush(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if failures == 0 {
				s.opts.Log.Warn("progress of operations cannot be written; it is tried again", "error", err)
			}
			failures++
		default:
			if failures > 0 {
				s.opts.Log.Info("progress of operations is written again", "operations_given_up", s.takeLost())
			}
			failures = 0
		}
	}
}

// flush writes what is pending now. What cannot be written stays pending.
func (s *Store) flush(ctx context.Context) error {
	todo := s.waiting(func(farm.Progress) bool { return true })
	for len(todo) > 0 {
		some := todo[:min(batch, len(todo))]
		todo = todo[len(some):]
		err := s.writeOnce(ctx, some)
		if database.IsUnstorable(err) && len(some) > 1 {
			// One of them is to blame, and must not stand in the way of the others.
			for i := range some {
				err = s.writeOnce(ctx, some[i:i+1])
				if err != nil && !database.IsUnstorable(err) {
					return err
				}
			}
		}
		if database.IsUnstorable(err) {
			s.opts.Log.Warn("the database refuses the progress of an operation", "error", err)
			err = nil
		}
		if err != nil {
			return err
		}
		s.written(some)
	}
	return nil
}

func (s *Store) writeOnce(ctx context.Context, some []pending) error {
	states := make([]farm.Progress, len(some))
	for i, p := range some {
		states[i] = p.progress
	}
	return s.replace(ctx, states)
}

// written forgets states that were written, unless a later one has taken their place.
func (s *Store) written(states []pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range states {
		if s.pending[p.progress.ID].number == p.number {
			delete(s.pending, p.progress.ID)
		}
	}
}

func (s *Store) takeLost() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.lost
	s.lost = 0
	return lost
}
