package ledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"config-server/internal/farm"
)

// ErrDamaged is wrapped, with the file and what to do, by errors that say that the share is not in
// a state in which the ledger may be read or written.
var ErrDamaged = errors.New("the account files cannot be used")

// The files on the share, relative to Options.Dir.
const (
	passwdFile  = "passwd"
	groupFile   = "group"
	shadowFile  = "shadow"
	sudoersDir  = "sudoers.d"
	privateDir  = ".config-server"
	journalDir  = privateDir + "/journal"
	retiredFile = privateDir + "/retired"
	recordFile  = journalDir + "/commit"
)

// identity tells whether a path still names the same, unchanged file. The zero value is a file
// that does not exist.
type identity struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size"`
	MTime int64  `json:"mtime"` // nanoseconds
	CTime int64  `json:"ctime"` // nanoseconds
}

func identityOf(info fs.FileInfo) identity {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{Size: info.Size(), MTime: info.ModTime().UnixNano()}
	}
	return identity{
		Dev: uint64(stat.Dev), Ino: stat.Ino, Size: stat.Size,
		MTime: stat.Mtim.Nano(), CTime: stat.Ctim.Nano(),
	}
}

func (id identity) absent() bool { return id == identity{} }
func (id identity) empty() bool  { return id.Size == 0 }

// same tells whether two identities name one unchanged file, also over a rename (which touches
// CTime) and over a remount (which may change Dev).
func (id identity) same(other identity) bool {
	return id.Ino == other.Ino && id.Size == other.Size && id.MTime == other.MTime
}

// state is what a view was read from.
type state struct{ passwd, group, shadow identity }

func (s state) version() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x-%x-%x-%x", s.passwd.Ino, s.passwd.Size, s.passwd.MTime, s.passwd.CTime,
		s.group.Ino, s.group.Size, s.group.MTime, s.group.CTime)
}

// defaultRacyFor is how long after its last change a file may change again without its time stamps
// telling, on file systems with coarse clocks. A file read within that time is read once more.
const defaultRacyFor = 2 * time.Second

// maxReads bounds the attempts to read passwd and group of one state while they are being replaced.
const maxReads = 1000

// cache is the last view. A view whose files are settled is given out without reading them.
type cache struct {
	mu      sync.Mutex
	view    *View
	settled bool
	size    atomic.Pointer[Size] // of view; nil = there was none yet
}

// View returns the present state of passwd and group. It takes no lock, never writes, and reads a
// file again only if it has changed. On a fresh share it shows the base accounts. The error wraps
// ErrDamaged if the share is missing or one of the files is absent or empty while another is not.
func (l *Ledger) View(ctx context.Context) (*View, error) {
	for range maxReads {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read the ledger: %w", context.Cause(ctx))
		}
		view, err := l.tryView()
		if view != nil || err != nil {
			return view, err
		}
	}
	return nil, fmt.Errorf("%w: passwd and group in %s do not hold still", ErrDamaged, l.opts.Dir)
}

// tryView returns nil without an error if the files changed while they were read.
func (l *Ledger) tryView() (*View, error) {
	now, err := l.stat()
	if err != nil {
		return nil, err
	}
	l.cache.mu.Lock()
	defer l.cache.mu.Unlock()
	if l.cache.view != nil && l.cache.settled && l.cache.view.state == now {
		return l.cache.view, nil
	}
	view, err := l.read(now)
	if view == nil || err != nil {
		return nil, err
	}
	after, err := l.stat()
	if err != nil {
		return nil, err
	}
	if after != view.state {
		return nil, nil
	}
	l.cache.view = view
	l.cache.size.Store(sizeOf(view))
	l.cache.settled = l.isSettled(now.passwd) && l.isSettled(now.group) && l.isSettled(now.shadow)
	return view, nil
}

