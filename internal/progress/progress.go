// Package progress keeps what operations on workspaces do and did, for people to read: one row an
// operation in the database, so that every replica can tell it.
//
// Whoever runs an operation reports its state and goes on at once. The states are written beside it,
// a moment later, the latest of each operation only and those of many operations in one statement. A
// database that is down delays what others see and nothing else. Nothing is recovered from here.
package progress

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"config-server/internal/database"
	"config-server/internal/farm"
)

// Options of a Store. Zero values mean the defaults given.
type Options struct {
	Log *slog.Logger // nil = discard
	// Window is the time in which states are gathered before they are written; 200 ms. What an
	// operation of a few milliseconds does is one row written once.
	Window time.Duration
	// RetryPause is the pause after a write that failed; it doubles up to 16 times its length. 1 s.
	RetryPause time.Duration
	// MaxPending bounds the operations that wait to be written, while the database is down; 2000. The
	// one that was reported on longest ago is given up for a further one.
	MaxPending int
	Now        func() time.Time // nil = time.Now
}

// Store reads the rows of all replicas and writes those of this process. It is safe for concurrent
// use.
type Store struct {
	db   *database.DB
	opts Options

	mu      sync.Mutex
	pending map[string]pending // by the operation's id: not written yet
	reports int64              // how many there were
	lost    int                // operations that were given up since the last success
	// stamps are the times of the last report on operations under way: the next one has a later time, whatever
	// the clock does, because times tell which of two states is the newer one.
	stamps map[string]time.Time
	// watchers are told of each report on their user.
	watchers map[farm.UserName]map[chan struct{}]bool

	wake    chan struct{} // has room for one signal: something is pending
	life    sync.Mutex
	end     context.CancelFunc // nil = not started
	stopped chan struct{}      // closed when the writer has ended
}

// pending is a state that is not written yet. number tells it from a later one of its operation.
type pending struct {
	progress farm.Progress
	number   int64
}

// New makes a Store that keeps what it is told until Start.
func New(db *database.DB, opts Options) *Store {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Window = cmp.Or(opts.Window, 200*time.Millisecond)
	opts.RetryPause = cmp.Or(opts.RetryPause, time.Second)
	opts.MaxPending = cmp.Or(opts.MaxPending, 2000)
	return &Store{
		db: db, opts: opts, pending: map[string]pending{}, stamps: map[string]time.Time{},
		watchers: map[farm.UserName]map[chan struct{}]bool{}, wake: make(chan struct{}, 1),
	}
}

// Report tells the state of an operation. It never blocks and never fails. UpdatedAt is set here;
// the slices in p must not be changed afterwards.
func (s *Store) Report(p farm.Progress) {
	p = bounded(p)
	s.mu.Lock()
	p.UpdatedAt = s.stamp(p)
	if _, known := s.pending[p.ID]; !known && len(s.pending) >= s.opts.MaxPending {
		s.giveUpOldest()
	}
	s.reports++
	s.pending[p.ID] = pending{progress: p, number: s.reports}
	s.mu.Unlock()
	s.signal(p.User)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// stamp is the time of a report. It is called with the lock held.
func (s *Store) stamp(p farm.Progress) time.Time {
	at := now(s.opts.Now)
	if last, known := s.stamps[p.ID]; known && !at.After(last) {
		at = last.Add(time.Millisecond)
	}
	s.stamps[p.ID] = at
	if p.Done {
		delete(s.stamps, p.ID)
	}
	return at
}

// giveUpOldest is called with the lock held.
func (s *Store) giveUpOldest() {
	oldest, number := "", int64(0)
	for id, p := range s.pending {
		if oldest == "" || p.number < number {
			oldest, number = id, p.number
		}
	}
	delete(s.pending, oldest)
	s.lost++
}

// now is the time as it is kept.
func now(clock func() time.Time) time.Time { return clock().UTC().Truncate(time.Millisecond) }

// Changes returns a channel with room for one signal, which comes after each report on the user in
// this process, and the function that ends it.
func (s *Store) Changes(user farm.UserName) (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watchers[user] == nil {
		s.watchers[user] = map[chan struct{}]bool{}
	}
	s.watchers[user][changed] = true
	return changed, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers[user], changed)
		if len(s.watchers[user]) == 0 {
			delete(s.watchers, user)
		}
	}
}

