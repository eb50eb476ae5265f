// Package pins keeps in the database which images are held to a digest, so that every replica makes
// workspaces of the same content.
package pins

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"config-server/internal/database"
	"config-server/internal/farm"
)

// DefaultKeep is how long a reading serves Pinned: what another replica has pinned counts that much later.
const DefaultKeep = 2 * time.Second

// stamp is a time as both dialects keep it.
const stamp = "2006-01-02 15:04:05"

// Store has the pins. It is safe for concurrent use.
type Store struct {
	db   *database.DB
	keep time.Duration

	// turn has one token while somebody reads for Pinned: the others wait and find what was read.
	turn chan struct{}

	mu      sync.Mutex
	kept    map[string]farm.Pin // by image
	readAt  time.Time           // zero = nothing is kept
	changes int                 // of this process; a reading that one of them crossed is not kept
}

// New makes a Store whose readings serve for keep. It asks nothing of the database yet.
func New(db *database.DB, keep time.Duration) *Store {
	return &Store{db: db, keep: keep, turn: make(chan struct{}, 1)}
}

// List reads all pins, by image.
func (s *Store) List(ctx context.Context) ([]farm.Pin, error) {
	var list []farm.Pin
	err := s.db.Read(ctx, "read_pins", func(ctx context.Context, q database.Queryer) error {
		list = nil
		rows, err := q.QueryContext(ctx, "SELECT image, digest, pinned_at, request_id FROM config_server_pins ORDER BY image")
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var pin farm.Pin
			if err := rows.Scan(&pin.Image, &pin.Digest, &pin.PinnedAt, &pin.RequestID); err != nil {
				return err
			}
			pin.PinnedAt = pin.PinnedAt.UTC()
			list = append(list, pin)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("read the pins of images: %w", err)
	}
	return list, nil
}

// Put keeps a pin in place of the image's earlier one.
func (s *Store) Put(ctx context.Context, pin farm.Pin) error {
	defer s.changed()
	_, err := s.db.Exec(ctx, "write_pin", "REPLACE INTO config_server_pins (image, digest, pinned_at, request_id) VALUES (?, ?, ?, ?)",
		pin.Image, pin.Digest, pin.PinnedAt.UTC().Format(stamp), pin.RequestID)
	if err != nil {
		return fmt.Errorf("keep the pin of image %s: %w", pin.Image, err)
	}
	return nil
}

// Delete removes the pin of an image and returns it; false if there is none.
func (s *Store) Delete(ctx context.Context, image string) (farm.Pin, bool, error) {
	defer s.changed()
	pin, found := farm.Pin{Image: image}, false
	err := s.db.InTx(ctx, "delete_pin", func(ctx context.Context, tx *sql.Tx) error {
		row := tx.QueryRowContext(ctx, "SELECT digest, pinned_at, request_id FROM config_server_pins WHERE image = ?", image)
		switch err := row.Scan(&pin.Digest, &pin.PinnedAt, &pin.RequestID); {
		case errors.Is(err, sql.ErrNoRows):
			return nil // a run before this one, whose commit had no answer, may have found it
		case err != nil:
			return err
		}
		found, pin.PinnedAt = true, pin.PinnedAt.UTC()
		_, err := tx.ExecContext(ctx, "DELETE FROM config_server_pins WHERE image = ?", image)
		return err
	}, database.Repeatable())
	if err != nil {
		return farm.Pin{}, false, fmt.Errorf("remove the pin of image %s: %w", image, err)
	}
	return pin, found, nil
}

// changed has the next Pinned read anew.
func (s *Store) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.readAt = time.Time{}
}

// Pinned looks for the pin of an image, named as farm.Image writes it, among those of a reading that is at
// most as old as the store keeps one. The second result is false if there is none.
func (s *Store) Pinned(ctx context.Context, image string) (farm.Pin, bool, error) {
	if pin, found, fresh := s.known(image); fresh {
		return pin, found, nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return farm.Pin{}, false, fmt.Errorf("look up the pin of image %s: %w", image, context.Cause(ctx))
	}
	if pin, found, fresh := s.known(image); fresh {
		return pin, found, nil
	}
	s.mu.Lock()
	begin, changes := time.Now(), s.changes
	s.mu.Unlock()
	list, err := s.List(ctx)
	if err != nil {
		return farm.Pin{}, false, err
	}
	pins := make(map[string]farm.Pin, len(list))
	for _, pin := range list {
		pins[pin.Image] = pin
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == changes {
		s.kept, s.readAt = pins, begin
	}
	pin, found := pins[image]
	return pin, found, nil
}

func (s *Store) known(image string) (pin farm.Pin, found, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readAt.IsZero() || time.Since(s.readAt) >= s.keep {
		return pin, false, false
	}
	pin, found = s.kept[image]
	return pin, found, true
}
