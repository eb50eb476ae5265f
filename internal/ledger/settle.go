package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// settle brings the share to a state between two commits: a commit that was decided is completed,
// files that were staged for one that was not are removed. The caller holds the lock.
func (l *Ledger) settle(ctx context.Context) error {
	found, err := l.rollForward(ctx)
	if err != nil {
		return fmt.Errorf("complete an interrupted commit: %w", err)
	}
	if err := l.sweep(found); err != nil {
		return fmt.Errorf("remove leftovers of an interrupted commit: %w", err)
	}
	return nil
}

// rollForward completes the commit whose record is on the share. It is safe to repeat at any point.
func (l *Ledger) rollForward(ctx context.Context) (bool, error) {
	text, err := os.ReadFile(l.path(recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return false, fmt.Errorf("%w: %s is no commit record; look at it and remove it", ErrDamaged, l.path(recordFile))
	}
	for _, op := range r.Ops {
		if err := l.redo(ctx, op); err != nil {
			return false, err
		}
		l.opts.Point("redone " + op.File)
	}
	for _, op := range r.Ops {
		err := syncDir(l.path(path.Dir(op.File)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	l.opts.Point("completed")
	if err := removeIfThere(l.path(recordFile)); err != nil {
		return false, err
	}
	l.opts.Log.InfoContext(ctx, "completed an interrupted commit of the ledger", "commit", r.ID, "files", len(r.Ops))
	return true, nil
}

// redo repeats an operation unless it is done already. A staged file that is gone was renamed; a
// file that is to be removed and is no longer the one that was meant is somebody else's.
func (l *Ledger) redo(ctx context.Context, op operation) error {
	now, err := l.lstat(op.File)
	if err != nil {
		return err
	}
	if op.Temp == "" {
		if now.absent() || !now.same(op.Old) {
			return nil
		}
		return removeIfThere(l.path(op.File))
	}
	temp, err := l.lstat(op.Temp)
	if err != nil || temp.absent() {
		return err
	}
	if !now.absent() && !now.same(op.Old) {
		if err := l.keepCopy(ctx, op.File); err != nil {
			return err
		}
	}
	return os.Rename(l.path(op.Temp), l.path(op.File))
}

// keepCopy saves a file that another program changed between a crash and its recovery, because
// the commit is about to replace it.
func (l *Ledger) keepCopy(ctx context.Context, file string) error {
	copied := path.Join(privateDir, strings.ReplaceAll(file, "/", "_")+".replaced")
	if err := removeIfThere(l.path(copied)); err != nil {
		return err
	}
	if err := os.Link(l.path(file), l.path(copied)); err != nil {
		return err
	}
	l.opts.Log.WarnContext(ctx, "an account file was changed by another program while a commit waited to be completed; its text was kept",
		"file", file, "copy", l.path(copied))
	return nil
}

func (l *Ledger) lstat(file string) (identity, error) {
	info, err := os.Lstat(l.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, nil
	}
	if err != nil {
		return identity{}, err
	}
	return identityOf(info), nil
}

// sweep removes staged files that belong to no commit. Policy files are staged last and swept
// first, so their directory, which may be large, holds some only if the others do, except after
// a completed commit, whose staged files are all in use.
func (l *Ledger) sweep(completed bool) error {
	stale, err := l.staleTemps(".", privateDir, journalDir)
	if err != nil {
		return err
	}
	if len(stale) > 0 || completed || !l.swept {
		policies, err := l.staleTemps(sudoersDir)
		if err != nil {
			return err
		}
		stale = append(policies, stale...)
	}
	for _, name := range stale {
		if err := removeIfThere(l.path(name)); err != nil {
			return err
		}
	}
	l.swept = true
	return nil
}

func (l *Ledger) staleTemps(dirs ...string) ([]string, error) {
	var stale []string
	for _, dir := range dirs {
		names, err := readNames(l.path(dir))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if strings.HasPrefix(name, ".") && strings.HasSuffix(name, tempSuffix) {
				stale = append(stale, path.Join(dir, name))
			}
		}
	}
	return stale, nil
}
