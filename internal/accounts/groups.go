package accounts

import (
	"context"
	"slices"
	"strings"

	"config-server/internal/farm"
	"config-server/internal/ledger"
)

// NewGroup asks for a group.
type NewGroup struct {
	Name    string
	GID     *farm.ID // nil = choose
	Members []string // users; stored sorted, each once
}

// JoinGroups adds a user to groups; all other memberships stay. It returns the groups' names,
// sorted and each once. Kinds of error: Invalid; NotFound for the user, or for groups, and then
// nothing is changed; Internal.
func (s *Service) JoinGroups(ctx context.Context, user string, groups []string) ([]string, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if err := checkPossible("user", user); err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, farm.Errorf(farm.Invalid, "'groups' list is required")
	}
	for _, group := range groups {
		if err := checkPossible("group", group); err != nil {
			return nil, err
		}
	}
	lock, err := s.lockUser(ctx, farm.UserName(user))
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	err = s.opts.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		if err := stillLocked(lock); err != nil {
			return err
		}
		return join(tx, user, groups)
	})
	if err != nil {
		return nil, failure(err)
	}
	names := slices.Sorted(slices.Values(groups))
	return slices.Compact(names), nil
}

func join(tx *ledger.Tx, user string, groups []string) error {
	account, err := findUser(tx.View(), user)
	if err != nil {
		return err
	}
	if account.IsBase() {
		return farm.Errorf(farm.Invalid, "cannot change %s: it is a base account", account.Name)
	}
	found, err := findGroups(tx.View(), groups)
	if err != nil {
		return err
	}
	var names []farm.GroupName
	for _, group := range found {
		if group.IsBase() {
			return farm.Errorf(farm.Invalid, "cannot join group %s: it is a base group", group.Name)
		}
		if group.GID != account.GID {
			names = append(names, group.Name)
		}
	}
	tx.AddMember(account.Name, names...)
	return nil
}

// findGroups finds all groups or tells which are missing. A missing name that breaks the rule for
// names is Invalid.
func findGroups(view *ledger.View, names []string) ([]farm.Group, error) {
	var found []farm.Group
	var missing []string
	for _, name := range names {
		group, ok := view.Group(farm.GroupName(name))
		if ok {
			found = append(found, group)
			continue
		}
		if err := checkNew("group", name); err != nil {
			return nil, err
		}
		if !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, farm.Errorf(farm.NotFound, "groups not found: %s", strings.Join(missing, ", "))
	}
	return found, nil
}

// CreateGroup makes a group. Kinds of error: Invalid; Conflict if the name or the number is taken;
// Internal.
func (s *Service) CreateGroup(ctx context.Context, group NewGroup) (farm.GroupRef, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	if err := checkNew("group", group.Name); err != nil {
		return farm.GroupRef{}, err
	}
	var made farm.GroupRef
	err := s.opts.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		ref, err := s.planGroup(tx, group)
		if err != nil {
			return err
		}
		members, err := findMembers(tx.View(), group.Members)
		if err != nil {
			return err
		}
		tx.AddGroup(farm.Group{Name: ref.Name, GID: ref.GID, Members: members})
		made = ref
		return nil
	})
	if err != nil {
		return farm.GroupRef{}, failure(err)
	}
	return made, nil
}

// planGroup checks the new group's name and number, or chooses the number.
func (s *Service) planGroup(tx *ledger.Tx, group NewGroup) (farm.GroupRef, error) {
	name := farm.GroupName(group.Name)
	if groupNameTaken(tx, name) {
		return farm.GroupRef{}, farm.Errorf(farm.Conflict, "group already exists (name: %s)", name)
	}
	if group.GID == nil {
		if err := s.checkFree("group", group.Name); err != nil {
			return farm.GroupRef{}, err
		}
		gid, err := tx.NextGID()
		return farm.GroupRef{Name: name, GID: gid}, err
	}
	gid := *group.GID
	retired, same := tx.RetiredFor(gid, group.Name)
	if tx.UsedInFiles(gid, "") || reservedNumber(tx.Entries(), gid) || retired && !same {
		return farm.GroupRef{}, farm.Errorf(farm.Conflict, "group already exists (gid: %d)", gid)
	}
	if err := gid.CheckBand(); err != nil {
		return farm.GroupRef{}, farm.Errorf(farm.Invalid, "invalid gid: %v", err)
	}
	return farm.GroupRef{Name: name, GID: gid}, s.checkFree("group", group.Name)
}

