// Package accounts has the use cases on users and groups.
package accounts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"config-server/internal/farm"
	"config-server/internal/ledger"
	"config-server/internal/saga"
)

// Homes are the users' homes on the NAS.
type Homes interface {
	Owner(ctx context.Context, user farm.UserName) (owner farm.ID, found bool, err error)
	Empty(ctx context.Context, user farm.UserName) (bool, error)
	Make(ctx context.Context, user farm.UserName, uid, gid farm.ID) error
	Remove(ctx context.Context, user farm.UserName) error
}

// Kerberos keeps the users' principals.
type Kerberos interface {
	CreatePrincipal(ctx context.Context, user farm.UserName) error
	RemoveUser(ctx context.Context, user farm.UserName, uid farm.ID) error
}

// Locks takes named locks.
type Locks interface {
	Lock(ctx context.Context, name string) (farm.Lock, error)
}

// Options of a Service.
type Options struct {
	Ledger   *ledger.Ledger
	Homes    Homes
	Kerberos Kerberos
	Locks    Locks
	Observer saga.Observer
	Log      *slog.Logger
	// Budget bounds a request that came without a deadline, and every deletion; zero = 100 seconds.
	Budget time.Duration
	// UndoLimit bounds the undo of a failed creation; zero = 30 seconds.
	UndoLimit time.Duration
	// KeepEmptyGroups keeps a shared group whose last member is deleted.
	KeepEmptyGroups bool
}

// Service has the use cases.
type Service struct{ opts Options }

// New returns a Service.
func New(opts Options) *Service { return &Service{opts: opts} }

// The values of Membership.Type.
const (
	Primary       = "primary"
	Supplementary = "supplementary"
)

// Membership is a group of a user.
type Membership struct {
	Name farm.GroupName
	GID  farm.ID
	Type string
}

// NewUser asks for an account.
type NewUser struct {
	Name          string
	Password      []byte
	Gecos         string
	PrimaryGroup  string // empty = Name
	Supplementary []farm.GroupRef
}

// Created is the outcome of CreateUser.
type Created struct {
	Account       farm.Account
	Group         farm.GroupRef
	Supplementary []farm.GroupRef
	Sudoers       string // path of the policy file; empty = none
}

// Deleted is the outcome of DeleteUser.
type Deleted struct {
	Warnings []string
}

// NewGroup asks for a group.
type NewGroup struct {
	Name    string
	GID     *farm.ID // nil = choose
	Members []string
}

// RecoverReport tells what Recover found.
type RecoverReport struct {
	Undone   []farm.UserName
	Finished []farm.UserName
	Busy     []farm.UserName
	Failed   []farm.UserName
}

var errSkeleton = errors.New("accounts: skeleton")

// CheckPassword tells whether a decoded password can be taken.
func CheckPassword(password []byte) error { return errSkeleton }

// Users lists all accounts in file order.
func (s *Service) Users(ctx context.Context) ([]farm.Account, error) { return nil, errSkeleton }

// User finds an account and its groups in group-file order.
func (s *Service) User(ctx context.Context, name string) (farm.Account, []Membership, error) {
	return farm.Account{}, nil, errSkeleton
}

// CreateUser makes an account.
func (s *Service) CreateUser(ctx context.Context, user NewUser) (Created, error) {
	return Created{}, errSkeleton
}

// DeleteUser removes an account.
func (s *Service) DeleteUser(ctx context.Context, name string) (Deleted, error) {
	return Deleted{}, errSkeleton
}

// JoinGroups adds a user to groups and returns their names, sorted.
func (s *Service) JoinGroups(ctx context.Context, user string, groups []string) ([]string, error) {
	return nil, errSkeleton
}

// CreateGroup makes a group.
func (s *Service) CreateGroup(ctx context.Context, group NewGroup) (farm.GroupRef, error) {
	return farm.GroupRef{}, errSkeleton
}

// DeleteGroup removes a group.
func (s *Service) DeleteGroup(ctx context.Context, name string) (farm.GroupRef, error) {
	return farm.GroupRef{}, errSkeleton
}

// Recover finishes or undoes what a crash left behind.
func (s *Service) Recover(ctx context.Context) (RecoverReport, error) {
	return RecoverReport{}, errSkeleton
}
