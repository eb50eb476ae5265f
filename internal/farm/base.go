package farm

// The accounts of the base system: what a fresh share is seeded with. Whoever bears one of these
// names, or a number below MinOrdinaryID, or 65534, belongs to the system and not to the farm.
var (
	baseUsers = nameSet[UserName](
		"root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy",
		"www-data", "backup", "list", "irc", "_apt", "nobody",
		"systemd-network", "systemd-timesync", "messagebus", "polkitd")
	baseGroups = nameSet[GroupName](
		"root", "daemon", "bin", "sys", "adm", "tty", "disk", "lp", "mail", "news", "uucp", "man", "proxy",
		"kmem", "dialout", "fax", "voice", "cdrom", "floppy", "tape", "sudo", "audio", "dip", "www-data",
		"backup", "operator", "list", "irc", "src", "shadow", "utmp", "video", "sasl", "plugdev", "staff",
		"games", "users", "nogroup",
		"systemd-journal", "systemd-network", "systemd-timesync", "messagebus", "ssl-cert", "polkitd")
)

// IsBaseName reports whether a user or a group of the base system bears this name. Nothing new may
// take such a name, whether or not it stands in the ledger.
func IsBaseName(name string) bool {
	return baseUsers[UserName(name)] || baseGroups[GroupName(name)]
}

// IsBase reports whether the account belongs to the base system: it is never removed, changed,
// joined to a group or given a pod.
func (a Account) IsBase() bool { return baseUsers[a.Name] || a.UID.IsBase() }

// IsBase reports whether the group belongs to the base system: it is never removed, changed or joined.
func (g Group) IsBase() bool { return baseGroups[g.Name] || g.GID.IsBase() }

func nameSet[N ~string](names ...N) map[N]bool {
	set := make(map[N]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}
