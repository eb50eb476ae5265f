package ledger

import (
	"context"
	"fmt"
	"strings"

	"config-server/internal/farm"
)

// ShadowHash returns the password field of the user's shadow line: a hash, or the mark of a locked
// account. It is a secret: it may stand in no log, error or argument. The error wraps
// farm.ErrNotFound if shadow has no line of the user; it says nothing of other lines.
func (l *Ledger) ShadowHash(ctx context.Context, user farm.UserName) (string, error) {
	if ctx.Err() != nil {
		return "", fmt.Errorf("read the password of %s: %w", user, context.Cause(ctx))
	}
	text, _, err := l.readFile(shadowFile)
	if err != nil {
		return "", fmt.Errorf("read the password of %s: %w", user, err)
	}
	for line := range lines(text) {
		name, rest, found := strings.Cut(line, ":")
		if !found || name != string(user) {
			continue
		}
		hash, _, _ := strings.Cut(rest, ":")
		return hash, nil
	}
	return "", fmt.Errorf("shadow line of user %q: %w", user, farm.ErrNotFound)
}
