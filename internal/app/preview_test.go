package app

import (
	"slices"
	"testing"
)

// A dry run by hand tells of operations to recover and of pods that exports have left.
func TestADryRunAsksEveryTaskThatTells(t *testing.T) {
	t.Parallel()
	a := newIdle(t)
	var tell []string
	for _, task := range a.previewed(a.parts.reconciler.Tasks) {
		if task.Preview != nil {
			tell = append(tell, task.Name)
		}
	}
	if want := []string{"accounts", "workspaces", "exports"}; !slices.Equal(tell, want) {
		t.Errorf("a dry run asks %q, want %q", tell, want)
	}
}
