package kerberos_test

import (
	"slices"
	"strings"
	"testing"

	"config-server/internal/database"
	"config-server/internal/farm"
	"config-server/internal/kerberos"
	"config-server/internal/testkit"
)

func TestPendingOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) *database.DB{
		"SQLite": openTable,
		"MariaDB": func(t *testing.T) *database.DB {
			server := testkit.MariaDB(t)
			db, err := database.OpenMySQL(database.MySQLConfig{Host: server.Host, Port: server.Port, User: server.User, Password: server.Password, Name: server.NewDatabase(t)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			return db
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			table := kerberos.NewTable(open(t))
			kim, lee := farm.KeytabLeft{User: "kim", Node: "farm5"}, farm.KeytabLeft{User: "lee", Node: "farm5"}
			for _, left := range []farm.KeytabLeft{kim, lee, kim} {
				must(t, table.Note(ctx, left))
			}
			got, err := table.List(ctx)
			if err != nil || !slices.Equal(got, []farm.KeytabLeft{kim, lee}) {
				t.Errorf("%v, %v", got, err)
			}
			for _, left := range []farm.KeytabLeft{{User: "KIM", Node: "farm5"}, {User: "kim", Node: "farm6"}, kim, kim} {
				must(t, table.Forget(ctx, left))
			}
			if got, err = table.List(ctx); err != nil || !slices.Equal(got, []farm.KeytabLeft{lee}) {
				t.Errorf("after forgetting kim: %v, %v", got, err)
			}
			for _, left := range []farm.KeytabLeft{{User: farm.UserName(strings.Repeat("n", 65)), Node: "farm5"}, {User: "kim", Node: farm.NodeName(strings.Repeat("n", 65))}} {
				if err := table.Note(ctx, left); err == nil || !strings.Contains(err.Error(), "64") {
					t.Errorf("a name that does not fit: %v", err)
				}
			}
			must(t, table.Note(ctx, farm.KeytabLeft{User: farm.UserName(strings.Repeat("가", 64)), Node: "farm5"}))
		})
	}
}

func TestANameThatDiffersOnlyInCaseIsNotTakenForNoted(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	db, err := database.OpenMySQL(database.MySQLConfig{Host: server.Host, Port: server.Port, User: server.User, Password: server.Password, Name: server.NewDatabase(t)})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	table := kerberos.NewTable(db)
	must(t, table.Note(t.Context(), farm.KeytabLeft{User: "kim", Node: "farm5"}))
	if err := table.Note(t.Context(), farm.KeytabLeft{User: "Kim", Node: "farm5"}); err == nil {
		t.Error("Kim was taken for noted by the row of kim")
	}
}
