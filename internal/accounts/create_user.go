package accounts

import (
	"context"
	"errors"
	"slices"

	"config-server/internal/farm"
	"config-server/internal/ledger"
	"config-server/internal/saga"
)

// NewUser asks for an account.
type NewUser struct {
	Name          string
	Password      []byte // as CheckPassword wants it
	Gecos         string
	PrimaryGroup  string // empty = Name
	Supplementary []farm.GroupRef
}

func (u NewUser) primaryGroup() string {
	if u.PrimaryGroup == "" {
		return u.Name
	}
	return u.PrimaryGroup
}

// Created is the outcome of CreateUser.
type Created struct {
	Account       farm.Account
	Group         farm.GroupRef
	Supplementary []farm.GroupRef // as asked, each once
	Sudoers       string          // path of the policy file; empty = none
}

// CreateUser makes an account with its groups, home and principal, or nothing at all: if anything
// fails, or the caller goes away, everything is undone before it returns. Kinds of error: Invalid;
// Conflict if the user exists, or a group's number belonged to somebody else; Internal, with step and
// code if the NAS or the KDC failed.
func (s *Service) CreateUser(ctx context.Context, user NewUser) (Created, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if err := checkRequest(user); err != nil {
		return Created{}, err
	}
	name := farm.UserName(user.Name)
	lock, err := s.lockUser(ctx, name)
	if err != nil {
		return Created{}, err
	}
	defer lock.Unlock()
	if err := s.checkOnView(ctx, user); err != nil {
		return Created{}, err
	}
	hash, err := hashPassword(user.Password)
	if err != nil {
		return Created{}, failure(err)
	}
	c := &creation{service: s, lock: lock, user: user, name: name, hash: hash}
	defer c.end()
	if err := saga.Run(ctx, saga.Options{UseCase: "create-user", UndoLimit: s.opts.UndoLimit, Observer: s.opts.Observer}, c.steps()); err != nil {
		return Created{}, createFailed(err)
	}
	return c.outcome, nil
}

// checkOnView refuses what can be refused without the ledger's lock, after earlier, cut off calls on
// the user are settled. The caller holds the user's lock.
func (s *Service) checkOnView(ctx context.Context, user NewUser) error {
	if _, err := s.settleUser(ctx, farm.UserName(user.Name)); err != nil {
		return err
	}
	look := func() error {
		return s.opts.Ledger.Look(ctx, func(tx *ledger.Tx) error {
			_, err := s.planUser(tx, user, "")
			return err
		})
	}
	err := look()
	if err == nil || !s.opts.Ledger.Interrupted() {
		return failure(err)
	}
	// What refuses the user may be on its way out: a commit is waiting for its completion.
	if err := s.opts.Ledger.Settle(ctx); err != nil {
		return failure(err)
	}
	if _, err := s.settleUser(ctx, farm.UserName(user.Name)); err != nil {
		return err
	}
	return failure(look())
}

// createFailed is what the caller hears of a failed creation. Of an undo that failed too the observer
// has heard; the journal keeps what is left, and the caller's answer is the same.
func createFailed(err error) error {
	if failed, ok := saga.AsFailure(err); ok {
		return failure(failed.Err)
	}
	return failure(err)
}

// creation is one run of CreateUser.
type creation struct {
	service *Service
	lock    farm.Lock
	user    NewUser
	name    farm.UserName
	hash    string

	home  home
	entry ledger.Entry
	// reserved: the journal entry is written, or may be.
	reserved bool
	// principal: what was missing of principal and keytab is made.
	principal bool
	// decided: the account lines are written, or will be whatever happens; nothing may be undone.
	decided bool
	// leftBehind: an undo failed, so the journal entry has to stay.
	leftBehind bool
	outcome    Created
}

func (c *creation) steps() []saga.Step {
	return []saga.Step{
		{Name: StepCheckHome, Do: c.checkHome},
		{Name: StepReserveNumbers, Do: c.reserve, Undos: []saga.Undo{{Run: c.undoReserve}}},
		{Name: string(farm.StepCreateHomeDirectory), Do: c.makeHome, Undos: []saga.Undo{{Key: "homeRemoved", Run: c.undoHome}}},
		{Name: string(farm.StepCreateKrb5Principal), Do: c.createPrincipal, Undos: []saga.Undo{{Run: c.undoPrincipal}}},
		{Name: StepWriteLedger, Do: c.write},
	}
}

