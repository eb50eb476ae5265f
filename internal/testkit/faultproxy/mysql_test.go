package faultproxy_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
)

func TestMySQLFaults(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	for _, test := range []struct {
		name  string
		fault faultproxy.SQLFault
		want  string // "well", "error NUMBER", "broken" or "hangs"
		rows  int    // that the statement has left
	}{
		{"nothing", faultproxy.SQLFault{Match: "DELETE", Cut: true}, "well", 1},
		{"a hook alone looks on", faultproxy.SQLFault{Hook: func() {}}, "well", 1},
		{"a deadlock", faultproxy.SQLFault{Match: "INSERT INTO things", Errno: 1213}, "error 1213", 0},
		{"done, and an error told", faultproxy.SQLFault{Match: "INSERT", After: true, Errno: 1205}, "error 1205", 1},
		{"the connection breaks", faultproxy.SQLFault{Match: "INSERT", Cut: true}, "broken", 0},
		{"the answer is lost", faultproxy.SQLFault{Match: "INSERT", After: true, Cut: true}, "broken", 1},
		{"an answer that is none", faultproxy.SQLFault{Match: "INSERT", Garbage: true}, "broken", 0},
		{"no answer", faultproxy.SQLFault{Match: "INSERT", Hang: true}, "hangs", 0},
		{"done, and no answer", faultproxy.SQLFault{Match: "INSERT", After: true, Hang: true}, "hangs", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			name := server.NewDatabase(t)
			look := server.Open(t, name)
			if _, err := look.ExecContext(t.Context(), "CREATE TABLE things (id INT)"); err != nil {
				t.Fatal(err)
			}
			proxy := faultproxy.NewMySQL(t, net.JoinHostPort(server.Host, strconv.Itoa(server.Port)))
			db := through(t, proxy, server, name)
			proxy.Fail(test.fault)
			if got := insert(t, db, test.want == "hangs"); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			var rows int
			if err := look.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM things").Scan(&rows); err != nil || rows != test.rows {
				t.Errorf("%d rows, want %d (%v)", rows, test.rows, err)
			}
			proxy.Fail()
			if got := insert(t, db, false); got != "well" {
				t.Errorf("afterwards it is not well again: %s", got)
			}
		})
	}
}

func TestAMySQLServerThatIsGone(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	proxy := faultproxy.NewMySQL(t, net.JoinHostPort(server.Host, strconv.Itoa(server.Port)))
	db := through(t, proxy, server, server.NewDatabase(t))
	if err := db.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Refuse(true)
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("it still answers")
	}
	proxy.Refuse(false)
	if err := db.PingContext(t.Context()); err != nil {
		t.Errorf("it did not come back: %v", err)
	}
}

func through(t *testing.T, proxy *faultproxy.MySQL, server *testkit.MariaDBServer, name string) *sql.DB {
	t.Helper()
	config := mysql.NewConfig()
	config.User, config.Passwd, config.DBName = server.User, server.Password, name
	config.Net, config.Addr = "tcp", net.JoinHostPort(proxy.Host, strconv.Itoa(proxy.Port))
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func insert(t *testing.T, db *sql.DB, hangs bool) string {
	t.Helper()
	ctx := t.Context()
	if hangs {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
	}
	_, err := db.ExecContext(ctx, "INSERT INTO things VALUES (1)")
	var told *mysql.MySQLError
	switch {
	case err == nil:
		return "well"
	case errors.As(err, &told):
		return fmt.Sprintf("error %d", told.Number)
	case errors.Is(err, context.DeadlineExceeded):
		return "hangs"
	}
	return "broken"
}
