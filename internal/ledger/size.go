package ledger

// Size is how big the account files are.
type Size struct {
	Users, Groups         int   // lines that are understood, those of the base system included
	Passwd, Group, Shadow int64 // bytes; 0 = the share is fresh
}

// LastSize is the size of the account files when they were last read; false if they never were. It
// does no I/O, so it answers even while the share hangs.
func (l *Ledger) LastSize() (Size, bool) {
	if size := l.cache.size.Load(); size != nil {
		return *size, true
	}
	return Size{}, false
}

func sizeOf(view *View) *Size {
	return &Size{
		Users: len(view.passwd.users), Groups: len(view.group.groups),
		Passwd: view.state.passwd.Size, Group: view.state.group.Size, Shadow: view.state.shadow.Size,
	}
}
