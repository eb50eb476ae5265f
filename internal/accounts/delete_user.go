package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"config-server/internal/farm"
	"config-server/internal/ledger"
	"config-server/internal/saga"
)

// Deleted is the outcome of DeleteUser.
type Deleted struct {
	// Warnings tell of what was left behind without making the deletion a failure.
	Warnings []string
}

// DeleteUser removes an account: its lines, its memberships, the groups that it leaves empty, its
// sudo policy, then its home if it owns it, and its principal. It runs to its end even if the
// caller goes away. Kinds of error: Invalid for base accounts and names that cannot exist,
// NotFound, Internal. After an error nothing is removed, unless its text says that the change is
// decided: then Recover ends it. It also removes the home that a NAS which was away has kept; one that
// the NAS refused to remove stays.
func (s *Service) DeleteUser(ctx context.Context, name string) (Deleted, error) {
	if err := checkPossible("user", name); err != nil {
		return Deleted{}, err
	}
	user := farm.UserName(name)
	d := &deletion{service: s, user: user, budget: s.opts.Budget}
	if deadline, ok := ctx.Deadline(); ok {
		d.budget = min(d.budget, max(0, time.Until(deadline)))
	}
	d.deadline = time.Now().Add(d.budget)
	ctx = context.WithoutCancel(ctx)
	defer d.end()
	wait, cancel := d.leaving(ctx, 50)
	defer cancel()
	lock, err := s.lockUser(wait, user)
	if err != nil {
		return Deleted{}, err
	}
	defer lock.Unlock()

	d.lock = lock
	settle, cancel := d.leaving(ctx, 30)
	defer cancel()
	found, err := s.settleUser(settle, user)
	if found != nil && found.deletion {
		// An earlier DELETE of this user was cut off; this call is its retry.
		return found.answer(err), nil
	}
	if err != nil {
		s.opts.Log.WarnContext(ctx, "an earlier creation of the user is still not undone; its journal entry stays", "user", user, "error", err)
	}
	err = saga.Run(ctx, saga.Options{UseCase: "delete-user", Observer: s.opts.Observer}, d.steps())
	if err == nil {
		return Deleted{Warnings: d.warnings}, nil
	}
	return d.failed(settle, err)
}

// failed answers a deletion that did not come to its end. If the account was not there, that may be
// because taking the lock completed the commit of an earlier call that was cut off in it.
func (d *deletion) failed(ctx context.Context, err error) (Deleted, error) {
	if failed, ok := saga.AsFailure(err); ok {
		err = failed.Err
	}
	told, ok := farm.AsError(err)
	if !ok || told.Kind != farm.NotFound {
		return Deleted{}, failure(err)
	}
	if found, err := d.service.settleUser(ctx, d.user); found != nil && found.deletion {
		return found.answer(err), nil
	}
	return Deleted{}, told
}

// deletion is one run of DeleteUser.
type deletion struct {
	service  *Service
	lock     farm.Lock
	user     farm.UserName
	budget   time.Duration
	deadline time.Time
	entry    ledger.Entry
	warnings []string
	// unfinished: home or principal is still there, so the journal entry has to stay for recovery.
	unfinished bool
}

// leaving bounds a step so that this percentage of the whole budget is left for what comes after it:
// a part that hangs costs its own step, not the following ones.
func (d *deletion) leaving(ctx context.Context, percent time.Duration) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, d.deadline.Add(-d.budget*percent/100))
}

// The steps after the commit have no undo and do not fail: what they cannot do is a warning.
func (d *deletion) steps() []saga.Step {
	return []saga.Step{
		{Name: StepWriteLedger, Do: d.write},
		{Name: StepRemoveHome, Do: d.removeHome},
		{Name: StepRemoveKrb5Principal, Do: d.removePrincipal},
		{Name: StepForget, Do: d.forget},
	}
}

// write takes the account out of all files and leaves the journal entry, in one commit.
func (d *deletion) write(ctx context.Context) error {
	ctx, cancel := d.leaving(ctx, 25)
	defer cancel()
	if err := stillLocked(d.lock); err != nil {
		return err
	}
	d.entry = d.service.opts.Ledger.NewEntry(ledger.Deleting, d.user, 0)
	d.service.running.Store(d.entry.ID, true)
	err := d.service.opts.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		account, err := findUser(tx.View(), string(d.user))
		if err != nil {
			return err
		}
		if account.IsBase() {
			return farm.Errorf(farm.Invalid, "cannot delete %s: it is a base account", account.Name)
		}
		d.entry.UID = account.UID
		tx.PutEntry(d.entry)
		return d.service.removeLines(tx, account)
	})
	return failure(err)
}

// removeLines takes every trace of an account out of the files.
func (s *Service) removeLines(tx *ledger.Tx, account farm.Account) error {
	tx.RemoveAccount(account.Name)
	for _, line := range tx.View().Users() {
		if line.Name == account.Name { // a name that stands there twice had two numbers
			tx.Retire(ledger.UID, line.UID, string(line.Name))
		}
	}
	tx.RemoveMember(account.Name)
	for _, group := range tx.View().GroupsOf(account.Name) {
		lines := linesOf(tx.View(), group.Name)
		if slices.ContainsFunc(lines, func(line farm.Group) bool { return !s.goesWith(tx.View(), line, account) }) {
			continue
		}
		removeGroup(tx, lines)
	}
	tx.RemoveSudoers(account.Name)
	return tx.RemovePassword(account.Name)
}

