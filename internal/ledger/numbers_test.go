package ledger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"config-server/internal/farm"
)

func numberTx(passwd, group, retired string, entries ...Entry) *Tx {
	return &Tx{
		view:    &View{passwd: indexPasswd(passwd), group: indexGroup(group)},
		retired: indexRetired(retired), entries: entries,
	}
}

func user(name string, uid, gid int, home string) string {
	return fmt.Sprintf("%s:x:%d:%d::%s:/bin/bash\n", name, uid, gid, home)
}

func TestNextNumbers(t *testing.T) {
	t.Parallel()
	alice := user("alice", 20000, 20000, "/home/alice")
	for _, test := range []struct {
		name                   string
		passwd, group, retired string
		entries                []Entry
		uid, gid               farm.ID
	}{
		{name: "nothing given yet", passwd: seedPasswd, group: seedGroup, uid: 20000, gid: 20000},
		{name: "one above the highest", passwd: alice + user("bob", 20007, 20007, "/home/bob"), group: "bob:x:20007:\n", uid: 20008, gid: 20008},
		{name: "gaps are not filled", passwd: alice + user("bob", 20002, 20002, "/home/bob"), uid: 20003, gid: 20001},
		{name: "a service account outside /home does not raise it", passwd: alice + user("svc", 30000, 30000, "/srv"), uid: 20001, gid: 20001},
		{name: "but its number is not given", passwd: alice + user("svc", 20001, 20002, "/srv"), uid: 20003, gid: 20003},
		{name: "a group's number is not given to a user", passwd: alice, group: "team:x:20001:\n", uid: 20002, gid: 20002},
		{name: "a user's primary gid is not given to a group", passwd: user("a", 1000, 20000, "/home/a"), uid: 20001, gid: 20001},
		{name: "groups outside the band do not count", group: "big:x:3000000000:\nold:x:1500:\n", uid: 20000, gid: 20000},
		{name: "nobody and the overflow number are skipped", passwd: user("a", 65533, 65533, "/home/a"), group: "a:x:65533:\n", uid: 65536, gid: 65536},
		{name: "nobody and the overflow number do not count", passwd: user("a", 65535, 65535, "/home/a"), group: "a:x:65535:\nn:x:65534:\n", uid: 20000, gid: 20000},
		{name: "retired numbers count as given", passwd: alice, retired: "uid:20009:old\ngid:20020:oldteam\n", uid: 20010, gid: 20021},
		{name: "retired numbers of the other kind are skipped", passwd: alice, group: "alice:x:20000:\n", retired: "uid:20001:x\ngid:20002:y\n", uid: 20003, gid: 20003},
		{name: "reserved numbers are skipped", passwd: alice, group: "alice:x:20000:\n", entries: []Entry{{UID: 20001, Groups: []farm.GroupRef{{Name: "x", GID: 20001}, {Name: "y", GID: 20002}}}}, uid: 20003, gid: 20003},
		{name: "numbers of comments are skipped", passwd: alice + "#bob:x:20001:20001::/home/bob:/bin/bash\n", uid: 20002, gid: 20002},
		{name: "one group at the end of the band does not end it", group: "a:x:20004:\nend:x:2000000000:\n", uid: 20000, gid: 20005},
		{name: "an account at the end of the band neither", passwd: alice + user("end", 2000000000, 2000000000, "/home/end"), uid: 20001, gid: 20001},
		{name: "odd lines of the retired file are nobody's", retired: "# note\nuid:x:y\nuid:20005\npid:20006:a\n", uid: 20000, gid: 20000},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tx := numberTx(test.passwd, test.group, test.retired, test.entries...)
			if uid, err := tx.NextUID(); uid != test.uid || err != nil {
				t.Errorf("uid %d, want %d (%v)", uid, test.uid, err)
			}
			if gid, err := tx.NextGID(); gid != test.gid || err != nil {
				t.Errorf("gid %d, want %d (%v)", gid, test.gid, err)
			}
		})
	}
}

func TestNextUIDAvoidsWhatTheCallerNames(t *testing.T) {
	t.Parallel()
	if uid, err := numberTx("", "", "").NextUID(20000, 20002, 20001); uid != 20003 || err != nil {
		t.Errorf("%d %v", uid, err)
	}
}

func TestBelowFindsTheHighestGap(t *testing.T) {
	t.Parallel()
	top := farm.MaxID
	for _, test := range []struct {
		name  string
		taken []farm.ID
		want  farm.ID
	}{
		{"only the top", []farm.ID{top}, farm.MinID},
		{"a run at the top", []farm.ID{20000, 20001, top - 1, top}, 20002},
		{"a gap of one", []farm.ID{20000, top - 2, top}, top - 1},
		{"numbers outside the band", []farm.ID{1, top, top + 5}, farm.MinID},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got, err := below(test.taken); got != test.want || err != nil {
				t.Errorf("%d %v, want %d", got, err, test.want)
			}
		})
	}
}

func TestChosenNumbersAreNeverUsed(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var passwd, group, retired strings.Builder
		number := func() int { return 20000 + random.IntN(40) }
		for i := range random.IntN(12) {
			passwd.WriteString(user(fmt.Sprintf("u%d", i), number(), number(), "/home/u"))
			fmt.Fprintf(&group, "g%d:x:%d:\n", i, number())
			fmt.Fprintf(&retired, "uid:%d:r%d\n", number(), i)
		}
		tx := numberTx(passwd.String(), group.String(), retired.String(), Entry{UID: farm.ID(number())})
		for _, next := range []func(...farm.ID) (farm.ID, error){tx.NextUID, tx.NextGID} {
			id, err := next()
			if err != nil {
				t.Fatal(err)
			}
			if tx.UsedInFiles(id, "") || len(tx.Retirements(id)) > 0 || tx.entries[0].UID == id || !id.InBand() {
				t.Fatalf("%d was given again:\n%s%s%s", id, passwd.String(), group.String(), retired.String())
			}
		}
	}
}

func TestRetiredFor(t *testing.T) {
	t.Parallel()
	tx := numberTx("", "", "gid:20001:team\nuid:20002:al\ngid:20002:al\ngid:20002:other\n")
	for _, test := range []struct {
		id            farm.ID
		name          string
		retired, same bool
	}{
		{20000, "team", false, true},
		{20001, "team", true, true},
		{20001, "al", true, false},
		{20002, "al", true, false},
	} {
		if retired, same := tx.RetiredFor(test.id, test.name); retired != test.retired || same != test.same {
			t.Errorf("%d for %s: %v %v", test.id, test.name, retired, same)
		}
	}
}
