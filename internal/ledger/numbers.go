package ledger

import (
	"errors"
	"slices"
	"strings"

	"config-server/internal/farm"
)

// ErrNumbersExhausted: no number of the band is left.
var ErrNumbersExhausted = errors.New("no free number is left in 20000..2000000000")

// UsedInFiles tells whether a line of passwd or group has this number now, understood or not, as
// uid, primary gid or group. Lines of the group except do not count; empty = all do.
func (t *Tx) UsedInFiles(id farm.ID, except farm.GroupName) bool {
	for i := range t.view.passwd.users {
		if t.view.passwd.users[i].UID == id || t.view.passwd.users[i].GID == id {
			return true
		}
	}
	for i := range t.view.group.groups {
		if t.view.group.groups[i].GID == id && t.view.group.groups[i].Name != except {
			return true
		}
	}
	return slices.Contains(t.view.passwd.odd, id) || slices.Contains(t.view.group.odd, id)
}

// Retirements lists who had this number before. It is empty for a number that was never retired.
func (t *Tx) Retirements(id farm.ID) []Retirement { return t.retired.byID[id] }

// RetiredFor tells whether the number is retired, and if so whether only names equal to name had
// it: then it may be given to that name again.
func (t *Tx) RetiredFor(id farm.ID, name string) (retired, same bool) {
	who := t.retired.byID[id]
	return len(who) > 0, !slices.ContainsFunc(who, func(r Retirement) bool { return r.Name != name })
}

// NextUID chooses the number of a new account: one above the highest ever given to an account of
// the farm, and never one that anything uses or used, or that avoid names. It returns
// ErrNumbersExhausted if there is none.
func (t *Tx) NextUID(avoid ...farm.ID) (farm.ID, error) {
	highest := t.retired.highestUID
	for _, account := range t.view.passwd.users {
		if account.UID.InBand() && strings.HasPrefix(account.Home, "/home/") {
			highest = max(highest, account.UID)
		}
	}
	return t.next(highest, avoid)
}

// NextGID chooses the number of a new group in the same way: one above the highest ever in the
// group file.
func (t *Tx) NextGID(avoid ...farm.ID) (farm.ID, error) {
	highest := t.retired.highestGID
	for _, group := range t.view.group.groups {
		if group.GID.InBand() {
			highest = max(highest, group.GID)
		}
	}
	return t.next(highest, avoid)
}

func (t *Tx) next(highest farm.ID, avoid []farm.ID) (farm.ID, error) {
	candidate := max(highest+1, farm.MinID)
	// Few numbers lie above the highest one given, so that there is little to sort in a big ledger.
	for _, id := range t.taken(candidate, avoid) {
		if id > candidate {
			break
		}
		candidate = id + 1
	}
	if candidate <= farm.MaxID {
		return candidate, nil
	}
	return below(t.taken(farm.MinID, avoid))
}

// taken lists the numbers from min on that may not be given, ascending, some of them repeatedly.
func (t *Tx) taken(min farm.ID, avoid []farm.ID) []farm.ID {
	ids := t.used(min)
	add := func(id farm.ID) {
		if id >= min {
			ids = append(ids, id)
		}
	}
	for _, id := range avoid {
		add(id)
	}
	add(farm.NobodyID)
	add(farm.OverflowID)
	for id := range t.retired.byID {
		add(id)
	}
	slices.Sort(ids)
	return ids
}

// below finds a number when the top of the band is taken, as one group with a number near it is
// enough to bring about: the first free one above the highest number that has a free one above it.
func below(taken []farm.ID) (farm.ID, error) {
	above := farm.MaxID + 1
	for _, id := range slices.Backward(taken) {
		if id > farm.MaxID {
			continue
		}
		if id < farm.MinID {
			break
		}
		if id+1 < above && id != farm.OverflowID {
			return id + 1, nil
		}
		above = id
	}
	if above > farm.MinID {
		return farm.MinID, nil
	}
	return 0, ErrNumbersExhausted
}

// used lists all numbers from min on that anything has now, in no order and with repetitions.
func (t *Tx) used(min farm.ID) []farm.ID {
	var ids []farm.ID
	add := func(id farm.ID) {
		if id >= min {
			ids = append(ids, id)
		}
	}
	for i := range t.view.passwd.users {
		add(t.view.passwd.users[i].UID)
		add(t.view.passwd.users[i].GID)
	}
	for i := range t.view.group.groups {
		add(t.view.group.groups[i].GID)
	}
	for _, id := range t.view.passwd.odd {
		add(id)
	}
	for _, id := range t.view.group.odd {
		add(id)
	}
	for _, entry := range t.entries {
		add(entry.UID)
		for _, group := range entry.Groups {
			add(group.GID)
		}
	}
	return ids
}
