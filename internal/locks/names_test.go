package locks_test

import (
	"slices"
	"strings"
	"testing"

	"config-server/internal/locks"
)

func TestNamesListsTheLocksThatAreHeld(t *testing.T) {
	t.Parallel()
	local := locks.NewLocal(t.TempDir())
	held := []string{"instance/1b2c", "user/한글", "ledger", strings.Repeat("long", 200)}
	for _, name := range held {
		lock, _, err := local.TryLock(t.Context(), name)
		if err != nil || lock == nil {
			t.Fatalf("lock %s: %v", name, err)
		}
		t.Cleanup(lock.Unlock)
	}
	got, err := local.Names()
	slices.Sort(got)
	if want := []string{"instance/1b2c", "ledger", "user/한글"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
