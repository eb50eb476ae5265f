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
	byName firstOf[farm.UserName]
	odd    []farm.ID // numbers in lines that are not understood
	// extended: another index has put its lines behind these, into the same memory.
	extended bool
}

// groupIndex is group, parsed.
type groupIndex struct {
	text     string
	groups   []farm.Group
	byName   firstOf[farm.GroupName]
	byGID    firstOf[farm.ID]
	odd      []farm.ID
	memberOf func() map[farm.UserName][]int
	extended bool
}

// firstOf finds the first line of a key. Its keys stand in two maps, so that one more costs no copy
// of all others.
type firstOf[K comparable] struct {
	many map[K]int // shared between the indexes of successive texts, never changed after the first
	few  map[K]int // this index's own
}

// mostFew is how many keys are copied for each new text before they go to the others.
const mostFew = 200

func (f firstOf[K]) find(key K) (int, bool) {
	if i, ok := f.many[key]; ok {
		return i, true
	}
	i, ok := f.few[key]
	return i, ok
}

// add keeps the line that is known already.
func (f firstOf[K]) add(key K, line int) {
	if _, twice := f.find(key); !twice {
		f.few[key] = line
	}
}

// shared lays the keys where later indexes find them without a copy.
func (f firstOf[K]) shared() firstOf[K] { return firstOf[K]{many: f.few, few: map[K]int{}} }

// own is a copy to which keys can be added.
func (f firstOf[K]) own() firstOf[K] {
	if len(f.few) < mostFew {
		few := make(map[K]int, len(f.few)+1)
		maps.Copy(few, f.few)
		return firstOf[K]{many: f.many, few: few}
	}
	many := make(map[K]int, len(f.many)+len(f.few))
	maps.Copy(many, f.many)
	maps.Copy(many, f.few)
	return firstOf[K]{many: many, few: map[K]int{}}
}

func indexPasswd(text string) *passwdIndex {
	n := strings.Count(text, "\n") + 1
	x := &passwdIndex{text: text, users: make([]farm.Account, 0, n), byName: firstOf[farm.UserName]{few: make(map[farm.UserName]int, n)}}
	x.add(text)
	x.byName = x.byName.shared()
	return x
}

func (x *passwdIndex) add(text string) {
	for line := range lines(text) {
		account, ok := parseAccount(line)
		if !ok {
			x.odd = oddNumbers(x.odd, line, 2, 3)
			continue
		}
		x.byName.add(account.Name, len(x.users))
		x.users = append(x.users, account)
	}
}

// of is the index of another text. If that only has more lines at its end, as after a new account,
// the others are not parsed again; what x shows stays as it is, for those who still read it. One
// caller at a time.
func (x *passwdIndex) of(text string) *passwdIndex {
	more, ok := addedLines(x.text, text)
	if !ok {
		return indexPasswd(text)
	}
	grown := &passwdIndex{text: text, users: x.users, byName: x.byName.own(), odd: slices.Clip(x.odd)}
	if x.extended {
		grown.users = slices.Clip(x.users) // the memory behind them is another's
	}
	x.extended = true
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
		byName: firstOf[farm.GroupName]{few: make(map[farm.GroupName]int, n)}, byGID: firstOf[farm.ID]{few: make(map[farm.ID]int, n)},
	}
	x.add(text)
	x.byName, x.byGID = x.byName.shared(), x.byGID.shared()
	return x
}

func (x *groupIndex) add(text string) {
	for line := range lines(text) {
		group, ok := parseGroup(line)
		if !ok {
			x.odd = oddNumbers(x.odd, line, 2)
			continue
		}
		x.byName.add(group.Name, len(x.groups))
		x.byGID.add(group.GID, len(x.groups))
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
	grown := &groupIndex{text: text, groups: x.groups, byName: x.byName.own(), byGID: x.byGID.own(), odd: slices.Clip(x.odd)}
	if x.extended {
		grown.groups = slices.Clip(x.groups)
	}
	x.extended = true
	grown.add(more)
	return grown
}

// Users lists the accounts in file order, those of the base system included.
func (v *View) Users() []farm.Account { return v.passwd.users }

// User finds an account by name. Of several lines with one name the first counts, as for libc.
func (v *View) User(name farm.UserName) (farm.Account, bool) {
	i, ok := v.passwd.byName.find(name)
	if !ok {
		return farm.Account{}, false
	}
	return v.passwd.users[i], true
}

// Groups lists the groups in file order.
func (v *View) Groups() []farm.Group { return v.group.groups }

// Group finds a group by name.
func (v *View) Group(name farm.GroupName) (farm.Group, bool) {
	i, ok := v.group.byName.find(name)
	if !ok {
		return farm.Group{}, false
	}
	return v.group.groups[i], true
}

// GroupByGID finds a group by number. Of several lines with one number the first counts.
func (v *View) GroupByGID(id farm.ID) (farm.Group, bool) {
	i, ok := v.group.byGID.find(id)
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
	if i, ok := v.group.byGID.find(account.GID); ok {
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
