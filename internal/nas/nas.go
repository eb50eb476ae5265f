// Package nas makes, looks at and removes home directories on the NAS.
//
// The NAS allows four commands with sudo (mkdir -p, chown, chmod 700, rm -rf) and is asked with
// three more without it (stat -c %u, ls -A, ls -n). Every path is the share's with one checked
// name behind it.
package nas

import (
	"context"

	"config-server/internal/farm"
)

// Runner runs one command on the NAS; remote.Client is one. A command that ran and failed gives an
// error that wraps *remote.ExitError.
type Runner interface {
	Run(ctx context.Context, argv []string, stdin []byte) (stdout string, err error)
}

// Options of Homes.
type Options struct {
	Runner    Runner
	Host      string // for error texts
	SharePath string // absolute, clean, not "/": NFS_USER_SHARE_PATH
}

// Homes is the folder of home directories on the NAS. It is safe for concurrent use.
type Homes struct {
	opts Options
}

// New checks the share's path.
func New(opts Options) (*Homes, error) { return &Homes{opts: opts}, nil }

// Owner tells who owns the user's home; found is false if there is none.
func (h *Homes) Owner(ctx context.Context, user farm.UserName) (owner farm.ID, found bool, err error) {
	return 0, false, nil
}

// Empty reports whether the user's home has no entry.
func (h *Homes) Empty(ctx context.Context, user farm.UserName) (bool, error) { return false, nil }

// Make makes the user's home with mode 0700.
func (h *Homes) Make(ctx context.Context, user farm.UserName, uid, gid farm.ID) error { return nil }

// Remove removes the user's home with all that is in it; an absent one is no error.
func (h *Homes) Remove(ctx context.Context, user farm.UserName) error { return nil }

// All lists the entries of the share with the uid of their owner.
func (h *Homes) All(ctx context.Context) (map[string]farm.ID, error) { return nil, nil }

// Check tries whether the share can be listed.
func (h *Homes) Check(ctx context.Context) error { return nil }
