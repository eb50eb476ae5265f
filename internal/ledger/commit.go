package ledger

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"config-server/internal/farm"
)

// put is a file that a commit puts in the place of an old one, or makes.
type put struct {
	file      string // relative to Options.Dir
	text      string
	mode      fs.FileMode // of a new file
	fixedMode bool        // the mode holds for a replaced file too
	onlyNew   bool        // leave a file that is there and not empty
}

// record is the commit record: once it is on the disk the commit has happened.
type record struct {
	ID  string      `json:"id"`
	Ops []operation `json:"ops"`
}

// operation renames Temp to File, or removes File if Temp is empty. Old is what File was before.
type operation struct {
	File string   `json:"file"`
	Temp string   `json:"temp,omitempty"`
	Old  identity `json:"old"`
}

// tempSuffix ends the names of staged files, which begin with a dot. In sudoers.d the dot makes
// sudo ignore them.
const tempSuffix = ".cs-tmp"

// commit makes all puts and removes visible, or none of them. guard is asked once more when all is
// staged: it fails if the files are no longer what was read.
func (l *Ledger) commit(ctx context.Context, lock farm.Lock, guard func() error, puts []put, removes []string) error {
	c := &commit{ledger: l, id: rand.Text(), dirs: map[string]bool{}}
	for _, file := range removes {
		if err := c.planRemove(file); err != nil {
			return err
		}
	}
	if len(puts) == 0 && len(c.removes) == 0 {
		return nil
	}
	for _, p := range stageOrder(puts) {
		if err := c.stage(p); err != nil {
			c.dropTemps()
			return err
		}
	}
	c.order(puts)
	if err := c.prepare(ctx, lock, guard); err != nil {
		c.dropTemps()
		return err
	}
	if len(c.ops) == 1 {
		return c.applyOne()
	}
	return c.apply()
}

// prepare does all that can still fail without a trace. After it a commit of several operations is
// decided; one of a single operation is atomic by itself and needs no record.
func (c *commit) prepare(ctx context.Context, lock farm.Lock, guard func() error) error {
	if len(c.ops) == 1 {
		return c.mayWrite(ctx, lock, guard)
	}
	if err := c.syncDirs(); err != nil {
		return err
	}
	if err := c.mayWrite(ctx, lock, guard); err != nil {
		return err
	}
	return c.writeRecord()
}

type commit struct {
	ledger  *Ledger
	id      string
	staged  []operation
	removes []operation
	ops     []operation
	dirs    map[string]bool // touched, to be brought to the disk
	made    []string        // directories that this commit made
}

// stageOrder puts policy files last: their directory may be large and is swept for leftovers only
// if there are some beside passwd.
func stageOrder(puts []put) []put {
	ordered := slices.Clone(puts)
	slices.SortStableFunc(ordered, func(a, b put) int { return inSudoers(a.file) - inSudoers(b.file) })
	return ordered
}

func inSudoers(file string) int {
	if strings.HasPrefix(file, sudoersDir+"/") {
		return 1
	}
	return 0
}

func (c *commit) planRemove(file string) error {
	info, err := os.Lstat(c.ledger.path(file))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return &WriteError{File: errorName(file), Err: err}
	}
	c.removes = append(c.removes, operation{File: file, Old: identityOf(info)})
	return nil
}

// stage writes the new file beside the old one, with its owner and mode, and brings it to the disk.
func (c *commit) stage(p put) error {
	err := c.tryStage(p)
	if err != nil {
		return &WriteError{File: errorName(p.file), Err: err}
	}
	return nil
}

func (c *commit) tryStage(p put) error {
	dir := path.Dir(p.file)
	if err := c.makeDir(dir); err != nil {
		return err
	}
	old, owner, err := c.inspect(p)
	if err != nil || p.onlyNew && !old.empty() {
		return err
	}
	op := operation{File: p.file, Temp: path.Join(dir, "."+path.Base(p.file)+"."+c.id+tempSuffix), Old: old}
	// The name is remembered before the file is made, so that a half written one is removed too.
	c.staged = append(c.staged, op)
	c.dirs[dir] = true
	if err := writeFile(c.ledger.path(op.Temp), p.text, owner); err != nil {
		return err
	}
	c.ledger.opts.Point("staged " + p.file)
	return nil
}

// ownership is the owner and mode of a file.
type ownership struct {
	uid, gid int // -1 = as the process makes it
	mode     fs.FileMode
}

// inspect finds what a put replaces.
func (c *commit) inspect(p put) (identity, ownership, error) {
	owner := ownership{uid: -1, gid: -1, mode: p.mode}
	info, err := os.Lstat(c.ledger.path(p.file))
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, owner, nil
	}
	if err != nil {
		return identity{}, owner, err
	}
	if !info.Mode().IsRegular() {
		return identity{}, owner, fmt.Errorf("%s is no regular file", c.ledger.path(p.file))
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		owner.uid, owner.gid = int(stat.Uid), int(stat.Gid)
	}
	if !p.fixedMode {
		owner.mode = info.Mode().Perm()
	}
	return identityOf(info), owner, nil
}

func writeFile(name, text string, owner ownership) (err error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.WriteString(text); err != nil {
		return err
	}
	if err := giveTo(file, owner); err != nil {
		return err
	}
	if err := file.Chmod(owner.mode); err != nil {
		return err
	}
	return file.Sync()
}