// goesWith tells whether a group of the account is removed with it: nobody else is in it.
func (s *Service) goesWith(view *ledger.View, group farm.Group, account farm.Account) bool {
	other := func(user farm.UserName) bool { return user != account.Name }
	switch {
	case group.IsBase():
		return false
	case s.opts.KeepEmptyGroups && group.GID != account.GID:
		return false
	case slices.ContainsFunc(group.Members, other):
		return false
	}
	return !slices.ContainsFunc(view.PrimaryUsers(group.GID), other)
}

func (d *deletion) removeHome(ctx context.Context) error {
	ctx, cancel := d.leaving(ctx, 20)
	defer cancel()
	warning, err := d.service.removeOwnHome(ctx, d.user, d.entry.UID)
	d.unfinished = d.unfinished || err != nil && !isRefusal(err)
	d.warn(ctx, warning, err)
	return nil
}

// isRefusal tells that the NAS was there and said no. Then the home stays, with the warning, and is
// its owner's again if the account comes back; a NAS that was not there is asked again by recovery.
func isRefusal(err error) bool {
	var answered interface{ Refused() bool }
	return errors.As(err, &answered) && answered.Refused()
}

func (d *deletion) removePrincipal(ctx context.Context) error {
	ctx, cancel := d.leaving(ctx, 10)
	defer cancel()
	if !d.user.Commandable() {
		return nil
	}
	err := d.service.opts.Kerberos.RemoveUser(ctx, d.user, d.entry.UID)
	switch {
	case errors.Is(err, farm.ErrDeferred):
		d.warn(ctx, "", err)
	case err != nil:
		d.unfinished = true
		d.warn(ctx, "", fmt.Errorf("the Kerberos principal of %s was not removed yet: %w", d.user, err))
	}
	return nil
}

func (d *deletion) forget(ctx context.Context) error {
	ctx, cancel := d.leaving(ctx, 0)
	defer cancel()
	if d.unfinished {
		return nil
	}
	if err := d.service.forget(ctx, d.entry.ID); err != nil {
		d.service.opts.Log.WarnContext(ctx, "a finished deletion stays in the journal until recovery", "user", d.user, "error", err)
	}
	return nil
}

func (d *deletion) warn(ctx context.Context, warning string, err error) {
	if err != nil {
		warning = err.Error()
	}
	if warning == "" {
		return
	}
	d.warnings = append(d.warnings, warning)
	d.service.opts.Log.WarnContext(ctx, "deletion of an account left something behind", "user", d.user, "warning", warning)
}

func (d *deletion) end() { d.service.running.Delete(d.entry.ID) }

// removeOwnHome removes a user's home if that uid owns it. The warning tells of a home that stays
// on purpose, the error of one that could not be removed.
func (s *Service) removeOwnHome(ctx context.Context, user farm.UserName, uid farm.ID) (warning string, err error) {
	if !user.Commandable() {
		return fmt.Sprintf("the home of %s stays: its name cannot be part of a command", user), nil
	}
	owner, found, err := s.opts.Homes.Owner(ctx, user)
	switch {
	case err != nil:
		return "", fmt.Errorf("the home of %s was not removed: %w", user, err)
	case !found:
		return "", nil
	case owner != uid:
		return fmt.Sprintf("the home of %s stays: it belongs to uid %d", user, owner), nil
	}
	if err := s.opts.Homes.Remove(ctx, user); err != nil {
		return "", fmt.Errorf("the home of %s was not removed: %w", user, err)
	}
	return "", nil
}

// removeMadeHome removes what an unfinished creation made of a home that was absent before: one
// that the new uid owns, or an empty one that still is root's. If that fails the number is retired,
// so that whatever lies there never belongs to somebody else.
func (s *Service) removeMadeHome(ctx context.Context, user farm.UserName, uid farm.ID) (bool, error) {
	// A NAS that hangs must leave time for writing down what is left.
	limited, cancel := context.WithTimeout(ctx, s.opts.UndoLimit/2)
	defer cancel()
	removed, err := s.tryRemoveMadeHome(limited, user, uid)
	if err == nil {
		return removed, nil
	}
	retired := s.opts.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		tx.Retire(ledger.UID, uid, string(user))
		return nil
	})
	if retired != nil {
		return false, fmt.Errorf("remove the home of %s: %w (and uid %d was not retired: %w)", user, err, uid, retired)
	}
	return false, fmt.Errorf("remove the home of %s: %w", user, err)
}

func (s *Service) tryRemoveMadeHome(ctx context.Context, user farm.UserName, uid farm.ID) (bool, error) {
	owner, found, err := s.opts.Homes.Owner(ctx, user)
	if err != nil || !found {
		return false, err
	}
	mine := owner == uid
	if owner == 0 {
		if mine, err = s.opts.Homes.Empty(ctx, user); err != nil {
			return false, err
		}
	}
	if !mine {
		return false, nil
	}
	return true, s.opts.Homes.Remove(ctx, user)
}

// forget removes a journal entry.
func (s *Service) forget(ctx context.Context, id string) error {
	return s.opts.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		tx.DropEntry(id)
		return nil
	})
}
