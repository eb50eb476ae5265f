package accounts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
)

func TestCreateUserOnAFreshShare(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	s := w.service()
	user := newUser("user2100", farm.GroupRef{Name: "ailab", GID: 20005})
	got := create(t, s, user)
	want := Created{
		Account:       farm.Account{Name: "user2100", UID: 20000, GID: 20000, Gecos: "Some, One", Home: "/home/user2100", Shell: "/bin/bash"},
		Group:         farm.GroupRef{Name: "user2100", GID: 20000},
		Supplementary: []farm.GroupRef{{Name: "ailab", GID: 20005}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if second := create(t, s, newUser("user2101")); second.Account.UID != 20001 || second.Account.GID != 20001 {
		t.Errorf("the second account is %+v", second.Account)
	}
	if !strings.HasSuffix(w.read(t, "passwd"), "user2100:x:20000:20000:Some, One:/home/user2100:/bin/bash\nuser2101:x:20001:20001:Some, One:/home/user2101:/bin/bash\n") {
		t.Errorf("passwd: %q", w.read(t, "passwd"))
	}
	if !strings.HasSuffix(w.read(t, "group"), "user2100:x:20000:\nailab:x:20005:user2100\nuser2101:x:20001:\n") {
		t.Errorf("group: %q", w.read(t, "group"))
	}
	lines := strings.Split(strings.TrimSpace(w.read(t, "shadow")), "\n")
	fields := strings.Split(lines[len(lines)-1], ":")
	if len(fields) != 9 || fields[0] != "user2101" || fields[2] != "20455" || strings.Join(fields[3:], ":") != "0:99999:7:::" {
		t.Errorf("shadow: %q", fields)
	}
	parts := strings.Split(fields[1], "$")
	if len(parts) != 4 || parts[1] != "6" || len(parts[2]) != 16 || len(parts[3]) != 86 {
		t.Errorf("hash: %d parts", len(parts))
	}
	salt := parts[2]
	if hash, err := crypt(user.Password, salt); err != nil || hash != fields[1] {
		t.Errorf("the hash does not belong to the password: %v", err)
	}
	if w.nas.homes["user2100"] != (homeDir{owner: 20000, empty: true}) {
		t.Errorf("homes: %v", w.nas.homes)
	}
	w.clean(t)
}

func TestCreateUserWritesTheSudoPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	got := create(t, w.service(withSudo), newUser("zed"))
	if got.Sudoers != filepath.Join(w.dir, "sudoers.d", "zed") {
		t.Errorf("path %q", got.Sudoers)
	}
	if text := w.read(t, "sudoers.d/zed"); text != "zed ALL=(ALL) PASSWD: /usr/bin/apt\n" {
		t.Errorf("policy %q", text)
	}
	if info, err := os.Stat(got.Sudoers); err != nil || info.Mode().Perm() != 0o440 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}

func TestCreateUserRefuses(t *testing.T) {
	t.Parallel()
	group := func(name string, gid farm.ID) NewUser {
		return newUser("zed", farm.GroupRef{Name: farm.GroupName(name), GID: gid})
	}
	primary := func(name string) NewUser {
		user := newUser("zed")
		user.PrimaryGroup = name
		return user
	}
	gecos := func(text string) NewUser {
		user := newUser("zed")
		user.Gecos = text
		return user
	}
	password := func(text string) NewUser {
		user := newUser("zed")
		user.Password = []byte(text)
		return user
	}
	for _, test := range []struct {
		name string
		user NewUser
		kind farm.Kind
		text string
	}{
		{"name is a path", newUser(".."), farm.Invalid, "invalid user name"},
		{"name is a student number", newUser("2099123456"), farm.Invalid, "invalid user name"},
		{"name in capitals", newUser("Zed"), farm.Invalid, "invalid user name"},
		{"name with a newline", newUser("zed\n"), farm.Invalid, "invalid user name"},
		{"name of 33 characters", newUser(strings.Repeat("z", 33)), farm.Invalid, "invalid user name"},
		{"name that exists", newUser("alice"), farm.Conflict, "user already exists"},
		{"base account that exists", newUser("root"), farm.Conflict, "user already exists"},
		{"base account that does not exist here", newUser("daemon"), farm.Invalid, "base system"},
		{"base group's name", newUser("sudo"), farm.Invalid, "base system"},
		{"reserved name", newUser("jovyan"), farm.Invalid, "reserved"},
		{"name of a group", newUser("team"), farm.Invalid, "there is a group team already"},
		{"name of a group without members", newUser("old"), "", ""},
		{"newline in gecos", gecos("a\nevil:x:0:0::/:/bin/sh"), farm.Invalid, "gecos"},
		{"colon in gecos", gecos("a:b"), farm.Invalid, "gecos"},
		{"NUL in gecos", gecos("a\x00"), farm.Invalid, "gecos"},
		{"carriage return in gecos", gecos("a\r"), farm.Invalid, "gecos"},
		{"gecos that is not UTF-8", gecos("\xff"), farm.Invalid, "gecos"},
		{"empty password", password(""), farm.Invalid, "invalid passwd_base64"},
		{"newline in the password", password("a\nb"), farm.Invalid, "invalid passwd_base64"},
		{"NUL in the password", password("a\x00"), farm.Invalid, "invalid passwd_base64"},
		{"password that is not UTF-8", password("\xff"), farm.Invalid, "invalid passwd_base64"},
		{"endless password", password(strings.Repeat("a", 513)), farm.Invalid, "invalid passwd_base64"},
		{"primary group that exists", primary("team"), farm.Invalid, "primary group team exists already"},
		{"primary group with a user's name", primary("alice"), farm.Invalid, "exists already"},
		{"primary group of the base", primary("users"), farm.Invalid, "base system"},
		{"primary group with a bad name", primary("a:b"), farm.Invalid, "invalid group name"},
		{"supplementary base group", group("sudo", 27), farm.Invalid, "base system"},
		{"supplementary base group by its number", group("mine", 27), farm.Invalid, "base system"},
		{"supplementary base group by its name", group("sudo", 20050), farm.Invalid, "base system"},
		{"supplementary base name and an ordinary number", group("sudo", 20005), farm.Invalid, "base system"},
		{"supplementary name and number of two groups", group("both", 20005), farm.Invalid, "does not match"},
		{"supplementary number of another group", group("newname", 20005), farm.Invalid, "does not match"},
		{"supplementary name with another number", group("team", 20050), farm.Invalid, "does not match"},
		{"supplementary number below the band", group("newname", 19999), farm.Invalid, "outside"},
		{"supplementary number above the band", group("newname", 2000000001), farm.Invalid, "outside"},
		{"supplementary nobody", group("newname", 65534), farm.Invalid, "outside"},
		{"supplementary overflow number", group("newname", 65535), farm.Invalid, "outside"},
		{"supplementary negative number", group("newname", -1), farm.Invalid, "outside"},
		{"supplementary name with a comma", group("a,b", 20050), farm.Invalid, "invalid group name"},
		{"supplementary name with a newline", group("a\nb", 20050), farm.Invalid, "invalid group name"},
		{"supplementary name of a user", group("2023123456", 20050), farm.Invalid, ""},
		{"supplementary name of the user", group("zed", 20050), farm.Invalid, "has that name"},
		{"supplementary reserved name", group("jovyan", 20050), farm.Invalid, "reserved"},
		{"supplementary group named twice with two numbers", newUser("zed", farm.GroupRef{Name: "n", GID: 20050}, farm.GroupRef{Name: "n", GID: 20051}), farm.Invalid, "does not match"},
		{"supplementary number named twice with two names", newUser("zed", farm.GroupRef{Name: "n", GID: 20050}, farm.GroupRef{Name: "m", GID: 20050}), farm.Invalid, "does not match"},
		{"supplementary number that is retired for another name", group("newname", 20077), farm.Conflict, "belonged to another name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write(t, ".config-server/retired", "gid:20077:gone\n")
			before := w.files(t)
			_, err := w.service().CreateUser(t.Context(), test.user)
			if test.kind == "" {
				// It is a leftover of the user's own name and makes room.
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, test.kind, test.text)
			w.unchanged(t, before)
			w.clean(t)
			if len(w.nas.calls) > 0 {
				t.Errorf("the NAS was asked: %v", w.nas.calls)
			}
		})
	}
}

func TestCreateUserJoinsAndMakesGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(t, ".config-server/retired", "gid:20077:again\n")
	got := create(t, w.service(), newUser("bob",
		farm.GroupRef{Name: "team", GID: 20005}, farm.GroupRef{Name: "old", GID: 1500}, farm.GroupRef{Name: "again", GID: 20077},
		farm.GroupRef{Name: "team", GID: 20005}, farm.GroupRef{Name: "fresh", GID: 20007}))
	want := []farm.GroupRef{{Name: "team", GID: 20005}, {Name: "old", GID: 1500}, {Name: "again", GID: 20077}, {Name: "fresh", GID: 20007}}
	if diff := cmp.Diff(want, got.Supplementary); diff != "" {
		t.Error(diff)
	}
	// 20003 is the first above the highest uid, and free.
	wantGroup := "root:x:0:\nsudo:x:27:alice\nalice:x:20000:\n2023123456:x:20001:\nodd+name:x:20002:\n\nteam:x:20005:alice,bob\nold:x:1500:bob\n" +
		"both:x:20006:2023123456,alice\nbob:x:20003:\nagain:x:20077:bob\nfresh:x:20007:bob\n"
	if diff := cmp.Diff(wantGroup, w.read(t, "group")); diff != "" {
		t.Error(diff)
	}
	account, groups, err := w.service().User(t.Context(), "bob")
	if err != nil || account.UID != 20003 {
		t.Fatalf("%v %v", account, err)
	}
	wantGroups := []Membership{{"team", 20005, Supplementary}, {"old", 1500, Supplementary}, {"bob", 20003, Primary}, {"again", 20077, Supplementary}, {"fresh", 20007, Supplementary}}
	if diff := cmp.Diff(wantGroups, groups); diff != "" {
		t.Error(diff)
	}
}

