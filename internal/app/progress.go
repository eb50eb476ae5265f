package app

import (
	"context"
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

// purgeProgress removes what nobody will ask for any more.
func (p *parts) purgeProgress(ctx context.Context) ([]string, error) {
	return nil, p.progress.Purge(ctx, progressKept, progressMost)
}
