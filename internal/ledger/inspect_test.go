package ledger

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInspectTellsWhatStandsOnTheShare(t *testing.T) {
	t.Parallel()
	files := small()
	files["shadow"] += "ghost:$6$e$f:1:0:99999:7:::\nalice:$6$g$h:1:0:99999:7:::\ncut:$6$i$j\n"
	files["group"] += "half:x\n"
	files[sudoersDir+"/alice"] = "alice ALL=(ALL) PASSWD: /bin/ls\n"
	files[retiredFile] = "uid:20009:gone\ngid:20007:team7\n"
	dir := share(t, files)
	before := tree(t, dir)
	got, err := newLedger(t, dir).Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2]any{
		"shadow names":  {got.Shadow, []string{"root", "alice", "bob", "ghost", "alice"}},
		"damaged lines": {got.Damaged, []Place{{"passwd", 4}, {"group", 6}, {"shadow", 6}}},
		"sudoers":       {got.Sudoers, []string{"alice"}},
		"retired":       {got.Retired, []Retirement{{GID, 20007, "team7"}, {UID, 20009, "gone"}}},
		"users":         {len(got.View.Users()), 3},
		"interrupted":   {got.Interrupted, false},
	} {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("it wrote:\n%s", diff)
	}
}

func TestInspectGoesOnWithoutTheJournal(t *testing.T) {
	t.Parallel()
	files := small()
	files[journalDir+"/X.json"] = "{"
	got, err := newLedger(t, share(t, files)).Inspect(t.Context())
	if err != nil || !errors.Is(got.EntriesErr, ErrDamaged) || len(got.Shadow) != 3 {
		t.Errorf("got %v, journal %v, shadow %v", err, got.EntriesErr, got.Shadow)
	}
}

func TestInspectOnAFreshAndOnADamagedShare(t *testing.T) {
	t.Parallel()
	got, err := newLedger(t, t.TempDir()).Inspect(t.Context())
	if err != nil || !got.Fresh {
		t.Errorf("fresh share: %v, fresh %v", err, got.Fresh)
	}
	files := small()
	delete(files, "shadow")
	if _, err := newLedger(t, share(t, files)).Inspect(t.Context()); !errors.Is(err, ErrDamaged) {
		t.Errorf("without shadow: %v", err)
	}
}
