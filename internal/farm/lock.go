package farm

// Lock is a named lock that its holder has taken. Who keeps locks (files, a database) is the
// affair of an adapter; those who need one declare their own small Locker over this type.
type Lock interface {
	// Unlock gives the lock back. It may be called more than once.
	Unlock()
	// Err is non-nil once the lock was lost while it was held, for example because the connection
	// that kept it broke. A holder looks before it writes what the lock protects.
	Err() error
}

// UserLock is the name of the lock that every call on one user holds from its beginning to its end,
// undo included: PUT, DELETE, groups, create-pod, delete-pod and migrate cross one at a time.
func UserLock(user UserName) string { return "user/" + string(user) }