// home is what was found on the NAS before anything was made.
type home struct {
	found bool
	owner farm.ID
	empty bool // asked only of a home that root owns
}

func (c *creation) checkHome(ctx context.Context) error {
	homes := c.service.opts.Homes
	var err error
	if c.home.owner, c.home.found, err = homes.Owner(ctx, c.name); err != nil {
		return homeFailed(err, "%v", err)
	}
	if !c.home.found || c.home.owner != 0 {
		return nil
	}
	if c.home.empty, err = homes.Empty(ctx, c.name); err != nil {
		return homeFailed(err, "%v", err)
	}
	return nil
}

// absent: there is no home, or only the beginning of one, which a mkdir cut off before its chown left.
func (h home) absent() bool { return !h.found || h.owner == 0 && h.empty }

func (c *creation) reserve(ctx context.Context) error {
	if err := stillLocked(c.lock); err != nil {
		return err
	}
	// The KDC is asked before anything is made: if it is down, nothing has to be undone.
	principal, keytab, err := c.service.opts.Kerberos.Existing(ctx, c.name)
	if err != nil {
		return principalFailed(err)
	}
	c.entry = c.service.opts.Ledger.NewEntry(ledger.Creating, c.name, 0)
	c.entry.MakesPrincipal, c.entry.MakesKeytab = !principal, !keytab
	c.service.running.Store(c.entry.ID, true)
	err = c.service.opts.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		p, err := c.service.planUser(tx, c.user, "")
		if err != nil {
			return err
		}
		number, err := c.chooseNumber(tx, p)
		if err != nil {
			return err
		}
		p.account.UID, p.account.GID = number, number
		c.entry.UID, c.entry.Groups, c.entry.MakesHome = number, p.reservations(), c.home.absent()
		tx.PutEntry(c.entry)
		return nil
	})
	c.reserved = err == nil || errors.Is(err, ledger.ErrUnfinished)
	return failure(err)
}

// chooseNumber chooses uid and gid. A home that is there decides: it is kept if its owner is the
// number that the account gets, be it by chance or because an earlier account of that name had it.
func (c *creation) chooseNumber(tx *ledger.Tx, p plan) (farm.ID, error) {
	if c.home.found && c.home.owner != 0 && hadNumber(tx, p, c.home.owner) {
		return c.home.owner, nil
	}
	avoid := make([]farm.ID, len(p.all))
	for i, group := range p.all {
		avoid[i] = group.GID
	}
	number, err := tx.NextUID(avoid...)
	if err != nil {
		return 0, err
	}
	if c.home.absent() || c.home.owner == number {
		return number, nil
	}
	return 0, homeFailed(farm.ErrOwner, "the home of %s is there already and belongs to uid %d; look whose it is and move it away", c.name, c.home.owner)
}

// hadNumber tells whether an earlier account of this name had the number and nobody else has or had it.
func hadNumber(tx *ledger.Tx, p plan, number farm.ID) bool {
	had := false
	for _, retirement := range tx.Retirements(number) {
		if retirement.Name != string(p.account.Name) {
			return false
		}
		had = had || retirement.Kind == ledger.UID
	}
	var own farm.GroupName
	if p.leftover != nil {
		own = p.leftover.Name
	}
	if !had || number.IsBase() || tx.UsedInFiles(number, own) {
		return false
	}
	for _, group := range p.all {
		if group.GID == number {
			return false
		}
	}
	return !reservedNumber(tx.Entries(), number)
}

func reservedNumber(entries []ledger.Entry, number farm.ID) bool {
	for _, entry := range entries {
		if entry.UID == number {
			return true
		}
		for _, group := range entry.Groups {
			if group.GID == number {
				return true
			}
		}
	}
	return false
}

func (c *creation) makeHome(ctx context.Context) error {
	if !c.entry.MakesHome {
		return nil
	}
	if err := stillLocked(c.lock); err != nil {
		return err
	}
	if err := c.service.opts.Homes.Make(ctx, c.name, c.entry.UID, c.entry.UID); err != nil {
		return homeFailed(err, "%v", err)
	}
	return nil
}

