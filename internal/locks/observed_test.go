package locks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/locks"
)

func TestObservedTellsOfEveryWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var told []string
		l := locks.Observed(locks.NewLocal(dir), func(name string, took time.Duration, err error) {
			told = append(told, fmt.Sprint(name, " ", took, " ", errors.Is(err, farm.ErrLockTimeout), " ", err == nil))
		})
		held := lock(t, l, "ledger")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := l.Lock(ctx, "ledger"); err == nil {
			t.Error("a lock that is held was had")
		}
		if free(t, l, "ledger") {
			t.Error("a lock that is held is free")
		}
		held.Unlock()
		if !free(t, l, "ledger") {
			t.Error("a lock that was given back is not free")
		}
		if diff := cmp.Diff([]string{"ledger 0s false true", "ledger 3s true false"}, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}
