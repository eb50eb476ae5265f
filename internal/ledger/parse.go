package ledger

import (
	"slices"
	"strconv"
	"strings"

	"config-server/internal/farm"
)

// parseAccount reads a passwd(5) line. It understands only what libc would: seven fields, a name
// that can stand in the ledger, decimal numbers. Everything else is somebody else's and stays as
// it is.
func parseAccount(line string) (farm.Account, bool) {
	var field [7]string
	if !split(line, field[:]) || !isName(field[0]) {
		return farm.Account{}, false
	}
	uid, okUID := parseID(field[2])
	gid, okGID := parseID(field[3])
	if !okUID || !okGID {
		return farm.Account{}, false
	}
	return farm.Account{
		Name: farm.UserName(field[0]), UID: uid, GID: gid,
		Gecos: field[4], Home: field[5], Shell: field[6],
	}, true
}

func formatAccount(a farm.Account) string {
	return strings.Join([]string{
		string(a.Name), "x", formatID(a.UID), formatID(a.GID), a.Gecos, a.Home, a.Shell,
	}, ":")
}

// parseGroup reads a group(5) line under the same rules: four fields.
func parseGroup(line string) (farm.Group, bool) {
	var field [4]string
	if !split(line, field[:]) || !isName(field[0]) {
		return farm.Group{}, false
	}
	gid, ok := parseID(field[2])
	if !ok {
		return farm.Group{}, false
	}
	return farm.Group{Name: farm.GroupName(field[0]), GID: gid, Members: parseMembers(field[3])}, true
}

func formatGroup(g farm.Group) string {
	return string(g.Name) + ":x:" + formatID(g.GID) + ":" + joinMembers(g.Members)
}

// parseMembers splits a member list. Empty members are none.
func parseMembers(list string) []farm.UserName {
	if list == "" {
		return nil
	}
	members := make([]farm.UserName, 0, strings.Count(list, ",")+1)
	for member := range strings.SplitSeq(list, ",") {
		if member = strings.TrimSpace(member); member != "" {
			members = append(members, farm.UserName(member))
		}
	}
	return members
}

func joinMembers(members []farm.UserName) string {
	var b strings.Builder
	for i, member := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(string(member))
	}
	return b.String()
}

// withMember adds a member to a group line. A list that is in order stays in order; any other
// gets the member at its end. The line is returned as it is if the member stands in it already.
func withMember(line string, user farm.UserName) string {
	at := strings.LastIndexByte(line, ':') + 1
	list := line[at:]
	members := parseMembers(list)
	switch {
	case slices.Contains(members, user):
		return line
	case strings.TrimSpace(list) == "":
		return line[:at] + string(user)
	case slices.IsSorted(members) && joinMembers(members) == list:
		i, _ := slices.BinarySearch(members, user)
		return line[:at] + joinMembers(slices.Insert(members, i, user))
	}
	return strings.TrimSuffix(line, ",") + "," + string(user)
}

// withoutMember takes a member out of a group line, however often it stands there. All other
// members keep their bytes.
func withoutMember(line string, user farm.UserName) string {
	if !strings.Contains(line, string(user)) {
		return line
	}
	at := strings.LastIndexByte(line, ':') + 1
	parts := strings.Split(line[at:], ",")
	kept := slices.DeleteFunc(parts, func(part string) bool { return strings.TrimSpace(part) == string(user) })
	return line[:at] + strings.Join(kept, ",")
}

// split cuts a line into exactly len(field) fields.
func split(line string, field []string) bool {
	for i := range len(field) - 1 {
		at := strings.IndexByte(line, ':')
		if at < 0 {
			return false
		}
		field[i], line = line[:at], line[at+1:]
	}
	field[len(field)-1] = line
	return strings.IndexByte(line, ':') < 0
}

// isName reports whether the first field of a line is a name that anybody can ask for. Comments
// and the + lines of NIS are none.
func isName(name string) bool {
	if name == "" || name[0] == '#' || name[0] == '+' {
		return false
	}
	for i := range len(name) {
		c := name[i]
		plain := c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c == '_' || c == '-'
		if !plain {
			return farm.CheckPossible(name) == nil
		}
	}
	return len(name) <= 255
}

// parseID reads a decimal number of at most 32 bits, digits only.
func parseID(text string) (farm.ID, bool) {
	if text == "" || len(text) > 10 {
		return 0, false
	}
	var n farm.ID
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = n*10 + farm.ID(digit)
	}
	return n, n <= 1<<32-1
}

func formatID(id farm.ID) string { return strconv.FormatInt(int64(id), 10) }

// oddNumbers collects the numbers of a line that is not understood, comments included: they were
// given once, so nobody else gets them. Index is where the fields with numbers stand.
func oddNumbers(ids []farm.ID, line string, index ...int) []farm.ID {
	fields := strings.Split(line, ":")
	for _, i := range index {
		if i >= len(fields) {
			return ids
		}
		if id, ok := parseID(strings.TrimSpace(fields[i])); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
