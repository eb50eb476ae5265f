package ledger

import (
	"fmt"
	"strings"
	"testing"

	"config-server/internal/farm"
)

// big is a share with this many users, each with a private group and in one of a hundred teams.
func big(users int) map[string]string {
	var passwd, group, shadow strings.Builder
	passwd.WriteString(seedPasswd)
	group.WriteString(seedGroup)
	shadow.WriteString(seedShadow(20000))
	teams := make([][]string, 100)
	for i := range users {
		name := fmt.Sprintf("user%06d", i)
		fmt.Fprintf(&passwd, "%s:x:%d:%d:GPU User, Lab %d:/home/%s:/bin/bash\n", name, 20000+i, 20000+i, i, name)
		fmt.Fprintf(&group, "%s:x:%d:\n", name, 20000+i)
		fmt.Fprintf(&shadow, "%s:$6$%s$%s:20000:0:99999:7:::\n", name, strings.Repeat("s", 16), strings.Repeat("h", 86))
		teams[i%100] = append(teams[i%100], name)
	}
	for i, members := range teams {
		fmt.Fprintf(&group, "team%02d:x:%d:%s\n", i, 1500000+i, strings.Join(members, ","))
	}
	return map[string]string{"passwd": passwd.String(), "group": group.String(), "shadow": shadow.String()}
}

const benchUsers = 20000

func BenchmarkIndexPasswd(b *testing.B) {
	text := big(benchUsers)["passwd"]
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		indexPasswd(text)
	}
}

func BenchmarkIndexGroup(b *testing.B) {
	text := big(benchUsers)["group"]
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		indexGroup(text)
	}
}

func BenchmarkIndexOneMoreLine(b *testing.B) {
	files := big(benchUsers)
	passwd, group := indexPasswd(files["passwd"]), indexGroup(files["group"])
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		passwd = passwd.of(fmt.Sprintf("%szed%d:x:50000:50000::/home/kim:/bin/bash\n", passwd.text, i))
		group = group.of(fmt.Sprintf("%szed%d:x:50000:\n", group.text, i))
	}
}

func BenchmarkViewUnchanged(b *testing.B) {
	l := newLedger(b, share(b, big(benchUsers)))
	l.racyFor = -1
	b.ReportAllocs()
	for b.Loop() {
		view(b, l)
	}
}

func BenchmarkGroupsOfOneUser(b *testing.B) {
	l := newLedger(b, share(b, big(benchUsers)))
	l.racyFor = -1
	b.ReportAllocs()
	for b.Loop() {
		if got := view(b, l).GroupsOf("user019999"); len(got) != 2 {
			b.Fatalf("%d groups", len(got))
		}
	}
}

func BenchmarkAddAndRemoveAccountInMemory(b *testing.B) {
	l := newLedger(b, share(b, big(benchUsers)))
	b.ReportAllocs()
	for b.Loop() {
		err := l.Look(b.Context(), func(tx *Tx) error {
			id, err := tx.NextUID()
			tx.AddGroup(farm.Group{Name: "zed", GID: id})
			tx.AddMember("zed", "team07")
			tx.AddAccount(farm.Account{Name: "zed", UID: id, GID: id, Home: "/home/zed", Shell: "/bin/bash"})
			tx.RemoveAccount("zed")
			tx.RemoveMember("zed")
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCommit(b *testing.B) {
	l := newLedger(b, share(b, big(benchUsers)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		name := fmt.Sprintf("zed%d", i)
		err := l.Update(b.Context(), func(tx *Tx) error {
			id, err := tx.NextUID()
			if err != nil {
				return err
			}
			tx.AddGroup(farm.Group{Name: farm.GroupName(name), GID: id})
			tx.AddAccount(farm.Account{Name: farm.UserName(name), UID: id, GID: id, Home: "/home/" + name, Shell: "/bin/bash"})
			return tx.SetPassword(farm.UserName(name), "$6$salt$hash")
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
