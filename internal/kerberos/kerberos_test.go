package kerberos

import (
	"errors"
	"testing"
)

func TestOffDoesNothingAndNeverFails(t *testing.T) {
	t.Parallel()
	var off Off
	if off.Enabled() || off.Principal("kim") != "" {
		t.Errorf("Enabled %v, principal %q", off.Enabled(), off.Principal("kim"))
	}
	ctx := t.Context()
	err := errors.Join(off.CreatePrincipal(ctx, "kim"), off.Deploy(ctx, "farm6", "kim", 20001), off.Remove(ctx, "farm6", "kim"), off.RemoveUser(ctx, "kim", 20001))
	if err != nil {
		t.Errorf("error %v", err)
	}
}