func TestCreateUserNeverTakesTheNumberOfAGroupThatItAsksFor(t *testing.T) {
	t.Parallel()
	got := create(t, emptyWorld(t).service(), newUser("zed", farm.GroupRef{Name: "team", GID: 20000}))
	if got.Account.UID != 20001 {
		t.Errorf("uid %d", got.Account.UID)
	}
}

func TestCreateUserWithAnotherPrimaryGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := newUser("zed")
	user.PrimaryGroup = "crew"
	got := create(t, w.service(), user)
	if got.Group != (farm.GroupRef{Name: "crew", GID: got.Account.UID}) || got.Account.GID != got.Account.UID {
		t.Errorf("%+v", got)
	}
}

func TestCreateUserClearsWhatAnEarlierAccountLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(t, "group", w.read(t, "group")+"\nzed:x:20009:zed\nadmins:x:20010:alice,zed\nwheel:x:10:zed\n")
	w.write(t, "shadow", w.read(t, "shadow")+"zed:$6$old$old:1:0:99999:7:::\n")
	w.write(t, "sudoers.d/zed", "zed ALL=(ALL) NOPASSWD: ALL\n")
	created := create(t, w.service(), newUser("zed", farm.GroupRef{Name: "team", GID: 20005}))
	if created.Account.UID == 20009 {
		t.Error("the leftover's number was given without a home that asks for it")
	}
	_, groups, err := w.service().User(t.Context(), "zed")
	if err != nil {
		t.Fatal(err)
	}
	want := []Membership{{"team", 20005, Supplementary}, {"zed", created.Account.GID, Primary}}
	if diff := cmp.Diff(want, groups); diff != "" {
		t.Error(diff)
	}
	if strings.Count(w.read(t, "shadow"), "zed:") != 1 || strings.Contains(w.read(t, "shadow"), "$old") {
		t.Error("the old shadow line is still there")
	}
	if _, err := os.Stat(filepath.Join(w.dir, "sudoers.d/zed")); err == nil {
		t.Error("the old policy is still there")
	}
	if !strings.Contains(w.read(t, ".config-server/retired"), "gid:20009:zed\n") {
		t.Error("the leftover's number is not retired")
	}
}

