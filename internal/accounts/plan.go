package accounts

import (
	"slices"

	"config-server/internal/farm"
	"config-server/internal/ledger"
)

// plan is what a creation will write, decided from one state of the ledger. It is made anew from
// the state under the lock before anything is written.
type plan struct {
	account farm.Account
	primary farm.GroupName
	// leftover is a group of the user's own name that an earlier, half-done deletion left; the
	// private group takes its place.
	leftover *farm.Group
	join     []farm.GroupName // supplementary groups that exist
	create   []farm.GroupRef  // and those that do not
	all      []farm.GroupRef  // both, as asked, each once
}

// reservations are the groups that a journal entry keeps for this plan.
func (p plan) reservations() []farm.GroupRef {
	return append([]farm.GroupRef{{Name: p.primary, GID: p.account.GID}}, p.create...)
}

// checkRequest checks what needs no ledger.
func checkRequest(user NewUser) error {
	if err := checkNew("user", user.Name); err != nil {
		return err
	}
	if err := checkNew("group", user.primaryGroup()); err != nil {
		return err
	}
	if err := checkText("gecos", user.Gecos); err != nil {
		return err
	}
	for _, group := range user.Supplementary {
		if err := checkPossible("group", string(group.Name)); err != nil {
			return err
		}
	}
	return CheckPassword(user.Password)
}

// planUser decides everything but the account's number. own is the journal entry of this very
// operation, if it has one.
func (s *Service) planUser(tx *ledger.Tx, user NewUser, own string) (plan, error) {
	view := tx.View()
	if _, ok := view.User(farm.UserName(user.Name)); ok {
		return plan{}, farm.Errorf(farm.Conflict, "user already exists")
	}
	p := plan{
		primary: farm.GroupName(user.primaryGroup()),
		account: farm.Account{
			Name: farm.UserName(user.Name), Gecos: user.Gecos,
			Home: "/home/" + user.Name, Shell: "/bin/bash",
		},
	}
	others := slices.DeleteFunc(slices.Clone(tx.Entries()), func(e ledger.Entry) bool { return e.ID == own })
	if err := s.planPrimary(&p, view, others); err != nil {
		return plan{}, err
	}
	for _, group := range user.Supplementary {
		if err := s.planSupplementary(&p, tx, others, group); err != nil {
			return plan{}, err
		}
	}
	return p, nil
}

// planPrimary checks the names of the user and of the primary group.
func (s *Service) planPrimary(p *plan, view *ledger.View, others []ledger.Entry) error {
	user := string(p.account.Name)
	if err := s.checkFree("user", user); err != nil {
		return err
	}
	if err := s.checkFree("group", string(p.primary)); err != nil {
		return err
	}
	private := string(p.primary) == user
	group, exists := view.Group(p.primary)
	switch {
	case exists && private && isLeftover(view, group):
		p.leftover = &group
	case exists && private:
		return farm.Errorf(farm.Invalid, "invalid user name: there is a group %s already", p.primary)
	case exists:
		return farm.Errorf(farm.Invalid, "primary group %s exists already", p.primary)
	}
	if private {
		return checkNotReserved(others, farm.GroupName(user))
	}
	if _, clash := view.Group(farm.GroupName(user)); clash {
		return farm.Errorf(farm.Invalid, "invalid user name: there is a group %s already", user)
	}
	if _, clash := view.User(farm.UserName(p.primary)); clash {
		return farm.Errorf(farm.Invalid, "invalid group name: there is a user %s already", p.primary)
	}
	return checkNotReserved(others, farm.GroupName(user), p.primary)
}

// isLeftover tells whether a group is what a half-done deletion of the user of its name left: nobody
// else is in it.
func isLeftover(view *ledger.View, group farm.Group) bool {
	stranger := func(member farm.UserName) bool { return string(member) != string(group.Name) }
	return !group.IsBase() && !slices.ContainsFunc(group.Members, stranger) && len(view.PrimaryUsers(group.GID)) == 0
}