func (c *creation) createPrincipal(ctx context.Context) error {
	if err := c.service.opts.Kerberos.CreatePrincipal(ctx, c.name); err != nil {
		return principalFailed(err)
	}
	c.principal = c.entry.MakesPrincipal || c.entry.MakesKeytab
	return nil
}

// write commits all lines of the account and drops the journal entry with them.
func (c *creation) write(ctx context.Context) error {
	if err := stillLocked(c.lock); err != nil {
		return err
	}
	var outcome Created
	err := c.service.opts.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		p, err := c.service.planUser(tx, c.user, c.entry.ID)
		if err != nil {
			return err
		}
		p.account.UID, p.account.GID = c.entry.UID, c.entry.UID
		var own farm.GroupName
		if p.leftover != nil {
			own = p.leftover.Name
		}
		if tx.UsedInFiles(c.entry.UID, own) {
			return farm.Errorf(farm.Internal, "number %d was taken by another program meanwhile; try again", c.entry.UID)
		}
		outcome, err = c.edit(tx, p)
		return err
	})
	c.decided = err == nil || errors.Is(err, ledger.ErrUnfinished)
	c.outcome = outcome
	return failure(err)
}

// edit writes the plan. Whatever an earlier account of that name left is cleared away first.
func (c *creation) edit(tx *ledger.Tx, p plan) (Created, error) {
	primary := farm.GroupRef{Name: p.primary, GID: p.account.GID}
	tx.RemoveMember(c.name, p.join...)
	if p.leftover != nil {
		tx.RemoveGroup(p.leftover.Name)
	}
	if p.leftover != nil && p.leftover.GID != primary.GID {
		tx.Retire(ledger.GID, p.leftover.GID, string(p.leftover.Name))
	}
	tx.AddGroup(farm.Group{Name: primary.Name, GID: primary.GID})
	for _, group := range p.create {
		tx.AddGroup(farm.Group{Name: group.Name, GID: group.GID, Members: []farm.UserName{c.name}})
	}
	tx.AddMember(c.name, p.join...)
	if err := tx.SetPassword(c.name, c.hash); err != nil {
		return Created{}, err
	}
	sudoers := tx.SetSudoers(c.name)
	tx.AddAccount(p.account)
	tx.DropEntry(c.entry.ID)
	return Created{Account: p.account, Group: primary, Supplementary: p.all, Sudoers: sudoers}, nil
}

// settledElsewhere tells that another instance took over when the user's lock was lost, and has undone
// this creation. What there is now of that name, with the same number even, is a later call's.
func (c *creation) settledElsewhere(ctx context.Context) (bool, error) {
	if c.lock.Err() == nil {
		return false, nil
	}
	entries, err := c.service.opts.Ledger.Entries(ctx)
	if err != nil {
		c.leftBehind = true
		return false, err
	}
	return !slices.ContainsFunc(entries, func(e ledger.Entry) bool { return e.ID == c.entry.ID }), nil
}

func (c *creation) undoHome(ctx context.Context) (bool, error) {
	if c.decided || !c.entry.MakesHome {
		return false, nil
	}
	if settled, err := c.settledElsewhere(ctx); settled || err != nil {
		return false, err
	}
	removed, err := c.service.removeMadeHome(ctx, c.name, c.entry.UID)
	c.leftBehind = c.leftBehind || err != nil
	return removed, err
}

func (c *creation) undoPrincipal(ctx context.Context) (bool, error) {
	if c.decided {
		return false, nil
	}
	if settled, err := c.settledElsewhere(ctx); settled || err != nil {
		return false, err
	}
	err := c.service.withdraw(ctx, c.entry)
	c.leftBehind = c.leftBehind || err != nil
	return c.principal, err
}

// undoReserve drops the journal entry, unless it is still needed to find what undo left behind.
func (c *creation) undoReserve(ctx context.Context) (bool, error) {
	if !c.reserved || c.decided || c.leftBehind {
		return false, nil
	}
	return true, c.service.forget(ctx, c.entry.ID)
}

func (c *creation) end() { c.service.running.Delete(c.entry.ID) }
