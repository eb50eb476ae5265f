package accounts

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
)

func id(n farm.ID) *farm.ID { return &n }

func TestCreateGroup(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		group NewGroup
		gid   farm.ID
		line  string
	}{
		{"number chosen", NewGroup{Name: "dev"}, 20007, "dev:x:20007:"},
		{"number given", NewGroup{Name: "dev", GID: id(20300)}, 20300, "dev:x:20300:"},
		{"members sorted and each once", NewGroup{Name: "dev", Members: []string{"odd+name", "alice", "2023123456", "alice"}}, 20007, "dev:x:20007:2023123456,alice,odd+name"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			before := w.read(t, "group")
			ref, err := w.service().CreateGroup(t.Context(), test.group)
			if err != nil || ref != (farm.GroupRef{Name: "dev", GID: test.gid}) {
				t.Fatalf("%v %v", ref, err)
			}
			if got := w.read(t, "group"); got != before+"\n"+test.line+"\n" {
				t.Errorf("group: %q", got)
			}
		})
	}
}

func TestCreateGroupRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		group NewGroup
		kind  farm.Kind
		text  string
	}{
		{"name exists", NewGroup{Name: "team"}, farm.Conflict, "group already exists (name: team)"},
		{"name exists, number too", NewGroup{Name: "team", GID: id(20005)}, farm.Conflict, "group already exists (name: team)"},
		{"name of a user", NewGroup{Name: "bob"}, farm.Conflict, "group already exists (name: bob)"},
		{"base name that exists", NewGroup{Name: "sudo"}, farm.Conflict, "group already exists (name: sudo)"},
		{"base name that does not exist here", NewGroup{Name: "docker-not", GID: id(28)}, farm.Invalid, "outside"},
		{"base name absent", NewGroup{Name: "adm"}, farm.Invalid, "base system"},
		{"reserved name", NewGroup{Name: "jovyan"}, farm.Invalid, "reserved"},
		{"number of a group", NewGroup{Name: "dev", GID: id(20005)}, farm.Conflict, "group already exists (gid: 20005)"},
		{"number of a base group", NewGroup{Name: "dev", GID: id(27)}, farm.Conflict, "group already exists (gid: 27)"},
		{"root's number", NewGroup{Name: "dev", GID: id(0)}, farm.Conflict, "group already exists (gid: 0)"},
		{"number of a user", NewGroup{Name: "dev", GID: id(20040)}, farm.Conflict, "group already exists (gid: 20040)"},
		{"primary gid of a user", NewGroup{Name: "dev", GID: id(20041)}, farm.Conflict, "group already exists (gid: 20041)"},
		{"retired number of another name", NewGroup{Name: "dev", GID: id(20077)}, farm.Conflict, "group already exists (gid: 20077)"},
		{"number below the band", NewGroup{Name: "dev", GID: id(19999)}, farm.Invalid, "outside"},
		{"negative number", NewGroup{Name: "dev", GID: id(-5)}, farm.Invalid, "outside"},
		{"number above the band", NewGroup{Name: "dev", GID: id(2000000001)}, farm.Invalid, "outside"},
		{"nobody", NewGroup{Name: "dev", GID: id(65534)}, farm.Invalid, "outside"},
		{"overflow number", NewGroup{Name: "dev", GID: id(65535)}, farm.Invalid, "outside"},
		{"name with a colon", NewGroup{Name: "de:v"}, farm.Invalid, "invalid group name"},
		{"name is a path", NewGroup{Name: ".."}, farm.Invalid, "invalid group name"},
		{"name in capitals", NewGroup{Name: "Dev"}, farm.Invalid, "invalid group name"},
		{"empty name", NewGroup{Name: ""}, farm.Invalid, "invalid group name"},
		{"members that are not there", NewGroup{Name: "dev", Members: []string{"ghost1", "alice", "ghost2", "ghost1"}}, farm.Invalid, "invalid members (users not found): ghost1, ghost2"},
		{"malformed member", NewGroup{Name: "dev", Members: []string{"a,b"}}, farm.Invalid, "invalid members (users not found): a,b"},
		{"base account as member", NewGroup{Name: "dev", Members: []string{"root"}}, farm.Invalid, "invalid members (base accounts): root"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write(t, "passwd", w.read(t, "passwd")+"\nbob:x:20040:20041::/home/bob:/bin/bash\n")
			w.write(t, ".config-server/retired", "gid:20077:gone\n")
			before := w.files(t)
			_, err := w.service().CreateGroup(t.Context(), test.group)
			wantError(t, err, test.kind, test.text)
			w.unchanged(t, before)
			w.clean(t)
		})
	}
}

