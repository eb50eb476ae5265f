package overview

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// shared is a costly reading that all callers of a while share: whoever asks while it is made waits
// for the same one, and who asks within keep of it gets it again, an error like a value.
type shared[T any] struct {
	keep  time.Duration // 0 = only those who ask at the same time share it
	limit time.Duration // of one reading
	read  func(ctx context.Context) (T, error)

	flight singleflight.Group
	mu     sync.Mutex
	made   time.Time
	value  T
	err    error
}

// get reads unless there is a reading that is young enough. The error is the reading's, or the cause
// of ctx's end.
func (s *shared[T]) get(ctx context.Context) (T, error) {
	if value, err, young := s.kept(); young {
		return value, err
	}
	done := s.flight.DoChan("", func() (any, error) {
		// Others may wait for the same reading, so it does not end with this caller.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limit)
		defer cancel()
		value, err := s.guardedRead(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.made, s.value, s.err = time.Now(), value, err
		return value, err
	})
	select {
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	case result := <-done:
		return result.Val.(T), result.Err
	}
}

// guardedRead keeps a driver that stumbles over an answer from ending the process: the reading runs in
// a goroutine of its own, where no handler could catch it.
func (s *shared[T]) guardedRead(ctx context.Context) (value T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return s.read(ctx)
}

func (s *shared[T]) kept() (value T, err error, young bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made.IsZero() || time.Since(s.made) >= s.keep {
		return value, nil, false
	}
	return s.value, s.err, true
}