// groupNameTaken: a group or a user has the name, or an account in the making will.
func groupNameTaken(tx *ledger.Tx, name farm.GroupName) bool {
	if _, ok := tx.View().Group(name); ok {
		return true
	}
	if _, ok := tx.View().User(farm.UserName(name)); ok {
		return true
	}
	return checkNotReserved(tx.Entries(), name) != nil
}

// findMembers checks the members of a new group and sorts them.
func findMembers(view *ledger.View, names []string) ([]farm.UserName, error) {
	var members []farm.UserName
	var missing, base []string
	for _, name := range names {
		account, ok := view.User(farm.UserName(name))
		switch {
		case !ok && !slices.Contains(missing, name):
			missing = append(missing, name)
		case ok && account.IsBase():
			base = append(base, name)
		case ok:
			members = append(members, account.Name)
		}
	}
	if len(missing) > 0 {
		return nil, farm.Errorf(farm.Invalid, "invalid members (users not found): %s", strings.Join(missing, ", "))
	}
	if len(base) > 0 {
		return nil, farm.Errorf(farm.Invalid, "invalid members (base accounts): %s", strings.Join(base, ", "))
	}
	slices.Sort(members)
	return slices.Compact(members), nil
}

// DeleteGroup removes a group and retires its number. Kinds of error: Invalid for base groups, for
// the primary group of a user and for names that cannot exist; NotFound; Internal.
func (s *Service) DeleteGroup(ctx context.Context, name string) (farm.GroupRef, error) {
	if err := checkPossible("group", name); err != nil {
		return farm.GroupRef{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.opts.Budget)
	defer cancel()
	var gone farm.GroupRef
	err := s.opts.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		lines, err := deletable(tx.View(), name)
		if err != nil {
			return err
		}
		removeGroup(tx, lines)
		gone = farm.GroupRef{Name: lines[0].Name, GID: lines[0].GID}
		return nil
	})
	if err != nil {
		return farm.GroupRef{}, failure(err)
	}
	return gone, nil
}

// linesOf lists the lines of a group. There is one, but for files that were written by hand: a name
// that stands there twice has two numbers, and what removes the name removes both.
func linesOf(view *ledger.View, name farm.GroupName) []farm.Group {
	var lines []farm.Group
	for _, group := range view.Groups() {
		if group.Name == name {
			lines = append(lines, group)
		}
	}
	return lines
}

// removeGroup takes out all lines of one group and retires their numbers.
func removeGroup(tx *ledger.Tx, lines []farm.Group) {
	tx.RemoveGroup(lines[0].Name)
	for _, line := range lines {
		tx.Retire(ledger.GID, line.GID, string(line.Name))
	}
}

// deletable returns the lines of a group that may be removed.
func deletable(view *ledger.View, name string) ([]farm.Group, error) {
	lines := linesOf(view, farm.GroupName(name))
	if len(lines) == 0 {
		if err := checkNew("group", name); err != nil {
			return nil, err
		}
		return nil, farm.Errorf(farm.NotFound, "group not found")
	}
	for _, line := range lines {
		if line.IsBase() {
			return nil, farm.Errorf(farm.Invalid, "Cannot delete group %s: it is a base group", name)
		}
		if users := view.PrimaryUsers(line.GID); len(users) > 0 {
			names := make([]string, len(users))
			for i, user := range users {
				names[i] = string(user)
			}
			return nil, farm.Errorf(farm.Invalid, "Cannot delete group %s: it is the primary group for users: %s", name, strings.Join(names, ", "))
		}
	}
	return lines, nil
}