func TestDeleteGroup(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, group string
		kind        farm.Kind // empty = deleted
		text        string
	}{
		{"ordinary", "team", "", ""},
		{"below the band but ordinary", "old", "", ""},
		{"absent", "nope", farm.NotFound, "group not found"},
		{"absent name that breaks the rule", "No.Pe", farm.Invalid, "invalid group name"},
		{"path", "..", farm.Invalid, "invalid group name"},
		{"primary group", "alice", farm.Invalid, "Cannot delete group alice: it is the primary group for users: alice, eve"},
		{"base group", "sudo", farm.Invalid, "Cannot delete group sudo: it is a base group"},
		{"base group by its number", "wheel", farm.Invalid, "base group"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write(t, "passwd", w.read(t, "passwd")+"\neve:x:20040:20000::/home/eve:/bin/bash\n")
			w.write(t, "group", w.read(t, "group")+"\nwheel:x:10:\n")
			before := w.files(t)
			ref, err := w.service().DeleteGroup(t.Context(), test.group)
			if test.kind != "" {
				wantError(t, err, test.kind, test.text)
				w.unchanged(t, before)
				return
			}
			if err != nil || string(ref.Name) != test.group {
				t.Fatalf("%v %v", ref, err)
			}
			if strings.Contains(w.read(t, "group"), "\n"+test.group+":") || !strings.Contains(w.read(t, ".config-server/retired"), ":"+test.group+"\n") {
				t.Error("it is not gone, or its number is not retired")
			}
			w.clean(t)
		})
	}
}

func TestJoinGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service()
	got, err := s.JoinGroups(t.Context(), "2023123456", []string{"team", "old", "both", "team"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"both", "old", "team"}, got); diff != "" {
		t.Error(diff)
	}
	want := "root:x:0:\nsudo:x:27:alice\nalice:x:20000:\n2023123456:x:20001:\nodd+name:x:20002:\n\nteam:x:20005:2023123456,alice\nold:x:1500:2023123456\n" +
		"both:x:20006:2023123456,alice"
	if diff := cmp.Diff(want, w.read(t, "group")); diff != "" {
		t.Error(diff)
	}
	if got, err := s.JoinGroups(t.Context(), "2023123456", []string{"2023123456"}); err != nil || len(got) != 1 {
		t.Errorf("joining the own primary group: %v %v", got, err)
	}
	if diff := cmp.Diff(want, w.read(t, "group")); diff != "" {
		t.Errorf("joining the own primary group wrote: %s", diff)
	}
}

func TestJoinGroupsRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, user string
		groups     []string
		kind       farm.Kind
		text       string
	}{
		{"no groups", "alice", nil, farm.Invalid, "'groups' list is required"},
		{"no such user", "nobody-here", []string{"team"}, farm.NotFound, "user not found"},
		{"impossible user", "a:b", []string{"team"}, farm.Invalid, "invalid user name"},
		{"absent user whose name breaks the rule", "A.B", []string{"team"}, farm.Invalid, "invalid user name"},
		{"base account", "root", []string{"team"}, farm.Invalid, "base account"},
		{"no such groups, as asked", "2023123456", []string{"team", "nope", "nada", "nope"}, farm.NotFound, "groups not found: nope, nada"},
		{"impossible group", "alice", []string{"te:am"}, farm.Invalid, "invalid group name"},
		{"absent group whose name breaks the rule", "alice", []string{"Te.Am"}, farm.Invalid, "invalid group name"},
		{"base group", "2023123456", []string{"team", "sudo"}, farm.Invalid, "base group"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			before := w.files(t)
			_, err := w.service().JoinGroups(t.Context(), test.user, test.groups)
			wantError(t, err, test.kind, test.text)
			w.unchanged(t, before)
		})
	}
}

func TestUserAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service()
	if users, err := s.Users(t.Context()); err != nil || len(users.Accounts) != 4 || users.Accounts[0].Name != "root" {
		t.Errorf("%v %v", users, err)
	}
	groups, err := s.Groups(t.Context())
	if err != nil || groups.Version == "" || groups.Memo == nil || groups.Groups[0].Name != "root" {
		t.Errorf("%v %v", groups, err)
	}
	if i := slices.IndexFunc(groups.Groups, func(g farm.Group) bool { return g.Name == "team" }); i < 0 || len(groups.Groups[i].Members) == 0 {
		t.Errorf("no team with members in %v", groups.Groups)
	}
	for name, kind := range map[string]farm.Kind{"ghost": farm.NotFound, "G.host": farm.Invalid, "..": farm.Invalid, "a/b": farm.Invalid, "": farm.Invalid} {
		_, _, err := s.User(t.Context(), name)
		wantError(t, err, kind, "")
	}
	w.write(t, "shadow", "")
	_, err = s.Users(t.Context())
	wantError(t, err, farm.Internal, "shadow is absent or empty")
	_, err = s.Groups(t.Context())
	wantError(t, err, farm.Internal, "shadow is absent or empty")
}
