package locks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// Sweep removes the files of locks that nobody holds: a process that was killed could not remove
// its own. Locks that are held, by whatever process, are not touched. The error joins what could not
// be looked at or removed; the locks work all the same.
func (l *Local) Sweep() error {
	files, err := filepath.Glob(filepath.Join(l.dir, "*.lock"))
	if err != nil {
		return fmt.Errorf("list lock files: %w", err)
	}
	var errs []error
	for _, path := range files {
		if err := sweepFile(path); err != nil {
			errs = append(errs, fmt.Errorf("remove lock file: %w", err))
		}
	}
	return errors.Join(errs...)
}

// sweepFile takes the lock before it removes the file, as a holder does: whoever waits sees that.
func sweepFile(path string) (err error) {
	file := flock.New(path, flock.SetPermissions(0o600))
	ok, err := file.TryLock()
	defer func() { err = errors.Join(err, file.Close()) }()
	if err != nil || !ok || !sameFile(file, path) {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