func TestALeftoverGroupThatOthersUseIsNoLeftover(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"another member":                "\nzed:x:20009:zed,alice\n",
		"somebody's primary group":      "\nzed:x:20000:\n",
		"base group by its number":      "\nzed:x:500:\n",
		"only a member of another name": "\nzed:x:20009:alice\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write(t, "group", w.read(t, "group")+line)
			_, err := w.service().CreateUser(t.Context(), newUser("zed"))
			wantError(t, err, farm.Invalid, "there is a group zed already")
		})
	}
}

func TestCreateUserLooksBeforeItTouchesAHome(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		home    *homeDir
		retired string
		uid     farm.ID // 0 = refused
		made    bool
	}{
		{"absent", nil, "", 20003, true},
		{"owned by the number that comes next", &homeDir{owner: 20003}, "", 20003, false},
		{"owned by a stranger", &homeDir{owner: 20050}, "", 0, false},
		{"owned by root and not empty", &homeDir{owner: 0}, "", 0, false},
		{"owned by root and empty", &homeDir{owner: 0, empty: true}, "", 20003, true},
		{"owned by the retired uid of the same name", &homeDir{owner: 20050}, "uid:20050:zed\ngid:20050:zed\n", 20050, false},
		{"owned by an old retired uid below the band", &homeDir{owner: 1501}, "uid:1501:zed\n", 1501, false},
		{"owned by the retired uid of another name", &homeDir{owner: 20050}, "uid:20050:eve\n", 0, false},
		{"owned by the retired uid of the same name and of another", &homeDir{owner: 20050}, "uid:20050:zed\nuid:20050:eve\n", 0, false},
		{"owned by a uid that two names had", &homeDir{owner: 20050}, "uid:20050:zed\nuid:20050:eve\n", 0, false},
		{"owned by a retired number that was only a gid", &homeDir{owner: 20050}, "gid:20050:zed\n", 0, false},
		{"owned by a retired uid that somebody has now", &homeDir{owner: 20000}, "uid:20000:zed\n", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if test.home != nil {
				w.nas.homes["zed"] = *test.home
			}
			w.write(t, ".config-server/retired", test.retired)
			before := w.files(t)
			got, err := w.service().CreateUser(t.Context(), newUser("zed"))
			if test.uid == 0 {
				wantError(t, err, farm.Internal, "belongs to uid")
				if told, _ := farm.AsError(err); told.Step != farm.StepCreateHomeDirectory || told.Code != farm.NASSSHFailed {
					t.Errorf("%s %s", told.Step, told.Code)
				}
				w.unchanged(t, before)
			} else if err != nil || got.Account.UID != test.uid || got.Account.GID != test.uid {
				t.Errorf("%+v %v", got.Account, err)
			}
			if w.nas.asked("make") > 0 != test.made || w.nas.asked("remove") > 0 {
				t.Errorf("calls: %v", w.nas.calls)
			}
			w.clean(t)
		})
	}
}

func TestRecreatedUserWithItsOldHomeGetsItsOldNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service()
	w.nas.faults["remove"] = refused
	deleted, err := s.DeleteUser(t.Context(), "alice")
	if err != nil || len(deleted.Warnings) != 1 {
		t.Fatalf("%v %v", deleted, err)
	}
	if got := create(t, s, newUser("bob")); got.Account.UID != 20003 {
		t.Errorf("bob got %d", got.Account.UID)
	}
	if got := create(t, s, newUser("alice")); got.Account.UID != 20000 || got.Account.GID != 20000 {
		t.Errorf("alice got %d", got.Account.UID)
	}
}