// giveTo changes the owner where it differs, so that a process that is not root can still replace
// its own files.
func giveTo(file *os.File, owner ownership) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.uid < 0 || int(stat.Uid) == owner.uid && int(stat.Gid) == owner.gid {
		return nil
	}
	return file.Chown(owner.uid, owner.gid)
}

// makeDir makes a directory of ours that is missing. The share itself is never made.
func (c *commit) makeDir(dir string) error {
	if dir == "." {
		return nil
	}
	mode := fs.FileMode(0o700)
	if dir == sudoersDir {
		mode = 0o755
	}
	if err := c.makeDir(path.Dir(dir)); err != nil {
		return err
	}
	err := os.Mkdir(c.ledger.path(dir), mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	c.made = append(c.made, dir)
	c.dirs[path.Dir(dir)] = true
	return nil
}

func (c *commit) syncDirs() error {
	for _, dir := range sortedKeys(c.dirs) {
		if err := syncDir(c.ledger.path(dir)); err != nil {
			return fmt.Errorf("sync %s: %w", dir, err)
		}
	}
	return nil
}

func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// mayWrite asks, at the last moment before the commit is decided, whether we still may.
func (c *commit) mayWrite(ctx context.Context, lock farm.Lock, guard func() error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("write the ledger: %w", context.Cause(ctx))
	}
	if err := guard(); err != nil {
		return err
	}
	if err := lock.Err(); err != nil {
		return fmt.Errorf("write the ledger: the lock was lost: %w", err)
	}
	return nil
}

// order lists the operations as the changes become visible: puts, then removes.
func (c *commit) order(puts []put) {
	for _, p := range puts {
		at := slices.IndexFunc(c.staged, func(op operation) bool { return op.File == p.file })
		if at >= 0 {
			c.ops = append(c.ops, c.staged[at])
		}
	}
	c.ops = append(c.ops, c.removes...)
}

// applyOne does a commit of one operation.
func (c *commit) applyOne() error {
	op := c.ops[0]
	if err := c.do(op); err != nil {
		c.dropTemps()
		return &WriteError{File: errorName(op.File), Err: err}
	}
	c.dirs[path.Dir(op.File)] = true
	if err := c.syncDirs(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	return nil
}

// writeRecord decides the commit.
func (c *commit) writeRecord() error {
	text, err := json.Marshal(record{ID: c.id, Ops: c.ops})
	if err != nil {
		return fmt.Errorf("encode the commit record: %w", err)
	}
	err = c.tryWriteRecord(string(text))
	if err != nil {
		return &WriteError{File: errorName(recordFile), Err: err}
	}
	c.ledger.opts.Point("record")
	return nil
}

func (c *commit) tryWriteRecord(text string) error {
	if err := c.makeDir(journalDir); err != nil {
		return err
	}
	temp := c.ledger.path(journalDir + "/.commit." + c.id + tempSuffix)
	if err := writeFile(temp, text, ownership{uid: -1, gid: -1, mode: 0o600}); err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	c.ledger.opts.Point("staged record")
	if err := os.Rename(temp, c.ledger.path(recordFile)); err != nil {
		return errors.Join(err, removeIfThere(temp))
	}
	if err := syncDir(c.ledger.path(journalDir)); err != nil {
		return errors.Join(err, removeIfThere(c.ledger.path(recordFile)))
	}
	return nil
}

// apply carries out a decided commit. If not even the first operation succeeds the decision is
// taken back; after that only completion is possible.
func (c *commit) apply() error {
	for i, op := range c.ops {
		err := c.do(op)
		if err != nil && i == 0 {
			return c.abandon(op, err)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrUnfinished, op.File, err)
		}
		c.dirs[path.Dir(op.File)] = true
	}
	if err := c.syncDirs(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	c.ledger.opts.Point("synced")
	if err := removeIfThere(c.ledger.path(recordFile)); err != nil {
		return fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	c.ledger.opts.Point("removed record")
	return nil
}

// abandon takes a decision back. The record must be off the disk before the staged files go, or
// else a power failure would leave a record of files that nobody has.
func (c *commit) abandon(op operation, cause error) error {
	err := removeIfThere(c.ledger.path(recordFile))
	if err == nil {
		err = syncDir(c.ledger.path(journalDir))
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnfinished, op.File, errors.Join(cause, err))
	}
	c.dropTemps()
	return &WriteError{File: errorName(op.File), Err: cause}
}

func (c *commit) do(op operation) error {
	if op.Temp == "" {
		err := removeIfThere(c.ledger.path(op.File))
		if err == nil {
			c.ledger.opts.Point("removed " + op.File)
		}
		return err
	}
	err := os.Rename(c.ledger.path(op.Temp), c.ledger.path(op.File))
	if err == nil {
		c.ledger.opts.Point("renamed " + op.File)
	}
	return err
}

// dropTemps takes back what was staged. What cannot be removed is swept up later.
func (c *commit) dropTemps() {
	for _, op := range c.staged {
		_ = removeIfThere(c.ledger.path(op.Temp))
	}
	for _, dir := range slices.Backward(c.made) {
		_ = os.Remove(c.ledger.path(dir)) // fails if it is in use, and then it should stay
	}
}

func removeIfThere(name string) error {
	err := os.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// errorName is the name by which errors speak of a file.
func errorName(file string) string {
	switch {
	case inSudoers(file) == 1:
		return "sudoers"
	case strings.HasPrefix(file, journalDir+"/"):
		return "journal"
	}
	return path.Base(file)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
