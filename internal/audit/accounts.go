package audit

import (
	"fmt"
	"slices"
	"strings"

	"config-server/internal/farm"
)

// accounts compares passwd with shadow, sudoers.d and the groups' members, in both directions.
func (c *comparison) accounts() {
	for _, d := range c.Damaged {
		c.add(DamagedLine, fmt.Sprintf("%s:%d", d.File, d.Line), "", c.Places.showLine(d), "the line is kept as it is and counts for nothing")
	}
	c.doubles("passwd", namesOf(c.Accounts, func(a farm.Account) string { return string(a.Name) }))
	c.doubles("group", namesOf(c.Groups, func(g farm.Group) string { return string(g.Name) }))
	c.doubles("shadow", c.Shadow)

	shadow := setOf(c.Shadow)
	for _, a := range c.Accounts {
		if a.IsBase() || c.settling[a.Name] {
			continue
		}
		if !shadow[string(a.Name)] {
			c.add(NoShadow, string(a.Name), a.Name, c.Places.newPassword(string(a.Name)), "no line in shadow: nobody can log in with a password")
		}
		if _, exists := c.byGID[a.GID]; !exists {
			line := fmt.Sprintf(`printf '%%s:x:%%d:\n' %s %d`, quote(string(a.Name)), a.GID)
			c.add(NoPrimaryGroup, string(a.Name), a.Name, c.Places.appendMissing("group", string(a.Name), line), "no group has its gid %d", a.GID)
		}
	}
	for name := range setOf(c.Shadow) {
		if c.isNobody(name) {
			c.add(ShadowOfNobody, name, farm.UserName(name), c.Places.dropLine("shadow", name), "a line in shadow without one in passwd")
		}
	}
	if !c.has(PartSudoers) {
		return
	}
	for _, name := range c.Sudoers {
		// sudo itself passes over names with a dot or a ~ at the end.
		if c.isNobody(name) && name != "README" && !strings.Contains(name, ".") && !strings.HasSuffix(name, "~") {
			c.add(SudoersOfNobody, name, farm.UserName(name), c.Places.askToRemovePolicy(name), "a sudo policy without an account: whoever gets the name gets the policy")
		}
	}
}

// isNobody tells whether a name is no account's, now or in the making.
func (c *comparison) isNobody(name string) bool {
	_, exists := c.account[farm.UserName(name)]
	return !exists && !c.settling[farm.UserName(name)]
}

func (c *comparison) doubles(file string, names []string) {
	count := map[string]int{}
	for _, name := range names {
		count[name]++
	}
	for name, n := range count {
		if n < 2 {
			continue
		}
		remedy := c.Places.linesOf(name, file)
		if file == "shadow" {
			remedy += " | cut -d: -f1,2,4-"
		}
		c.add(DuplicateName, file+" "+name, "", remedy, "%d lines: programs use the first, this service edits all", n)
	}
}

// numbers looks for numbers with more than one owner, now or before.
func (c *comparison) numbers() {
	users := map[farm.ID][]string{}
	for _, a := range c.Accounts {
		if !a.IsBase() && !slices.Contains(users[a.UID], string(a.Name)) {
			users[a.UID] = append(users[a.UID], string(a.Name))
		}
	}
	groups := map[farm.ID][]string{}
	for _, g := range c.Groups {
		if !g.IsBase() && !slices.Contains(groups[g.GID], string(g.Name)) {
			groups[g.GID] = append(groups[g.GID], string(g.Name))
		}
	}
	for id, names := range users {
		if len(names) > 1 {
			c.add(DuplicateNumber, fmt.Sprintf("uid %d", id), "", c.Places.withNumber(id), "accounts %s own each other's files", strings.Join(names, ", "))
		}
	}
	for id, names := range groups {
		if len(names) > 1 {
			c.add(DuplicateNumber, fmt.Sprintf("gid %d", id), "", c.Places.withNumber(id), "groups %s are one for the kernel", strings.Join(names, ", "))
		}
	}
	for _, a := range c.Accounts {
		if !a.IsBase() && !c.settling[a.Name] {
			c.primary(a)
		}
	}
	if c.has(PartRetired) {
		c.retired(users, groups)
	}
}

