// Package accounts has the use cases on users and groups: they join the ledger, the homes on the
// NAS and the Kerberos principals.
//
// A call on a user holds that user's lock from its beginning to its end. It does not hold the
// ledger's lock while the NAS or the KDC works: a creation first reserves its numbers in the
// ledger's journal, then makes home and principal, and last writes all account lines in one
// commit. What fails before that commit never touched the account files, so undoing it is removing
// the home, the principal and the reservation. A deletion works the other way round: the commit
// that takes the lines out leaves a journal entry behind, and home and principal follow.
//
// Recover finishes or undoes what a crash left, by the journal.
package accounts

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"config-server/internal/farm"
	"config-server/internal/ledger"
	"config-server/internal/saga"
)

// Homes are the users' homes on the NAS. Every method is called with names that may be arguments of
// a command (farm.UserName.Commandable) and only under the user's lock.
type Homes interface {
	// Owner returns the uid that owns the user's home; found is false if there is none.
	Owner(ctx context.Context, user farm.UserName) (owner farm.ID, found bool, err error)
	// Empty reports whether the user's home has nothing in it.
	Empty(ctx context.Context, user farm.UserName) (bool, error)
	// Make makes the home with this owner and mode 0700. It may half succeed.
	Make(ctx context.Context, user farm.UserName, uid, gid farm.ID) error
	// Remove removes the home with everything in it; one that does not exist is no error.
	Remove(ctx context.Context, user farm.UserName) error
}

// Kerberos keeps the users' principals and keytabs.
type Kerberos interface {
	// Existing tells what there is of a user before a creation, which is left over from elsewhere.
	Existing(ctx context.Context, user farm.UserName) (principal, keytab bool, err error)
	// CreatePrincipal makes principal and keytab. It may half succeed.
	CreatePrincipal(ctx context.Context, user farm.UserName) error
	// Withdraw takes back those of principal and keytab that a creation made. It is no error if there
	// is nothing.
	Withdraw(ctx context.Context, user farm.UserName, principal, keytab bool) error
	// RemoveUser removes principal, keytab and what lies on the farm nodes. It is no error if there
	// is nothing. The error wraps farm.ErrDeferred if what is left is noted and tried again.
	RemoveUser(ctx context.Context, user farm.UserName, uid farm.ID) error
}

// Locks takes named locks. Lock waits until it has the lock or the context is done; then its error
// wraps farm.ErrLockTimeout or the context's error.
type Locks interface {
	Lock(ctx context.Context, name string) (farm.Lock, error)
}

// Options of a Service.
type Options struct {
	Ledger   *ledger.Ledger
	Homes    Homes
	Kerberos Kerberos
	Locks    Locks
	// Observer is told of the steps of CreateUser and DeleteUser; nil = nobody.
	Observer saga.Observer
	// Log is told of what no caller hears; nil = slog.Default().
	Log *slog.Logger
	// Budget bounds a request that comes without a deadline, and every deletion; zero = 100 seconds.
	Budget time.Duration
	// UndoLimit bounds the undo of a failed creation; zero = 30 seconds.
	UndoLimit time.Duration
	// RecoverWait is how long Recover waits for a user who is busy; zero = 1 second.
	RecoverWait time.Duration
	// KeepEmptyGroups keeps a shared group whose last member is deleted. By default it goes with
	// that member, as callers are used to.
	KeepEmptyGroups bool
}

// Service has the use cases. It is safe for concurrent use. The errors of all its methods are
// *farm.Error.
type Service struct {
	opts Options
	// running has the journal entries of operations that this process is working on.
	running sync.Map
}

// New returns a Service.
func New(opts Options) *Service {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Budget == 0 {
		opts.Budget = 100 * time.Second
	}
	if opts.UndoLimit == 0 {
		opts.UndoLimit = 30 * time.Second
	}
	if opts.RecoverWait == 0 {
		opts.RecoverWait = time.Second
	}
	return &Service{opts: opts}
}

