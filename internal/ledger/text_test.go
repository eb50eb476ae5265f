package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"config-server/internal/farm"
)

func TestRewriteKeepsEveryOtherByte(t *testing.T) {
	t.Parallel()
	drop := func(gone string) func(string) (string, bool) {
		return func(line string) (string, bool) { return line, line != gone }
	}
	change := func(from, to string) func(string) (string, bool) {
		return func(line string) (string, bool) {
			if line == from {
				return to, true
			}
			return line, true
		}
	}
	for _, test := range []struct {
		name, text string
		edit       func(string) (string, bool)
		want       string
	}{
		{"nothing to change", "a\n\nb", drop("c"), "a\n\nb"},
		{"empty file", "", drop("c"), ""},
		{"first line goes", "a\nb\n", drop("a"), "b\n"},
		{"last line goes", "a\nb\n", drop("b"), "a\n"},
		{"last line without newline goes", "a\nb", drop("b"), "a\n"},
		{"only line goes", "a", drop("a"), ""},
		{"several go", "a\nb\na\nc\na\n", drop("a"), "b\nc\n"},
		{"line changes in the middle", "a\nb\nc\n", change("b", "x:y"), "a\nx:y\nc\n"},
		{"first line changes", "a\nb", change("a", "xx"), "xx\nb"},
		{"missing final newline stays missing", "a\nb", change("b", "x"), "a\nx"},
		{"CRLF stays", "a\r\nb\r\n", change("a", "x"), "x\r\nb\r\n"},
		{"odd bytes stay", "\xff\xfe\na\n\x00\n", drop("a"), "\xff\xfe\n\x00\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := rewrite(test.text, test.edit); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAppendLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "new\n"},
		{"with final newline", "a\n", "a\nnew\n"},
		{"without final newline", "a", "a\nnew\n"},
		{"after a blank line", "a\n\n", "a\n\nnew\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := appendLine(test.text, "new"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestDropNamedTakesWholeNamesOnly(t *testing.T) {
	t.Parallel()
	text := "al:1\nalice:2\n#al:3\nal\nal:4"
	if got, want := dropNamed(text, "al"), "alice:2\n#al:3\nal\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := dropNamed(text, "lice"); got != text {
		t.Errorf("a name that is not there changed the text: %q", got)
	}
}

func TestWithMember(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, line, user, want string }{
		{"empty list", "g:x:1:", "bob", "g:x:1:bob"},
		{"list in order stays in order", "g:x:1:alice,carol", "bob", "g:x:1:alice,bob,carol"},
		{"list in another order gets it at its end", "g:x:1:carol,alice", "bob", "g:x:1:carol,alice,bob"},
		{"member already", "g:x:1:carol,bob,alice", "bob", "g:x:1:carol,bob,alice"},
		{"spaces stay", "g:x:1:carol, alice", "bob", "g:x:1:carol, alice,bob"},
		{"empty last member", "g:x:1:carol,", "bob", "g:x:1:carol,bob"},
		{"part of another name is not the name", "g:x:1:bobby", "bob", "g:x:1:bob,bobby"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := withMember(test.line, farm.UserName(test.user)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestWithoutMember(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, line, want string }{
		{"only", "g:x:1:bob", "g:x:1:"},
		{"first", "g:x:1:bob,al", "g:x:1:al"},
		{"middle", "g:x:1:al,bob,cy", "g:x:1:al,cy"},
		{"twice", "g:x:1:bob,al,bob", "g:x:1:al"},
		{"with a space", "g:x:1:al, bob", "g:x:1:al"},
		{"the spaces of others stay", "g:x:1: al ,bob", "g:x:1: al "},
		{"not a member", "bob:x:1:bobby", "bob:x:1:bobby"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := withoutMember(test.line, "bob"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestParseAccount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, line string
		ok         bool
	}{
		{"plain", "alice:x:20000:20001:A, 홍길동:/home/alice:/bin/bash", true},
		{"student number", "2023123456:x:20000:20000::/home/2023123456:/bin/bash", true},
		{"Korean name", "홍길동:x:20000:20000::/home/h:/bin/bash", true},
		{"no password field", "alice::20000:20000:::", true},
		{"comment", "#alice:x:20000:20000::/home/alice:/bin/bash", false},
		{"NIS", "+:x:0:0:::", false},
		{"six fields", "alice:x:20000:20000::/home/alice", false},
		{"eight fields", "alice:x:20000:20000::/home/alice:/bin/bash:", false},
		{"no name", ":x:20000:20000::/:/bin/sh", false},
		{"space in the name", "al ice:x:20000:20000::/:/bin/sh", false},
		{"signed number", "alice:x:+1:20000::/:/bin/sh", false},
		{"number with a space", "alice:x: 1:20000::/:/bin/sh", false},
		{"empty number", "alice:x::20000::/:/bin/sh", false},
		{"number over 32 bits", "alice:x:4294967296:20000::/:/bin/sh", false},
		{"blank", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			account, ok := parseAccount(test.line)
			if ok != test.ok {
				t.Fatalf("understood: %v, want %v (%+v)", ok, test.ok, account)
			}
			if ok && test.name == "plain" && formatAccount(account) != test.line {
				t.Errorf("formats as %q", formatAccount(account))
			}
		})
	}
}

func TestOddLinesKeepTheirNumbersUsed(t *testing.T) {
	t.Parallel()
	x := indexPasswd("#gone:x:20007:20008::/home/gone:/bin/bash\nshort:x:20009\n")
	slices.Sort(x.odd)
	if want := []farm.ID{20007, 20008, 20009}; !slices.Equal(x.odd, want) {
		t.Errorf("got %v, want %v", x.odd, want)
	}
}

// FuzzEdit checks that adding and removing an account over any text is exact to the byte.
func FuzzEdit(f *testing.F) {
	for _, seed := range []string{"", "\n", "a", "root:x:0:0:root:/root:/bin/bash\n", "zed:x:1:zed,al\r\n#\n\xff", "a:x:1:\n\n\nzed:::::::"} {
		f.Add(seed)
	}
	account := farm.Account{Name: "zed_new", UID: 20000, GID: 20000, Home: "/home/zed_new", Shell: "/bin/bash"}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "zed_new") {
			return
		}
		if got := rewrite(text, func(line string) (string, bool) { return line, true }); got != text {
			t.Fatalf("rewriting nothing changed %q to %q", text, got)
		}
		tx := &Tx{passwd: document{text: text}, group: document{text: text}}
		tx.AddAccount(account)
		tx.AddGroup(farm.Group{Name: "zed_new", GID: 20000, Members: []farm.UserName{"zed_new"}})
		if _, ok := (&View{passwd: indexPasswd(tx.passwd.text)}).User("zed_new"); !ok {
			t.Fatal("an added account is not found")
		}
		before, after := indexPasswd(text), indexPasswd(tx.passwd.text)
		if len(after.users) != len(before.users)+1 {
			t.Fatalf("%d accounts became %d", len(before.users), len(after.users))
		}
		tx.RemoveAccount("zed_new")
		tx.RemoveGroup("zed_new")
		want := text
		if want != "" && !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if tx.passwd.text != want || tx.group.text != want {
			t.Fatalf("after adding and removing: %q and %q, want %q", tx.passwd.text, tx.group.text, want)
		}
		joined := rewrite(text, func(line string) (string, bool) {
			if _, ok := parseGroup(line); ok {
				return withMember(line, "zed_new"), true
			}
			return line, true
		})
		for i, group := range indexGroup(joined).groups {
			if !slices.Contains(group.Members, "zed_new") {
				t.Fatalf("group %d has no new member", i)
			}
		}
		if len(indexGroup(joined).groups) != len(indexGroup(text).groups) {
			t.Fatal("joining changed the number of groups")
		}
	})
}

func (f firstOf[K]) all() map[K]int {
	all := maps.Clone(f.few)
	maps.Copy(all, f.many)
	return all
}

// A chain of new accounts is longer than the keys that are copied each time.
func TestAnIndexGrowsLineByLine(t *testing.T) {
	t.Parallel()
	text := seedPasswd
	x := indexPasswd(text)
	for i := range 3 * mostFew {
		name := fmt.Sprintf("zed%d", i)
		text += name + ":x:20000:20000::/home:/bin/sh\n"
		x = x.of(text)
		if at, ok := x.byName.find(farm.UserName(name)); !ok || x.users[at].Name != farm.UserName(name) {
			t.Fatalf("%s is not found among %d", name, len(x.users))
		}
	}
	want := indexPasswd(text)
	if !slices.Equal(x.users, want.users) || !maps.Equal(x.byName.all(), want.byName.all()) {
		t.Error("the grown index is not that of the whole text")
	}
	if len(x.byName.few) > mostFew {
		t.Errorf("%d keys are copied each time", len(x.byName.few))
	}
}

// FuzzGrownIndex checks that an index made from that of a shorter text is the one made from the
// text alone, and that the shorter one stays as it was.
func FuzzGrownIndex(f *testing.F) {
	for _, seed := range [][2]string{
		{"", "a:x:1:1:::\n"}, {"root:x:0:0:root:/root:/bin/bash\n", "zed:x:20000:20000::/home/zed:/bin/bash\n"},
		{"zed:x:1:a,b\n", "zed:x:1:c\nal:x:1:zed"}, {"#gone:x:7:8\n", "short:x:9\n\r\n"}, {"no end", ":x:1:\n"}, {"a:x:1:\n", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	accounts := func(x *passwdIndex) string { return fmt.Sprintf("%#v %v %v", x.users, x.byName.all(), x.odd) }
	groups := func(x *groupIndex) string {
		return fmt.Sprintf("%#v %v %v %v %v", x.groups, x.byName.all(), x.byGID.all(), x.odd, x.memberOf())
	}
	f.Fuzz(func(t *testing.T, text, more string) {
		passwd, group := indexPasswd(text), indexGroup(text)
		wasPasswd, wasGroup := accounts(passwd), groups(group)
		// Twice from the same index: what one adds must not show in the other.
		for _, whole := range []string{text + more, text + "other:x:20001:20001::/home/other:/bin/sh\n"} {
			if got, want := accounts(passwd.of(whole)), accounts(indexPasswd(whole)); got != want {
				t.Errorf("passwd %q grown to %q:\n got %s\nwant %s", text, whole, got, want)
			}
			if got, want := groups(group.of(whole)), groups(indexGroup(whole)); got != want {
				t.Errorf("group %q grown to %q:\n got %s\nwant %s", text, whole, got, want)
			}
		}
		if accounts(passwd) != wasPasswd || groups(group) != wasGroup {
			t.Errorf("the index of %q changed when another was made from it", text)
		}
	})
}
