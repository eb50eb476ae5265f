package httpapi

import (
	"fmt"
	"testing"

	"config-server/internal/farm"
)

// BenchmarkEncodeUserList is the work for a new state of the share: plain and zipped form of 20,000
// users.
func BenchmarkEncodeUserList(b *testing.B) {
	users := make([]account, 20000)
	for i := range users {
		name := fmt.Sprintf("user%06d", i)
		users[i] = accountJSON(farm.Account{
			Name: farm.UserName(name), UID: farm.ID(20000 + i), GID: farm.ID(20000 + i),
			Gecos: "GPU User", Home: "/home/" + name, Shell: "/bin/bash",
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		list := encodeList("users", object{"users": users})
		if list.err != nil {
			b.Fatal(list.err)
		}
		b.SetBytes(int64(len(list.plain)))
	}
}
