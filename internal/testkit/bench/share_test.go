//go:build bench

package bench_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// userName is the name of the i-th user of writeShare.
func userName(i int) string { return fmt.Sprintf("user%06d", i) }

func userNames(from, to int) []string {
	names := make([]string, 0, to-from)
	for i := from; i < to; i++ {
		names = append(names, userName(i))
	}
	return names
}

// firstUID is the uid of the first user.
const firstUID = 20000

// writeShare writes passwd, group and shadow with so many users, each with a private group and in
// one of a hundred teams, and returns the folder.
func writeShare(t testing.TB, users int) string {
	t.Helper()
	var passwd, group, shadow strings.Builder
	passwd.WriteString("root:x:0:0:root:/root:/bin/bash\n")
	group.WriteString("root:x:0:\nsudo:x:27:\n")
	shadow.WriteString("root:*:20000:0:99999:7:::\n")
	teams := make([][]string, 100)
	hash := "$6$" + strings.Repeat("s", 16) + "$" + strings.Repeat("h", 86)
	for i := range users {
		name := userName(i)
		fmt.Fprintf(&passwd, "%s:x:%d:%d:GPU User:/home/%s:/bin/bash\n", name, firstUID+i, firstUID+i, name)
		fmt.Fprintf(&group, "%s:x:%d:\n", name, firstUID+i)
		fmt.Fprintf(&shadow, "%s:%s:20000:0:99999:7:::\n", name, hash)
		teams[i%len(teams)] = append(teams[i%len(teams)], name)
	}
	for i, members := range teams {
		fmt.Fprintf(&group, "team%02d:x:%d:%s\n", i, 1_500_000+i, strings.Join(members, ","))
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"passwd": passwd.String(), "group": group.String(), "shadow": shadow.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
