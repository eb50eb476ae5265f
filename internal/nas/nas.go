// Package nas makes, looks at and removes home directories on the NAS.
//
// The NAS allows four commands with sudo (mkdir -p, chown, chmod 700, rm -rf) and is asked with
// three more without it (stat -c %u, ls -A, ls -n). Every path is the share's with one checked
// name behind it; a name that may not be in a command is refused before anything is sent.
package nas

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"config-server/internal/farm"
	"config-server/internal/remote"
)

// Runner runs one command on the NAS; *remote.Client is one. A command that ran and failed gives
// an error that wraps *remote.ExitError. Its errors name the host.
type Runner interface {
	Run(ctx context.Context, argv []string, stdin []byte) (stdout string, err error)
}

// Options of Homes.
type Options struct {
	Runner Runner
	Host   string // for error texts
	// SharePath is the folder of the homes on the NAS: NFS_USER_SHARE_PATH.
	SharePath string
}

// Homes is the folder of home directories on the NAS. It is safe for concurrent use.
//
// Its errors name host and path. A name that is not Commandable gives one that wraps
// farm.ErrBadName; what the NAS refused wraps *remote.ExitError.
type Homes struct {
	runner Runner
	host   string
	share  string
}

// New checks the share's path: it must be absolute, have no "..", and not be "/".
func New(opts Options) (*Homes, error) {
	share, err := cleanShare(opts.SharePath)
	if err != nil {
		return nil, fmt.Errorf("home share: %w", err)
	}
	if opts.Runner == nil {
		return nil, errors.New("home share: no runner")
	}
	return &Homes{runner: opts.Runner, host: opts.Host, share: share}, nil
}

func cleanShare(share string) (string, error) {
	clean := path.Clean(share)
	switch {
	case !strings.HasPrefix(share, "/"):
		return "", fmt.Errorf("path %q is not absolute", share)
	case hasDotDot(share):
		return "", fmt.Errorf("path %q has a part that goes up", share)
	case clean == "/":
		return "", fmt.Errorf("path %q is the root of the NAS", share)
	case strings.ContainsFunc(share, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("path %q has a control character", share)
	}
	return clean, nil
}

func hasDotDot(share string) bool {
	for part := range strings.SplitSeq(share, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// Owner tells who owns the user's home; found is false if there is none.
func (h *Homes) Owner(ctx context.Context, user farm.UserName) (owner farm.ID, found bool, err error) {
	home, err := h.path(user)
	if err != nil {
		return 0, false, err
	}
	out, err := h.runner.Run(ctx, []string{"stat", "-c", "%u", home}, nil)
	if err == nil {
		owner, err = parseID(strings.TrimSpace(out))
		if err != nil {
			return 0, false, h.failed("read owner of home", home, err)
		}
		return owner, true, nil
	}
	if saysAbsent(err, home) {
		return 0, false, nil
	}
	var exit *remote.ExitError
	if !errors.As(err, &exit) || exit.Status != 1 {
		return 0, false, h.failed("read owner of home", home, err)
	}
	// stat fails with status 1 for every reason, and its words depend on the NAS's language. The
	// listing of the share tells absence from the other reasons in any language.
	entries, listErr := h.All(ctx)
	if listErr != nil {
		return 0, false, h.failed("read owner of home", home, errors.Join(err, listErr))
	}
	if _, listed := entries[string(user)]; listed {
		return 0, false, h.failed("read owner of home", home, err)
	}
	return 0, false, nil
}

// saysAbsent reports whether stat itself says, in English, that the path does not exist. What a
// login shell says before it, of its own home directory for one, does not count.
func saysAbsent(err error, home string) bool {
	var exit *remote.ExitError
	if !errors.As(err, &exit) || exit.Status != 1 {
		return false
	}
	begin := strings.LastIndex(exit.Stderr, "stat: ")
	if begin < 0 {
		return false
	}
	words := exit.Stderr[begin:]
	return strings.Contains(words, home) && strings.HasSuffix(words, ": No such file or directory")
}

// Empty reports whether the user's home has no entry. An absent home and one that may not be read
// are errors.
func (h *Homes) Empty(ctx context.Context, user farm.UserName) (bool, error) {
	home, err := h.path(user)
	if err != nil {
		return false, err
	}
	out, err := h.runner.Run(ctx, []string{"ls", "-A", home}, nil)
	if err != nil {
		return false, h.failed("list home", home, err)
	}
	return strings.TrimSpace(out) == "", nil
}

// Make makes the user's home, gives it to uid and gid, and sets its mode to 0700, one command
// after the other. It may be repeated. After an error the home may be there and still be root's.
// Numbers of the base system are refused.
func (h *Homes) Make(ctx context.Context, user farm.UserName, uid, gid farm.ID) error {
	home, err := h.path(user)
	if err != nil {
		return err
	}
	if uid.IsBase() || gid.IsBase() {
		return h.failed("make home", home, fmt.Errorf("owner %d:%d belongs to the base system", uid, gid))
	}
	commands := [][]string{
		{"sudo", "mkdir", "-p", home},
		{"sudo", "chown", fmt.Sprintf("%d:%d", uid, gid), home},
		{"sudo", "chmod", "700", home},
	}
	for _, argv := range commands {
		if _, err := h.runner.Run(ctx, argv, nil); err != nil {
			return h.failed(argv[1]+" home", home, err)
		}
	}
	return nil
}

// Remove removes the user's home with all that is in it; an absent one is no error. It does not
// ask whose home it is: Owner does.
func (h *Homes) Remove(ctx context.Context, user farm.UserName) error {
	home, err := h.path(user)
	if err != nil {
		return err
	}
	if _, err := h.runner.Run(ctx, []string{"sudo", "rm", "-rf", home}, nil); err != nil {
		return h.failed("remove home", home, err)
	}
	return nil
}

// All lists the visible entries of the share with the uid of their owners.
func (h *Homes) All(ctx context.Context) (map[string]farm.ID, error) {
	out, err := h.runner.Run(ctx, []string{"ls", "-n", h.share}, nil)
	if err != nil {
		return nil, h.failed("list homes in", h.share, err)
	}
	entries, err := parseListing(out)
	if err != nil {
		return nil, h.failed("list homes in", h.share, err)
	}
	return entries, nil
}

// Check tries whether the NAS can be reached and the share listed.
func (h *Homes) Check(ctx context.Context) error {
	_, err := h.All(ctx)
	return err
}

// path is the user's home on the NAS. It is the only place that makes one.
func (h *Homes) path(user farm.UserName) (string, error) {
	if !user.Commandable() {
		return "", fmt.Errorf("home on %s: %w: %q may not be in a command", h.host, farm.ErrBadName, farm.CutText(string(user), 64))
	}
	return h.share + "/" + string(user), nil
}

func (h *Homes) failed(operation, object string, err error) error {
	return fmt.Errorf("%s %s:%s: %w", operation, h.host, object, err)
}

func parseID(text string) (farm.ID, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no uid", farm.CutText(text, 64))
	}
	return farm.ID(n), nil
}