// primary looks whether an account's primary group lets it into what is others'.
func (c *comparison) primary(a farm.Account) {
	if other, taken := c.byGID[a.UID]; taken && a.GID != a.UID {
		c.add(DuplicateNumber, fmt.Sprintf("id %d", a.UID), a.Name, c.Places.withNumber(a.UID), "uid of account %s and gid of group %s, which is not its own", a.Name, other.Name)
	}
	group, exists := c.byGID[a.GID]
	if !exists || string(group.Name) == string(a.Name) {
		return
	}
	var others []string
	for _, member := range group.Members {
		if member != a.Name {
			others = append(others, string(member))
		}
	}
	for _, b := range c.Accounts {
		if b.GID == a.GID && b.Name != a.Name {
			others = append(others, string(b.Name))
		}
	}
	if len(others) > 0 {
		c.add(SharedPrimary, string(a.Name), a.Name, c.Places.withNumber(a.GID), "its primary group %s (gid %d) has others in it: %s", group.Name, a.GID, strings.Join(others, ", "))
	}
}

func (c *comparison) retired(users, groups map[farm.ID][]string) {
	for _, r := range c.Retired {
		for _, name := range append(slices.Clone(users[r.ID]), groups[r.ID]...) {
			if name != r.Name && !c.settling[farm.UserName(name)] {
				c.add(RetiredNumber, fmt.Sprintf("id %d", r.ID), "", c.Places.withNumber(r.ID), "it was %s's and is %s's now: files that %s left are %s's", r.Name, name, r.Name, name)
			}
		}
	}
}

// groups looks for members that are no accounts.
func (c *comparison) groups() {
	for _, g := range c.Groups {
		for member := range setOf(g.Members) {
			if c.isNobody(string(member)) {
				c.add(MemberOfNothing, string(g.Name), member, c.Places.withoutMember(string(g.Name), string(member)), "its member %s is no account", member)
			}
		}
	}
}

// homes compares accounts with the folder of homes, in both directions.
func (c *comparison) homes() {
	if !c.has(PartHomes) {
		return
	}
	for _, a := range c.Accounts {
		if a.IsBase() || c.settling[a.Name] || !strings.HasPrefix(a.Home, "/home/") {
			continue
		}
		owner, exists := c.Homes[string(a.Name)]
		switch {
		case exists && owner == 0:
			c.add(ForeignHome, string(a.Name), a.Name, c.Places.giveHome(a), "it belongs to root and not to uid %d; the command gives it over if it is empty", a.UID)
		case exists && owner != a.UID:
			c.add(ForeignHome, string(a.Name), a.Name, c.Places.showHome(string(a.Name)), "it belongs to uid %d and not to uid %d", owner, a.UID)
		case !exists && a.Name.Commandable():
			// Other names never had a home made by this service, and a hidden one is not listed.
			c.add(NoHome, string(a.Name), a.Name, c.Places.makeHome(a), "it has no home on the NAS")
		}
	}
	for name, owner := range c.Homes {
		// What cannot be a user's command argument is something of the NAS, such as #recycle.
		if user := farm.UserName(name); user.Commandable() && c.isNobody(name) {
			c.add(HomeOfNobody, name, "", c.Places.askToRemoveHome(name), "no account of this name; it belongs to uid %d%s", owner, c.whose(owner, name))
		}
	}
}

// whose tells what is known of the owner of a home without an account.
func (c *comparison) whose(owner farm.ID, name string) string {
	for _, a := range c.Accounts {
		if a.UID == owner {
			return fmt.Sprintf(", which is account %s", a.Name)
		}
	}
	had := false
	var others []string
	for _, r := range c.Retired {
		switch {
		case r.ID != owner:
		case r.Name != name:
			others = append(others, r.Name)
		default:
			had = had || !r.Group
		}
	}
	// As PUT /accounts/users decides: a number that was anybody else's too, or is a group's, goes to nobody.
	group, taken := c.byGID[owner]
	switch {
	case !had:
		return ""
	case len(others) > 0:
		slices.Sort(others)
		return fmt.Sprintf(", which was %s's and also %s's: PUT /accounts/users does not take it up", name, strings.Join(slices.Compact(others), ", "))
	case taken && string(group.Name) != name:
		return fmt.Sprintf(", which was %s's and is the number of group %s: PUT /accounts/users does not take it up", name, group.Name)
	}
	return fmt.Sprintf(", which was %s's: PUT /accounts/users takes it up again", name)
}

func namesOf[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = name(one)
	}
	return names
}

func setOf[N ~string](names []N) map[N]bool {
	set := make(map[N]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}
