package ledger

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"config-server/internal/farm"
)

// View is a consistent picture of passwd and group: both come from the same state of the share. It
// never changes; what it returns is shared and must not be changed either.
type View struct {
	passwd *passwdIndex
	group  *groupIndex
	state  state
	fresh  bool // the share is not seeded yet; the view shows what it will be seeded with
	memo   *memo
}

// passwdIndex is passwd, parsed.
type passwdIndex struct {
	text   string
	users  []farm.Account
	byName map[farm.UserName]int
	odd    []farm.ID // numbers in lines that are not understood
}

// groupIndex is group, parsed.
type groupIndex struct {
	text     string
	groups   []farm.Group
	byName   map[farm.GroupName]int
	byGID    map[farm.ID]int
	odd      []farm.ID
	memberOf func() map[farm.UserName][]int
}

func indexPasswd(text string) *passwdIndex {
	n := strings.Count(text, "\n") + 1
	x := &passwdIndex{text: text, users: make([]farm.Account, 0, n), byName: make(map[farm.UserName]int, n)}
	x.add(text)
	return x
}

func (x *passwdIndex) add(text string) {
	for line := range lines(text) {
		account, ok := parseAccount(line)
		if !ok {
			x.odd = oddNumbers(x.odd, line, 2, 3)
			continue
		}
		if _, twice := x.byName[account.Name]; !twice {
			x.byName[account.Name] = len(x.users)
		}
		x.users = append(x.users, account)
	}
}

// of is the index of another text. If that only has more lines at its end, as after a new account,
// the others are not parsed again; x itself stays as it is, for those who still read it.
func (x *passwdIndex) of(text string) *passwdIndex {
	more, ok := addedLines(x.text, text)
	if !ok {
		return indexPasswd(text)
	}
	grown := &passwdIndex{text: text, users: slices.Clip(x.users), byName: maps.Clone(x.byName), odd: slices.Clip(x.odd)}
	grown.add(more)
	return grown
}

// addedLines is what new has behind the lines of old. It is a copy, so that an index which grows line
// by line does not hold the whole text of each of its states.
func addedLines(old, new string) (string, bool) {
	if !strings.HasSuffix(old, "\n") || !strings.HasPrefix(new, old) {
		return "", false
	}
	return strings.Clone(new[len(old):]), true
}

func indexGroup(text string) *groupIndex {
	n := strings.Count(text, "\n") + 1
	x := &groupIndex{
		text: text, groups: make([]farm.Group, 0, n),
		byName: make(map[farm.GroupName]int, n), byGID: make(map[farm.ID]int, n),
	}
	x.add(text)
	return x
}

func (x *groupIndex) add(text string) {
	for line := range lines(text) {
		group, ok := parseGroup(line)
		if !ok {
			x.odd = oddNumbers(x.odd, line, 2)
			continue
		}
		if _, twice := x.byName[group.Name]; !twice {
			x.byName[group.Name] = len(x.groups)
		}
		if _, twice := x.byGID[group.GID]; !twice {
			x.byGID[group.GID] = len(x.groups)
		}
		x.groups = append(x.groups, group)
	}
	// Only the groups of a user need this index, so it is made when somebody asks.
	x.memberOf = sync.OnceValue(func() map[farm.UserName][]int {
		of := map[farm.UserName][]int{}
		for i, group := range x.groups {
			for _, member := range group.Members {
				of[member] = append(of[member], i)
			}
		}
		return of
	})
}

// of is the index of another text, like passwdIndex.of.
func (x *groupIndex) of(text string) *groupIndex {
	more, ok := addedLines(x.text, text)
	if !ok {
		return indexGroup(text)
	}
	grown := &groupIndex{
		text: text, groups: slices.Clip(x.groups),
		byName: maps.Clone(x.byName), byGID: maps.Clone(x.byGID), odd: slices.Clip(x.odd),
	}
	grown.add(more)
	return grown
}

// Users lists the accounts in file order, those of the base system included.
func (v *View) Users() []farm.Account { return v.passwd.users }

// User finds an account by name. Of several lines with one name the first counts, as for libc.
func (v *View) User(name farm.UserName) (farm.Account, bool) {
	i, ok := v.passwd.byName[name]
	if !ok {
		return farm.Account{}, false
	}
	return v.passwd.users[i], true
}

// Groups lists the groups in file order.
func (v *View) Groups() []farm.Group { return v.group.groups }

// Group finds a group by name.
func (v *View) Group(name farm.GroupName) (farm.Group, bool) {
	i, ok := v.group.byName[name]
	if !ok {
		return farm.Group{}, false
	}
	return v.group.groups[i], true
}

// GroupByGID finds a group by number. Of several lines with one number the first counts.
func (v *View) GroupByGID(id farm.ID) (farm.Group, bool) {
	i, ok := v.group.byGID[id]
	if !ok {
		return farm.Group{}, false
	}
	return v.group.groups[i], true
}

// GroupsOf lists the groups that a user is in, in file order and each once: those that list the
// user, and the primary one if it stands in the file. An unknown user is in none.
func (v *View) GroupsOf(name farm.UserName) []farm.Group {
	account, ok := v.User(name)
	if !ok {
		return nil
	}
	at := slices.Clone(v.group.memberOf()[name])
	if i, ok := v.group.byGID[account.GID]; ok {
		at = append(at, i)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	groups := make([]farm.Group, len(at))
	for i, index := range at {
		groups[i] = v.group.groups[index]
	}
	return groups
}

// PrimaryUsers lists the accounts whose primary group has this number, in file order.
func (v *View) PrimaryUsers(gid farm.ID) []farm.UserName {
	var names []farm.UserName
	for _, account := range v.passwd.users {
		if account.GID == gid {
			names = append(names, account.Name)
		}
	}
	return names
}

// Version is the same for as long as passwd and group are unchanged, and never the same for two
// different contents. It is fit for an ETag.
func (v *View) Version() string { return v.state.version() }

// Memo returns what build made for this key and this view, once: the place for encoded lists. A
// view that is replaced takes its memos with it.
func (v *View) Memo(key string, build func() any) any {
	v.memo.mu.Lock()
	defer v.memo.mu.Unlock()
	if value, ok := v.memo.values[key]; ok {
		return value
	}
	value := build()
	v.memo.values[key] = value
	return value
}

type memo struct {
	mu     sync.Mutex
	values map[string]any
}

func newMemo() *memo { return &memo{values: map[string]any{}} }