// Names of the steps of CreateUser and DeleteUser, as observers see them, beside
// farm.StepCreateHomeDirectory and farm.StepCreateKrb5Principal.
const (
	// StepCheckHome looks for a home of that name on the NAS.
	StepCheckHome = "CHECK_HOME"
	// StepReserveNumbers chooses the numbers and writes the journal entry that keeps them.
	StepReserveNumbers = "RESERVE_NUMBERS"
	// StepWriteLedger commits the account lines, or takes them out.
	StepWriteLedger = "WRITE_LEDGER"
	// StepRemoveHome removes the home if the account owned it.
	StepRemoveHome = "REMOVE_HOME_DIRECTORY"
	// StepRemoveKrb5Principal removes principal and keytabs.
	StepRemoveKrb5Principal = "REMOVE_KRB5_PRINCIPAL"
	// StepForget removes the journal entry.
	StepForget = "FORGET_OPERATION"
)

// The values of Membership.Type.
const (
	Primary       = "primary"
	Supplementary = "supplementary"
)

// Membership is a group of a user.
type Membership struct {
	Name farm.GroupName
	GID  farm.ID
	Type string // Primary or Supplementary
}

// UserList is all accounts as one state of the share has them.
type UserList struct {
	// Accounts are in file order, those of the base system included. The slice is shared and must not
	// be changed.
	Accounts []farm.Account
	// Version is the same exactly as long as the files are; it is fit for an ETag.
	Version string
	// Memo returns what build made for this key and this state, once: the place for encoded lists.
	Memo func(key string, build func() any) any
}

// Users lists all accounts. The error's kind is Internal if the share cannot be read.
func (s *Service) Users(ctx context.Context) (UserList, error) {
	view, err := s.opts.Ledger.View(ctx)
	if err != nil {
		return UserList{}, failure(err)
	}
	return UserList{Accounts: view.Users(), Version: view.Version(), Memo: view.Memo}, nil
}

// GroupList is all groups as one state of the share has them.
type GroupList struct {
	// Groups are in file order, those of the base system included. The slice is shared and must not
	// be changed.
	Groups []farm.Group
	// Version and Memo are those of UserList.
	Version string
	Memo    func(key string, build func() any) any
}

// Groups lists all groups. The error's kind is Internal if the share cannot be read.
func (s *Service) Groups(ctx context.Context) (GroupList, error) {
	view, err := s.opts.Ledger.View(ctx)
	if err != nil {
		return GroupList{}, failure(err)
	}
	return GroupList{Groups: view.Groups(), Version: view.Version(), Memo: view.Memo}, nil
}

// User finds an account and its groups, in group-file order and each once. Kinds of error: Invalid
// for a name that cannot exist, NotFound, Internal.
func (s *Service) User(ctx context.Context, name string) (farm.Account, []Membership, error) {
	if err := checkPossible("user", name); err != nil {
		return farm.Account{}, nil, err
	}
	view, err := s.opts.Ledger.View(ctx)
	if err != nil {
		return farm.Account{}, nil, failure(err)
	}
	account, err := findUser(view, name)
	if err != nil {
		return farm.Account{}, nil, err
	}
	var groups []Membership
	for _, group := range view.GroupsOf(account.Name) {
		kind := Supplementary
		if group.GID == account.GID {
			kind = Primary
		}
		groups = append(groups, Membership{Name: group.Name, GID: group.GID, Type: kind})
	}
	return account, groups, nil
}

// lockUser takes the user's lock for the whole of a call.
func (s *Service) lockUser(ctx context.Context, user farm.UserName) (farm.Lock, error) {
	lock, err := s.opts.Locks.Lock(ctx, farm.UserLock(user))
	if err != nil {
		return nil, &farm.Error{Kind: farm.Internal, Cause: err,
			Detail: fmt.Sprintf("user %s is busy with another call, or the locks cannot be reached", user)}
	}
	return lock, nil
}

// within bounds a request that comes without a deadline.
func (s *Service) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, s.opts.Budget)
}

// stillLocked fails an operation whose lock was lost, before it touches anything else.
func stillLocked(lock farm.Lock) error {
	if err := lock.Err(); err != nil {
		return &farm.Error{Kind: farm.Internal, Cause: err, Detail: "the lock on the user was lost; nothing more was changed"}
	}
	return nil
}
