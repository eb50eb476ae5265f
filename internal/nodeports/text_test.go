package nodeports_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/farm"
	"config-server/internal/nodeports"
	"config-server/internal/testkit"
)

func TestRowsKeepTheTextOfAPurpose(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("긴", 300)
	emoji := "모델 🚀 서버"
	tests := map[string]struct {
		table string // empty = our own
		in    string
		want  string
	}{
		"Korean":                                   {"", "내 웹 서버", "내 웹 서버"},
		"an emoji":                                 {"", emoji, emoji},
		"long text is cut by characters":           {"", long, strings.Repeat("긴", 255)},
		"no UTF-8":                                 {"", "a\xffb", "a\uFFFDb"},
		"quotes and NUL":                           {"", "a'b\\\"\x00c", "a'b\\\"\x00c"},
		"a table in utf8mb3 has no emoji":          {"CHARSET utf8mb3", emoji, farm.PurposeLabel(emoji)},
		"a table in utf8mb3 has Korean":            {"CHARSET utf8mb3", "웹 서버", "웹 서버"},
		"a table in latin1 has no Korean":          {"CHARSET latin1", "웹 서버", farm.PurposeLabel("웹 서버")},
		"a table in latin1 has plain text":         {"CHARSET latin1", "web server", "web server"},
		"a table with a shorter column, Korean":    {"short", long, farm.PurposeLabel(long)},
		"a table with a shorter column, fits well": {"short", "ssh", "ssh"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := func(t *testing.T, db *database.DB) {
				a := nodeports.New(db, nodeports.Options{})
				ports, err := a.Reserve(t.Context(), owner("kim"), []farm.PortWant{{Internal: 22, Purpose: "ssh"}, {Internal: 80, Purpose: test.in}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if ports[1].Purpose != test.in {
					t.Errorf("answer = %q, want the text as it was asked", ports[1].Purpose)
				}
				all := rows(t, a)
				if len(all) != 2 || all[0].Port.Purpose != "ssh" || all[1].Port.Purpose != test.want {
					t.Errorf("rows = %+v, want purposes ssh and %q", all, test.want)
				}
			}
			if test.table == "" {
				databasetest.Each(t, func(t *testing.T, place databasetest.Place) { check(t, place.Open(t)) })
				return
			}
			server := testkit.MariaDB(t)
			name := server.NewDatabase(t)
			handMade(t, server.Open(t, name), test.table)
			check(t, databasetest.On(server, name).Open(t))
		})
	}
}

func handMade(t *testing.T, db *sql.DB, kind string) {
	t.Helper()
	length, options := 255, kind
	if kind == "short" {
		length, options = 100, ""
	}
	_, err := db.ExecContext(t.Context(), fmt.Sprintf(`CREATE TABLE nodeport_allocations (
		id INT AUTO_INCREMENT PRIMARY KEY, username VARCHAR(255), pod_name VARCHAR(255), node_name VARCHAR(255),
		internal_port INT, node_port INT UNIQUE, purpose VARCHAR(%d) NULL, created_at DATETIME DEFAULT CURRENT_TIMESTAMP) %s`, length, options))
	if err != nil {
		t.Fatal(err)
	}
}

func TestHandMadeRowsWithNullsCanBeRead(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	name := server.NewDatabase(t)
	look := server.Open(t, name)
	handMade(t, look, "")
	_, err := look.ExecContext(t.Context(), `INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port, purpose, created_at)
		VALUES ('kim', 'ailab-kim-00000000', 'farm5', 22, 30000, NULL, NULL)`)
	if err != nil {
		t.Fatal(err)
	}
	a := nodeports.New(databasetest.On(server, name).Open(t), nodeports.Options{})
	wantHolders(t, a, "30000 kim")
	wantPorts(t, reserve(t, a, "lee", 1), 30001)
}
