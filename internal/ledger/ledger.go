// Package ledger keeps passwd, group, shadow, sudoers.d, the retired numbers and the journal of
// account operations on the share.
package ledger

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"config-server/internal/farm"
)

// Locker takes named locks. Lock waits until the context is done.
type Locker interface {
	Lock(ctx context.Context, name string) (farm.Lock, error)
}

// Options of a Ledger.
type Options struct {
	Dir           string
	Lock          Locker
	SudoCommands  []string
	ReservedNames []string
	Now           func() time.Time
	Instance      string
	Point         func(string)
	LockWait      time.Duration
	Log           *slog.Logger
}

// Ledger is the set of account files on the share.
type Ledger struct{ opts Options }

// New returns a Ledger; it does no I/O.
func New(opts Options) *Ledger { return &Ledger{opts: opts} }

var errSkeleton = errors.New("ledger: skeleton")

// View is a consistent picture of passwd and group.
type View struct{}

// View reads the ledger.
func (l *Ledger) View(ctx context.Context) (*View, error) { return nil, errSkeleton }

// CheckWritable tells whether the share can be written.
func (l *Ledger) CheckWritable(ctx context.Context) error { return errSkeleton }

// Account returns an account and its primary group; the error wraps farm.ErrNotFound.
func (l *Ledger) Account(ctx context.Context, name farm.UserName) (farm.Account, farm.Group, error) {
	return farm.Account{}, farm.Group{}, errSkeleton
}

// GroupNames returns those groups that exist, in the asked order.
func (l *Ledger) GroupNames(ctx context.Context, ids []farm.ID) ([]farm.GroupRef, error) {
	return nil, errSkeleton
}

// Users lists the accounts in file order.
func (v *View) Users() []farm.Account { return nil }

// User finds an account.
func (v *View) User(name farm.UserName) (farm.Account, bool) { return farm.Account{}, false }

// Groups lists the groups in file order.
func (v *View) Groups() []farm.Group { return nil }

// Group finds a group by name.
func (v *View) Group(name farm.GroupName) (farm.Group, bool) { return farm.Group{}, false }

// GroupByGID finds a group by number.
func (v *View) GroupByGID(id farm.ID) (farm.Group, bool) { return farm.Group{}, false }

// GroupsOf lists the groups of a user in file order, the primary one included.
func (v *View) GroupsOf(name farm.UserName) []farm.Group { return nil }
