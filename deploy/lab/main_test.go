package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"config-server/deploy/lab/internal/site"
)

// Neither up nor down touches a lab that is another checkout's.
func TestTheLabOfAnotherCheckoutIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir, theirs := filepath.Join(t.TempDir(), "lab"), t.TempDir()
	s, err := site.LoadOrPlan(dir, site.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Own(theirs, false); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	plan, err := os.ReadFile(filepath.Join(dir, "lab.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"up"}, {"down"}} {
		err := run(t.Context(), append(args, "-dir", dir, "-checkout", t.TempDir()))
		if err == nil || !strings.Contains(err.Error(), "belongs to the checkout "+theirs) {
			t.Errorf("%v: %v", args, err)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("in the lab's folder: %v, %v", left, err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, "lab.json")); err != nil || string(now) != string(plan) {
		t.Errorf("the plan is another: %v", err)
	}
}
