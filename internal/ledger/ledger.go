// Package ledger keeps the account files on the share: passwd, group, shadow and sudoers.d, which
// other programs read while we write, and beside them, under .config-server, the numbers that were
// given once and the journal of account operations that are not finished.
//
// Readers call View; it takes no lock and never writes. Writers call Update: it takes the one
// exclusive lock, finishes what a crash left, reads the files, lets the caller edit in memory, and
// commits everything or nothing. Edits touch single lines and keep every other byte.
//
// A commit is a redo journal. New files are staged beside the old ones with the same owner and
// mode and are brought to the disk; one record then names them all; from that instant the commit
// has happened, and whoever takes the lock next completes it if we cannot. The order of the
// renames is such that a reader in between sees an account either whole or not at all: passwd is
// the last file to learn of a new account and the first to forget an old one.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"config-server/internal/farm"
)

// Locker takes named locks. Lock waits until it has the lock or the context is done; then its error
// wraps farm.ErrLockTimeout or the context's error.
type Locker interface {
	Lock(ctx context.Context, name string) (farm.Lock, error)
}

// LockName is the name of the lock over all files of the ledger.
const LockName = "ledger"

// Options of a Ledger.
type Options struct {
	// Dir is the share (BASE_ETC_DIR).
	Dir string
	// Lock takes the lock named LockName. All processes that write the share must share it.
	Lock Locker
	// SudoCommands are the commands that a user may run as root in the workspace; none = users get
	// no policy file.
	SudoCommands []string
	// ReservedNames are names that exist in the images and may not become users or groups.
	ReservedNames []string
	// Now is the clock for the day of a password's last change; nil = time.Now.
	Now func() time.Time
	// Instance names this process in journal entries.
	Instance string
	// Point is called between all durable instructions of a commit, with the name of the one just
	// done; tests kill the process there. It is nil in production.
	Point func(name string)
	// LockWait bounds the wait for the lock; zero = 10 seconds.
	LockWait time.Duration
	// Log is told of recovered commits; nil = slog.Default().
	Log *slog.Logger
}

// Ledger is the set of account files on one share. It is safe for concurrent use.
type Ledger struct {
	opts     Options
	reserved map[string]bool
	racyFor  time.Duration
	cache    cache
	retired  retiredCache
	// swept says that leftovers of earlier processes were looked for everywhere. It is guarded by
	// the ledger's lock.
	swept bool
}

// New returns a Ledger; it does no I/O.
func New(opts Options) *Ledger {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.LockWait == 0 {
		opts.LockWait = 10 * time.Second
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Point == nil {
		opts.Point = func(string) {}
	}
	l := &Ledger{opts: opts, reserved: map[string]bool{}, racyFor: defaultRacyFor}
	for _, name := range opts.ReservedNames {
		l.reserved[name] = true
	}
	return l
}

// Reserved reports whether a name exists in the images and may not become a user or a group.
func (l *Ledger) Reserved(name string) bool { return l.reserved[name] }

// WriteError says which file could not be prepared. Nothing was changed.
type WriteError struct {
	File string // passwd, group, shadow, sudoers, retired, journal, bashrc, bash.bash_logout
	Err  error
}

// Error names the file and the cause.
func (e *WriteError) Error() string { return fmt.Sprintf("write %s: %v", e.File, e.Err) }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// ErrUnfinished is wrapped by the error of an Update whose commit is decided but could not be
// completed: the next Update, of whatever process, completes it. Nothing of it must be undone.
var ErrUnfinished = errors.New("the change is decided and will be completed")

// errChanged: another program changed a file between our reading and our writing.
var errChanged = errors.New("another program changed the account files meanwhile")

// maxUpdates bounds how often an Update begins anew because another program changed a file.
const maxUpdates = 5

// Update runs edit over the present state under the exclusive lock and commits what it changed, all
// or nothing. If edit fails nothing is written and its error comes back as it is. edit may be
// called again if a program without our lock changed a file meanwhile, so it must only depend on tx.
//
// Errors wrap farm.ErrLockTimeout (the lock was not had within LockWait), ErrDamaged, a
// *WriteError, ErrUnfinished, or the context's cause. Once the commit is decided the context no
// longer matters.
func (l *Ledger) Update(ctx context.Context, edit func(tx *Tx) error) error {
	lock, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if err := l.settle(ctx); err != nil {
		return err
	}
	for range maxUpdates {
		err = l.update(ctx, lock, edit)
		if !errors.Is(err, errChanged) {
			return err
		}
	}
	return err
}

func (l *Ledger) update(ctx context.Context, lock farm.Lock, edit func(tx *Tx) error) error {
	tx, err := l.begin(ctx)
	if err != nil {
		return err
	}
	if err := edit(tx); err != nil {
		return err
	}
	puts, removes := tx.changes()
	return l.commit(ctx, lock, tx.guard, puts, removes)
}

// Look runs ask over the present state without the lock; nothing is written, so edits are lost. What
// it sees may be outdated when it returns. Errors are those of View and of ask.
func (l *Ledger) Look(ctx context.Context, ask func(tx *Tx) error) error {
	tx, err := l.begin(ctx)
	if err != nil {
		return err
	}
	return ask(tx)
}

// Interrupted reports whether a commit is decided and not complete: somebody is at it now, or was cut
// off.
func (l *Ledger) Interrupted() bool {
	_, err := os.Lstat(l.path(recordFile))
	return err == nil
}

// Settle completes or cleans up what a crashed process left in the middle of a commit. Update does
// so too; Settle is for the start of the service, when nobody writes yet.
func (l *Ledger) Settle(ctx context.Context) error {
	return l.Update(ctx, func(*Tx) error { return nil })
}

func (l *Ledger) lock(ctx context.Context) (farm.Lock, error) {
	limited, cancel := context.WithTimeout(ctx, l.opts.LockWait)
	defer cancel()
	lock, err := l.opts.Lock.Lock(limited, LockName)
	switch {
	case err == nil:
		return lock, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("lock the ledger: %w", context.Cause(ctx))
	case limited.Err() != nil:
		return nil, fmt.Errorf("lock the ledger: %w after %v", farm.ErrLockTimeout, l.opts.LockWait)
	}
	return nil, fmt.Errorf("lock the ledger: %w", err)
}
