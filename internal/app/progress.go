package app

import (
	"context"
	"errors"
	"time"

	"config-server/internal/database"
	"config-server/internal/progress"
)

const (
	// progressFlush bounds the last writing of progress when the service ends.
	progressFlush = 2 * time.Second
	// progressKept and progressMost bound what is kept of operations that have ended.
	progressKept = 24 * time.Hour
	progressMost = 20000
)

// openProgress makes the store, which is written out before the database is closed.
func (a *App) openProgress(db *database.DB) *progress.Store {
	store := progress.New(db, progress.Options{Log: a.log})
	a.cleanups.add("progress", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, progressFlush)
		defer cancel()
		if err := store.Stop(ctx); err != nil {
			// It is for people to read, and the service has ended well without it.
			a.log.Warn("the last progress of operations could not be written", "error", err)
		}
		return nil
	})
	return store
}

// tidyProgress ends what was told of operations that were cut off, one line each, and removes what
// nobody will ask for any more.
func (p *parts) tidyProgress(ctx context.Context) ([]string, error) {
	lines, err := p.workspaces.CloseCutOff(ctx)
	return lines, errors.Join(err, p.progress.Purge(ctx, progressKept, progressMost))
}