// checkNotReserved refuses names that an account in the making will have.
func checkNotReserved(others []ledger.Entry, names ...farm.GroupName) error {
	for _, entry := range others {
		for _, name := range names {
			taken := func(group farm.GroupRef) bool { return group.Name == name }
			if entry.Kind == ledger.Creating && (string(entry.User) == string(name) || slices.ContainsFunc(entry.Groups, taken)) {
				return farm.Errorf(farm.Invalid, "invalid name: %s is just being made", name)
			}
		}
	}
	return nil
}

// planSupplementary adds one asked group to the plan: groups are found by number; one that does
// not exist is made.
func (s *Service) planSupplementary(p *plan, tx *ledger.Tx, others []ledger.Entry, want farm.GroupRef) error {
	if slices.Contains(p.all, want) {
		return nil
	}
	for _, other := range p.all {
		if other.Name == want.Name || other.GID == want.GID {
			return mismatch(want, other)
		}
	}
	view := tx.View()
	if group, ok := view.GroupByGID(want.GID); ok {
		if group.IsBase() || farm.IsBaseName(string(want.Name)) {
			return farm.Errorf(farm.Invalid, "supplementary group %s (gid %d) belongs to the base system", group.Name, group.GID)
		}
		if group.Name != want.Name || p.leftover != nil && p.leftover.Name == group.Name {
			return mismatch(want, farm.GroupRef{Name: group.Name, GID: group.GID})
		}
		p.join = append(p.join, group.Name)
		p.all = append(p.all, want)
		return nil
	}
	if err := s.checkNewSupplementary(p, tx, others, want); err != nil {
		return err
	}
	p.create = append(p.create, want)
	p.all = append(p.all, want)
	return nil
}

func (s *Service) checkNewSupplementary(p *plan, tx *ledger.Tx, others []ledger.Entry, want farm.GroupRef) error {
	name := string(want.Name)
	if err := checkNew("group", name); err != nil {
		return err
	}
	if err := s.checkFree("group", name); err != nil {
		return err
	}
	if err := want.GID.CheckBand(); err != nil {
		return farm.Errorf(farm.Invalid, "supplementary group %s: gid %v", name, err)
	}
	if group, ok := tx.View().Group(want.Name); ok {
		return mismatch(want, farm.GroupRef{Name: group.Name, GID: group.GID})
	}
	if _, clash := tx.View().User(farm.UserName(name)); clash || want.Name == p.primary || name == string(p.account.Name) {
		return farm.Errorf(farm.Invalid, "supplementary group %s: a user or private group has that name", name)
	}
	if tx.UsedInFiles(want.GID, "") {
		return farm.Errorf(farm.Invalid, "supplementary group %s: gid %d is in use", name, want.GID)
	}
	if err := checkReservedGroup(others, want); err != nil {
		return err
	}
	if retired, same := tx.RetiredFor(want.GID, name); retired && !same {
		return farm.Errorf(farm.Conflict, "supplementary group %s: gid %d belonged to another name and is not given again", name, want.GID)
	}
	return nil
}

// checkReservedGroup refuses a group that an account in the making gives to somebody else. Two of
// them may make the same shared group: who comes first makes it, the other joins.
func checkReservedGroup(others []ledger.Entry, want farm.GroupRef) error {
	for _, entry := range others {
		if entry.Kind != ledger.Creating {
			continue
		}
		if entry.UID == want.GID || string(entry.User) == string(want.Name) {
			return farm.Errorf(farm.Invalid, "supplementary group %s (gid %d) belongs to user %s", want.Name, want.GID, entry.User)
		}
		for _, group := range entry.Groups {
			if group != want && (group.Name == want.Name || group.GID == want.GID) {
				return mismatch(want, group)
			}
		}
	}
	return nil
}

func mismatch(want, have farm.GroupRef) error {
	return farm.Errorf(farm.Invalid, "supplementary group %s (gid %d) does not match group %s (gid %d)",
		want.Name, want.GID, have.Name, have.GID)
}
