package locks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"config-server/internal/farm"
)

const (
	// Between processes a file lock has no queue, so its waiters look again and again.
	firstPoll = time.Millisecond
	maxPoll   = 20 * time.Millisecond
	// maxFileName leaves room below the usual limit of 255 bytes.
	maxFileName = 200
)

// Local keeps locks for the processes of one machine: flock(2) on one file a lock. The kernel frees
// them when a process dies. A file is removed when its lock is given back.
type Local struct {
	dir    string
	queues *queues
}

// NewLocal keeps lock files in dir, which is made when it is first needed. It must be on a disk of
// this machine, never on a share.
func NewLocal(dir string) *Local { return &Local{dir: dir, queues: newQueues()} }

// Lock implements Locker.
func (l *Local) Lock(ctx context.Context, name string) (farm.Lock, error) {
	if !l.queues.lock(ctx, name) {
		return nil, waitError(ctx, name)
	}
	file, err := l.wait(ctx, name)
	if err != nil {
		l.queues.unlock(name)
		return nil, err
	}
	return l.held(name, file), nil
}

// TryLock implements Locker.
func (l *Local) TryLock(_ context.Context, name string) (farm.Lock, bool, error) {
	if !l.queues.try(name) {
		return nil, false, nil
	}
	file, err := l.try(name)
	if err != nil || file == nil {
		l.queues.unlock(name)
		return nil, false, err
	}
	return l.held(name, file), true, nil
}

func (l *Local) wait(ctx context.Context, name string) (*flock.Flock, error) {
	pause := firstPoll
	for {
		file, err := l.try(name)
		if err != nil || file != nil {
			return file, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, waitError(ctx, name)
		}
		pause = min(2*pause, maxPoll)
	}
}

// try returns the locked file, or nil if another process has it.
func (l *Local) try(name string) (*flock.Flock, error) {
	path := filepath.Join(l.dir, fileName(name))
	for {
		file := flock.New(path, flock.SetPermissions(0o600))
		ok, err := file.TryLock()
		if errors.Is(err, fs.ErrNotExist) {
			// The folder is made here and not before, so that one that was removed comes back.
			if err := os.MkdirAll(l.dir, 0o700); err != nil {
				return nil, fmt.Errorf("lock %s: %w", name, err)
			}
			continue
		}
		if err != nil || !ok {
			return nil, errors.Join(wrap(name, err), wrap(name, file.Close()))
		}
		// The last holder may have removed the file between our opening and our locking it: then
		// the next one locks a new file, and this lock keeps nobody out.
		if sameFile(file, path) {
			return file, nil
		}
		if err := file.Close(); err != nil {
			return nil, wrap(name, err)
		}
	}
}

func (l *Local) held(name string, file *flock.Flock) *fileLock {
	lock := &fileLock{name: name, file: file}
	lock.release = sync.OnceFunc(func() {
		// Only the holder removes the file, and only its own: whoever waits on it sees that.
		if sameFile(file, file.Path()) {
			_ = os.Remove(file.Path())
		}
		_ = file.Close()
		l.queues.unlock(name)
	})
	return lock
}

// fileLock is a lock on a file.
type fileLock struct {
	name    string
	file    *flock.Flock
	release func()
}

// Unlock gives the lock back.
func (f *fileLock) Unlock() { f.release() }

// Err tells whether somebody removed the file under the lock: others lock another file then.
func (f *fileLock) Err() error {
	if !f.file.Locked() {
		return fmt.Errorf("lock %s: %w", f.name, errReleased)
	}
	if !sameFile(f.file, f.file.Path()) {
		return fmt.Errorf("lock %s: %w: somebody removed %s", f.name, ErrLost, f.file.Path())
	}
	return nil
}

// fileName is readable for the usual names and safe for all.
func fileName(name string) string {
	safe := url.QueryEscape(name)
	if len(safe) > maxFileName {
		sum := sha256.Sum256([]byte(name))
		safe = safe[:maxFileName-65] + "+" + hex.EncodeToString(sum[:])
	}
	return safe + ".lock"
}

func sameFile(file *flock.Flock, path string) bool {
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(ours, there)
}

func wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("lock %s: %w", name, err)
}
