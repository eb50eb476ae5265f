package ledger

import (
	"errors"
	"strings"
	"testing"

	"config-server/internal/farm"
)

func TestShadowHashIsTheSecondFieldOfTheUsersLine(t *testing.T) {
	t.Parallel()
	dir := share(t, small())
	l := newLedger(t, dir)
	writeShare(t, dir, "shadow", "root:*:19000:0:99999:7:::\nkimlee:$6$other$x:1:0:99999:7:::\nkim:$6$salt$hash:1:0:99999:7:::\nkim:$6$late$y:1::::::\n")
	for _, test := range []struct {
		user farm.UserName
		want string
	}{{"kim", "$6$salt$hash"}, {"root", "*"}} {
		if got, err := l.ShadowHash(t.Context(), test.user); got != test.want || err != nil {
			t.Errorf("%s: %q %v", test.user, got, err)
		}
	}
	_, err := l.ShadowHash(t.Context(), "ki")
	if !errors.Is(err, farm.ErrNotFound) || strings.Contains(err.Error(), "$6$") {
		t.Errorf("a user without a line: %v", err)
	}
}