// stat looks at the three files without reading them.
func (l *Ledger) stat() (state, error) {
	var s state
	var err error
	if s.passwd, err = l.openedIdentity(passwdFile); err != nil {
		return s, err
	}
	if s.group, err = l.openedIdentity(groupFile); err != nil {
		return s, err
	}
	info, err := os.Stat(l.path(shadowFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return s, fmt.Errorf("look at shadow: %w", err)
	default:
		s.shadow = identityOf(info)
	}
	return s, nil
}

// openedIdentity opens the file, because on NFS only open asks the server whether it has changed.
func (l *Ledger) openedIdentity(name string) (identity, error) {
	file, err := os.Open(l.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, nil
	}
	if err != nil {
		return identity{}, fmt.Errorf("open %s: %w", name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return identity{}, fmt.Errorf("look at %s: %w", name, err)
	}
	return identityOf(info), nil
}

func (l *Ledger) isSettled(id identity) bool {
	age := time.Since(time.Unix(0, max(id.MTime, id.CTime)))
	return age > l.racyFor || age < -l.racyFor
}

// read makes a view of state now. It returns nil if the files are no longer in that state. The
// caller holds the cache.
func (l *Ledger) read(now state) (*View, error) {
	switch {
	case now.passwd.empty() && now.group.empty() && now.shadow.empty():
		if err := l.checkDir(); err != nil {
			return nil, err
		}
		return l.freshView(now), nil
	case now.passwd.empty() || now.group.empty() || now.shadow.empty():
		return l.unevenView(now)
	}
	passwdText, err := l.readAs(passwdFile, now.passwd)
	if err != nil {
		return nil, err
	}
	groupText, err := l.readAs(groupFile, now.group)
	if err != nil {
		return nil, err
	}
	if passwdText == "" || groupText == "" {
		return nil, nil
	}
	view := &View{state: now, memo: newMemo()}
	if old := l.cache.view; old != nil {
		view.passwd, view.group = old.passwd, old.group
		if old.passwd.text == passwdText && old.group.text == groupText && old.state == now {
			view.memo = old.memo
		}
	}
	switch {
	case view.passwd == nil:
		view.passwd, view.group = indexPasswd(passwdText), indexGroup(groupText)
	default:
		if view.passwd.text != passwdText {
			view.passwd = view.passwd.of(passwdText)
		}
		if view.group.text != groupText {
			view.group = view.group.of(groupText)
		}
	}
	return view, nil
}

func (l *Ledger) freshView(now state) *View {
	return &View{passwd: indexPasswd(seedPasswd), group: indexGroup(seedGroup), state: now, fresh: true, memo: newMemo()}
}

// unevenView decides on a share of which one file is absent or empty while another is not. While
// the first commit seeds the share that is on its way; at any other time it is damage.
func (l *Ledger) unevenView(now state) (*View, error) {
	if _, err := os.Stat(l.path(recordFile)); err == nil {
		return l.freshView(now), nil
	}
	// The commit may have ended between the two looks.
	if again, err := l.stat(); err != nil || again != now {
		return nil, err
	}
	for _, file := range []struct {
		name string
		id   identity
	}{{passwdFile, now.passwd}, {groupFile, now.group}, {shadowFile, now.shadow}} {
		if file.id.empty() {
			return nil, fmt.Errorf("%w: %s is absent or empty while the others are not; restore it from a copy",
				ErrDamaged, l.path(file.name))
		}
	}
	return nil, nil
}

// readAs reads a file if it still has the identity, else it returns "".
func (l *Ledger) readAs(name string, want identity) (string, error) {
	text, id, err := l.readFile(name)
	if err != nil || id != want {
		return "", err
	}
	return text, nil
}

// readFile reads a regular file of the share. A file that does not exist is empty and absent.
func (l *Ledger) readFile(name string) (string, identity, error) {
	file, err := os.Open(l.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", identity{}, nil
	}
	if err != nil {
		return "", identity{}, fmt.Errorf("open %s: %w", name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", identity{}, fmt.Errorf("look at %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return "", identity{}, fmt.Errorf("%w: %s is no regular file", ErrDamaged, l.path(name))
	}
	var text strings.Builder
	text.Grow(int(info.Size()))
	if _, err := io.Copy(&text, file); err != nil {
		return "", identity{}, fmt.Errorf("read %s: %w", name, err)
	}
	id := identityOf(info)
	if int64(text.Len()) != id.Size {
		// It grows or shrinks under our hands; no identity fits what was read.
		return "", identity{Size: -1}, nil
	}
	return text.String(), id, nil
}

func (l *Ledger) checkDir() error {
	info, err := os.Stat(l.opts.Dir)
	if err != nil {
		return fmt.Errorf("%w: %s cannot be opened; mount the share: %w", ErrDamaged, l.opts.Dir, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is no directory", ErrDamaged, l.opts.Dir)
	}
	return nil
}

func (l *Ledger) path(name string) string { return filepath.Join(l.opts.Dir, name) }

// CheckWritable tells whether accounts can be read and changed: the share is there, its files are
// whole, and the process may write. It writes nothing. The error says what to do.
func (l *Ledger) CheckWritable(ctx context.Context) error {
	if _, err := l.View(ctx); err != nil {
		return err
	}
	for _, dir := range []string{".", sudoersDir, privateDir, journalDir} {
		const writeAndSearch = 0x2 | 0x1 // W_OK, X_OK
		err := syscall.Access(l.path(dir), writeAndSearch)
		if errors.Is(err, fs.ErrNotExist) && dir != "." {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s cannot be written (is it mounted read-only, or owned by another user?): %w", l.path(dir), err)
		}
	}
	return nil
}

// Account returns an account and its primary group; a primary group that does not stand in the
// group file has a number and no name. The error wraps farm.ErrNotFound if there is no such
// account, else what View returns.
func (l *Ledger) Account(ctx context.Context, name farm.UserName) (farm.Account, farm.Group, error) {
	view, err := l.View(ctx)
	if err != nil {
		return farm.Account{}, farm.Group{}, err
	}
	account, ok := view.User(name)
	if !ok {
		return farm.Account{}, farm.Group{}, fmt.Errorf("user %q: %w", name, farm.ErrNotFound)
	}
	group, ok := view.GroupByGID(account.GID)
	if !ok {
		group = farm.Group{GID: account.GID}
	}
	return account, group, nil
}

// GroupNames returns the groups with these numbers, in the asked order and each once; numbers that
// no group has are left out.
func (l *Ledger) GroupNames(ctx context.Context, ids []farm.ID) ([]farm.GroupRef, error) {
	view, err := l.View(ctx)
	if err != nil {
		return nil, err
	}
	var refs []farm.GroupRef
	seen := make(map[farm.ID]bool, len(ids))
	for _, id := range ids {
		group, ok := view.GroupByGID(id)
		if !ok || seen[id] {
			continue
		}
		seen[id] = true
		refs = append(refs, farm.GroupRef{Name: group.Name, GID: group.GID})
	}
	return refs, nil
}
