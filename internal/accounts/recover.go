package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"config-server/internal/farm"
	"config-server/internal/ledger"
)

// RecoverReport tells what Recover did with the operations that it found unfinished.
type RecoverReport struct {
	Undone   []farm.UserName // creations that are taken back
	Finished []farm.UserName // deletions that are complete now
	Busy     []farm.UserName // users whose lock somebody holds: their operation is running
	Failed   []farm.UserName // still unfinished; the error says why
}

// Recover completes an interrupted commit of the ledger, then finishes or undoes every operation of
// the journal that nobody is working on. It is for the start of the service and for every pass
// of the reconciler; repeating it does no harm. The error, of kind Internal, joins the failures; the
// report is valid beside it.
func (s *Service) Recover(ctx context.Context) (RecoverReport, error) {
	var report RecoverReport
	if err := s.opts.Ledger.Settle(ctx); err != nil {
		return report, failure(err)
	}
	entries, err := s.opts.Ledger.Entries(ctx)
	if err != nil {
		return report, failure(err)
	}
	var errs []error
	for _, entry := range entries {
		if _, running := s.running.Load(entry.ID); running {
			report.Busy = append(report.Busy, entry.User)
			continue
		}
		if err := s.recoverOne(ctx, entry, &report); err != nil {
			errs = append(errs, fmt.Errorf("recover %s of user %s: %w", entry.Kind, entry.User, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return report, &farm.Error{Kind: farm.Internal, Detail: "some unfinished account operations remain", Cause: err}
	}
	return report, nil
}

func (s *Service) recoverOne(ctx context.Context, entry ledger.Entry, report *RecoverReport) error {
	wait, cancel := context.WithTimeout(ctx, s.opts.RecoverWait)
	lock, err := s.opts.Locks.Lock(wait, farm.UserLock(entry.User))
	cancel()
	if err != nil {
		report.Busy = append(report.Busy, entry.User)
		return nil
	}
	defer lock.Unlock()
	if err := stillLocked(lock); err != nil {
		return err
	}
	found, err := s.settleUser(ctx, entry.User)
	switch {
	case err != nil:
		report.Failed = append(report.Failed, entry.User)
		return err
	case found == nil:
		// Whoever held the lock until now has ended it.
	case found.deletion:
		report.Finished = append(report.Finished, entry.User)
	default:
		report.Undone = append(report.Undone, entry.User)
	}
	return nil
}

// leftovers is what settleUser found of earlier operations on a user.
type leftovers struct {
	deletion bool     // one was a deletion
	warnings []string // of that deletion
}

// answer tells the caller of DELETE what finishing an earlier deletion came to.
func (l *leftovers) answer(err error) Deleted {
	if err == nil {
		return Deleted{Warnings: l.warnings}
	}
	return Deleted{Warnings: append(l.warnings, err.Error())}
}

// settleUser finishes or undoes what earlier calls on this user left unfinished. The caller holds
// the user's lock, so nobody is working on it. It returns nil if there was nothing; an error says
// that something still is left.
func (s *Service) settleUser(ctx context.Context, user farm.UserName) (*leftovers, error) {
	entries, err := s.opts.Ledger.Entries(ctx)
	if err != nil {
		return nil, failure(err)
	}
	entries = slices.DeleteFunc(entries, func(e ledger.Entry) bool { return e.User != user })
	if len(entries) == 0 {
		return nil, nil
	}
	// The commit that an entry speaks of may itself wait for its completion.
	if err := s.opts.Ledger.Settle(ctx); err != nil {
		return nil, failure(err)
	}
	found := &leftovers{}
	var errs []error
	for _, entry := range entries {
		errs = append(errs, s.settleEntry(ctx, entry, found))
	}
	return found, errors.Join(errs...)
}

func (s *Service) settleEntry(ctx context.Context, entry ledger.Entry, found *leftovers) error {
	view, err := s.opts.Ledger.View(ctx)
	if err != nil {
		return failure(err)
	}
	account, exists := view.User(entry.User)
	var settle func(context.Context, ledger.Entry, *leftovers) error
	switch {
	case exists && (entry.Kind == ledger.Deleting || account.UID == entry.UID):
		// The lines are there: a creation was committed after all, or somebody wrote them by hand.
	case entry.Kind == ledger.Deleting:
		settle = s.finishDeletion
	default:
		settle = s.undoCreation
	}
	if settle != nil {
		if err := settle(ctx, entry, found); err != nil {
			return err
		}
	}
	if err := s.forget(ctx, entry.ID); err != nil {
		return failure(err)
	}
	s.opts.Log.InfoContext(ctx, "settled an unfinished account operation", "kind", entry.Kind, "user", entry.User, "uid", entry.UID, "instance", entry.Instance)
	return nil
}

// undoCreation takes back a creation that never came to its commit.
func (s *Service) undoCreation(ctx context.Context, entry ledger.Entry, _ *leftovers) error {
	if entry.MakesHome {
		if _, err := s.removeMadeHome(ctx, entry.User, entry.UID); err != nil {
			return homeFailed(err, "%v", err)
		}
	}
	if err := s.withdraw(ctx, entry); err != nil {
		return principalFailed(err)
	}
	return nil
}

// withdraw takes back what a creation made in the KDC. What was there before stays.
func (s *Service) withdraw(ctx context.Context, entry ledger.Entry) error {
	if !entry.MakesPrincipal && !entry.MakesKeytab {
		return nil
	}
	return s.opts.Kerberos.Withdraw(ctx, entry.User, entry.MakesPrincipal, entry.MakesKeytab)
}

// finishDeletion removes home and principal of an account whose lines are gone.
func (s *Service) finishDeletion(ctx context.Context, entry ledger.Entry, found *leftovers) error {
	found.deletion = true
	warning, err := s.removeOwnHome(ctx, entry.User, entry.UID)
	if err != nil {
		return homeFailed(err, "%v", err)
	}
	if warning != "" {
		found.warnings = append(found.warnings, warning)
	}
	if !entry.User.Commandable() {
		return nil
	}
	err = s.opts.Kerberos.RemoveUser(ctx, entry.User, entry.UID)
	switch {
	case errors.Is(err, farm.ErrDeferred):
		found.warnings = append(found.warnings, err.Error())
	case err != nil:
		return principalFailed(err)
	}
	return nil
}