func (s *Store) signal(user farm.UserName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for changed := range s.watchers[user] {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// waiting lists the states that are not written yet and that fit, oldest report first.
func (s *Store) waiting(fits func(farm.Progress) bool) []pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []pending
	for _, p := range s.pending {
		if fits(p.progress) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b pending) int { return cmp.Compare(a.number, b.number) })
	return all
}

// overlaid puts what was not written before the reading over what was read, newest operation first.
// A row may have been written in between; then it is the newer one. An error of the reading counts
// only where nothing is known without it.
func overlaid(waiting []pending, read []farm.Progress, err error, limit int) ([]farm.Progress, error) {
	for _, w := range waiting {
		at := slices.IndexFunc(read, func(p farm.Progress) bool { return p.ID == w.progress.ID })
		if at >= 0 {
			if !read[at].UpdatedAt.After(w.progress.UpdatedAt) {
				read[at] = w.progress
			}
			continue
		}
		read = append(read, w.progress)
	}
	if len(read) == 0 && err != nil {
		return nil, err
	}
	slices.SortStableFunc(read, func(a, b farm.Progress) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.ID, a.ID))
	})
	return read[:min(limit, len(read))], nil
}

// Operations lists at most limit operations, the newest first: a user's, or with an empty name those
// of all. While the database is down it knows what this process has not been able to write.
func (s *Store) Operations(ctx context.Context, user farm.UserName, limit int) ([]farm.Progress, error) {
	where, args := "", []any{}
	if user != "" {
		where, args = "WHERE username = ? ", []any{string(user)}
	}
	waiting := s.waiting(func(p farm.Progress) bool { return user == "" || p.User == user })
	read, err := s.read(ctx, "list_progress", where+"ORDER BY started_at DESC, id DESC LIMIT ?", append(args, limit)...)
	if err != nil {
		err = fmt.Errorf("list operations: %w", err)
	}
	return overlaid(waiting, read, err, limit)
}

// mostUnderWay bounds how many unfinished operations are read at once.
const mostUnderWay = 5000

// UnderWay lists the operations of all replicas that have begun and not ended, newest first.
func (s *Store) UnderWay(ctx context.Context) ([]farm.Progress, error) {
	waiting := s.waiting(func(farm.Progress) bool { return true })
	// Those that wait to be written are read whether they are done or not: one that has ended by then must not
	// pass for one under way.
	where, args := "WHERE done = 0", []any{}
	if len(waiting) > 0 {
		where += " OR id IN (?" + strings.Repeat(", ?", len(waiting)-1) + ")"
		for _, w := range waiting {
			args = append(args, w.progress.ID)
		}
	}
	read, err := s.read(ctx, "list_progress_under_way", where+" ORDER BY started_at DESC, id DESC LIMIT ?", append(args, mostUnderWay)...)
	if err != nil {
		err = fmt.Errorf("list operations under way: %w", err)
	}
	all, err := overlaid(waiting, read, err, mostUnderWay)
	return slices.DeleteFunc(all, func(p farm.Progress) bool { return p.Done }), err
}

// Stages maps each pod on which an operation is under way to its stage.
func (s *Store) Stages(ctx context.Context) (map[farm.PodName]farm.Stage, error) {
	all, err := s.UnderWay(ctx)
	if err != nil {
		return nil, err
	}
	stages := make(map[farm.PodName]farm.Stage, len(all))
	for _, p := range slices.Backward(all) { // the newest wins
		stages[p.Pod] = p.Stage
	}
	return stages, nil
}

// Get reads one operation; false if nothing is known of it.
func (s *Store) Get(ctx context.Context, id string) (farm.Progress, bool, error) {
	waiting := s.waiting(func(p farm.Progress) bool { return p.ID == id })
	read, err := s.read(ctx, "read_progress", "WHERE id = ?", id)
	if err != nil {
		err = fmt.Errorf("read progress of operation %s: %w", id, err)
	}
	read, err = overlaid(waiting, read, err, 1)
	if err != nil || len(read) == 0 {
		return farm.Progress{}, false, err
	}
	return read[0], true, nil
}
