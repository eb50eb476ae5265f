// Package databasetest runs a test on each kind of database that the service can have. Only tests
// import it.
package databasetest

import (
	"path/filepath"
	"testing"

	"config-server/internal/database"
	"config-server/internal/testkit"
)

// Place is an empty database of one test. Open may be called more than once, as replicas would.
type Place struct {
	Dialect database.Dialect
	Open    func(t testing.TB, opts ...database.Option) *database.DB
}

// Each runs test on a SQLite file and on a real MariaDB, as parallel subtests with a database each.
func Each(t *testing.T, test func(t *testing.T, place Place)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, SQLite(t))
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		test(t, MariaDB(t))
	})
}

// SQLite gives a place for a SQLite file.
func SQLite(t testing.TB) Place {
	path := filepath.Join(t.TempDir(), "state", "config-server.db")
	return Place{Dialect: database.SQLite, Open: func(t testing.TB, opts ...database.Option) *database.DB {
		t.Helper()
		db, err := database.OpenSQLite(path, opts...)
		return opened(t, db, err)
	}}
}

// MariaDB gives an empty database on the shared server.
func MariaDB(t testing.TB) Place {
	server := testkit.MariaDB(t)
	return On(server, server.NewDatabase(t))
}

// On gives a database of a server.
func On(server *testkit.MariaDBServer, name string) Place {
	return Place{Dialect: database.MySQL, Open: func(t testing.TB, opts ...database.Option) *database.DB {
		t.Helper()
		db, err := database.OpenMySQL(Config(server, name), opts...)
		return opened(t, db, err)
	}}
}

// Config is how to reach a database of a server.
func Config(server *testkit.MariaDBServer, name string) database.MySQLConfig {
	return database.MySQLConfig{Host: server.Host, Port: server.Port, User: server.User, Password: server.Password, Name: name}
}

func opened(t testing.TB, db *database.DB, err error) *database.DB {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}
