package site_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"config-server/deploy/lab/internal/site"
)

func TestALabBelongsToTheCheckoutThatRaisedIt(t *testing.T) {
	t.Parallel()
	mine, theirs := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(mine, link); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(t.TempDir(), "gone")
	for name, c := range map[string]struct {
		owner, checkout string
		takeOver        bool
		refused         bool
	}{
		"nobody's":                    {"", mine, false, false},
		"its own":                     {mine, mine, false, false},
		"its own by another name":     {mine, link, false, false},
		"another's":                   {theirs, mine, false, true},
		"another's, taken on purpose": {theirs, mine, true, false},
		"one that is gone":            {gone, mine, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &site.Site{Dir: "/lab", Owner: c.owner}
			check := s.CheckOwner(c.checkout)
			if (check != nil) != (c.refused || c.takeOver) {
				t.Errorf("check: %v", check)
			}
			err := s.Own(c.checkout, c.takeOver)
			if (err != nil) != c.refused {
				t.Fatalf("own: %v", err)
			}
			want := mine
			if c.refused {
				want = theirs
				for _, text := range []string{"/lab", theirs, "LABFLAGS=-take-over"} {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%v does not say %s", err, text)
					}
				}
			}
			if s.Owner != want {
				t.Errorf("owner %s, want %s", s.Owner, want)
			}
		})
	}
}

func TestTheOwnerIsKeptInThePlan(t *testing.T) {
	t.Parallel()
	dir, mine := filepath.Join(t.TempDir(), "lab"), t.TempDir()
	s, err := site.LoadOrPlan(dir, site.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Own(mine, false); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	if s, err = site.LoadOrPlan(dir, site.DefaultPort); err != nil || s.Owner != mine {
		t.Errorf("%+v, %v", s, err)
	}
}
