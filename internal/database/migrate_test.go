package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"config-server/internal/database"
	"config-server/internal/database/databasetest"
	"config-server/internal/testkit"
)

const handMade = `CREATE TABLE nodeport_allocations (
	id INT AUTO_INCREMENT PRIMARY KEY, username VARCHAR(255) NOT NULL, pod_name VARCHAR(255) NOT NULL,
	node_name VARCHAR(255) NOT NULL, internal_port INT NOT NULL, node_port INT NOT NULL,
	purpose VARCHAR(255) DEFAULT NULL, created_at DATETIME DEFAULT CURRENT_TIMESTAMP)`

const handMadeRow = `INSERT INTO nodeport_allocations (username, pod_name, node_name, internal_port, node_port, purpose)
	VALUES ('kim', 'ailab-kim-00000000', 'farm5', 22, 30000, 'ssh')`

func TestAdoptsTablesThatWereMadeByHand(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		setup []string
		rows  int
	}{
		"nothing there": {nil, 0},
		"no keys at all": {[]string{handMade, handMadeRow,
			"CREATE TABLE krb5_cleanup_pending (id INT AUTO_INCREMENT PRIMARY KEY, username VARCHAR(64), node_name VARCHAR(64), failed_at DATETIME)"}, 1},
		"keys of other names": {[]string{handMade, handMadeRow,
			"ALTER TABLE nodeport_allocations ADD UNIQUE (node_port), ADD KEY by_pod (pod_name), ADD KEY (username)"}, 1},
		"longer keys that serve": {[]string{handMade, handMadeRow,
			"ALTER TABLE nodeport_allocations ADD UNIQUE (node_port), ADD KEY (pod_name, node_port), ADD KEY (username, pod_name)"}, 1},
		"a key that is not unique":      {[]string{handMade, handMadeRow, "ALTER TABLE nodeport_allocations ADD KEY (node_port)"}, 1},
		"a unique key over too much":    {[]string{handMade, handMadeRow, "ALTER TABLE nodeport_allocations ADD UNIQUE (node_port, pod_name)"}, 1},
		"a column more than ours":       {[]string{handMade, handMadeRow, "ALTER TABLE nodeport_allocations ADD COLUMN note TEXT"}, 1},
		"column names in capitals":      {[]string{strings.ReplaceAll(handMade, "node_port", "NODE_PORT"), handMadeRow}, 1},
		"an older character set, latin": {[]string{handMade + " DEFAULT CHARSET latin1", handMadeRow}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.MariaDB(t)
			database := server.NewDatabase(t)
			look := server.Open(t, database)
			for _, statement := range test.setup {
				mustExec(t, look, statement)
			}
			db := databasetest.On(server, database).Open(t)
			for range 2 {
				if err := db.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := count(t, look, "SELECT COUNT(*) FROM nodeport_allocations"); got != test.rows {
				t.Errorf("%d rows, want %d", got, test.rows)
			}
			for column, unique := range map[string]bool{"node_port": true, "pod_name": false, "username": false} {
				indexes := count(t, look, `SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE()
					AND table_name = 'nodeport_allocations' AND column_name = ? AND seq_in_index = 1 AND non_unique = ?`, column, !unique)
				if indexes < 1 {
					t.Errorf("%d keys (unique: %t) on %s, want one", indexes, unique, column)
				}
			}
			mustExec(t, look, strings.ReplaceAll(handMadeRow, "30000", "30001"))
			if _, err := look.ExecContext(t.Context(), strings.ReplaceAll(handMadeRow, "30000", "30001")); err == nil {
				t.Error("a second row for one port was taken")
			}
			const pending = "INSERT INTO krb5_cleanup_pending (username, node_name, failed_at) VALUES ('kim', 'farm5', NOW())"
			mustExec(t, look, pending)
			if _, err := look.ExecContext(t.Context(), pending); err == nil {
				t.Error("a second pending clean-up of one user and node was taken")
			}
		})
	}
}

func TestRefusesTablesThatAreSomethingElse(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		setup []string
		want  string
	}{
		"columns are missing": {[]string{"CREATE TABLE nodeport_allocations (id INT PRIMARY KEY, node_port INT)"},
			"nodeport_allocations exists without the columns username, pod_name"},
		"a port has two rows": {[]string{handMade, handMadeRow, handMadeRow}, "Duplicate entry '30000'"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.MariaDB(t)
			name := server.NewDatabase(t)
			look := server.Open(t, name)
			for _, statement := range test.setup {
				mustExec(t, look, statement)
			}
			rows := count(t, look, "SELECT COUNT(*) FROM nodeport_allocations")
			db := databasetest.On(server, name).Open(t)
			err := db.Ready(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), name) {
				t.Errorf("error = %v, want it to name the database and %q", err, test.want)
			}
			if got := count(t, look, "SELECT COUNT(*) FROM nodeport_allocations"); got != rows {
				t.Errorf("%d rows, want %d as before", got, rows)
			}
		})
	}
}

func TestReplicasThatStartTogetherMigrateOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, place databasetest.Place) {
		var group sync.WaitGroup
		for range 6 {
			db := place.Open(t)
			for range 3 {
				group.Go(func() {
					if err := db.Ready(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
		db := place.Open(t)
		err := db.Read(t.Context(), "versions", func(ctx context.Context, q database.Queryer) error {
			var twice int
			err := q.QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT version_id FROM config_server_migrations
				GROUP BY version_id HAVING COUNT(*) > 1) AS doubled`).Scan(&twice)
			if twice != 0 {
				t.Errorf("%d versions were applied twice", twice)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestMigrationThatWasCutOffIsFinished(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"before the first version was noted": {"DELETE FROM config_server_migrations"},
		"before any version was noted":       {"DELETE FROM config_server_migrations WHERE version_id > 0"},
		"before version 3 was noted":         {"DELETE FROM config_server_migrations WHERE version_id >= 3"},
		"between the tables of a version": {"DELETE FROM config_server_migrations WHERE version_id >= 3",
			"DROP TABLE config_server_operations"},
	}
	for name, cut := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.MariaDB(t)
			name := server.NewDatabase(t)
			place := databasetest.On(server, name)
			if err := place.Open(t).Ready(t.Context()); err != nil {
				t.Fatal(err)
			}
			look := server.Open(t, name)
			const versions = "SELECT COUNT(DISTINCT version_id) FROM config_server_migrations"
			all := count(t, look, versions)
			for _, statement := range cut {
				mustExec(t, look, statement)
			}
			if err := place.Open(t).Ready(t.Context()); err != nil {
				t.Error(err)
			}
			for _, table := range []string{"nodeport_allocations", "krb5_cleanup_pending", "config_server_operations"} {
				if got := count(t, look, "SELECT COUNT(*) FROM "+table); got != 0 {
					t.Errorf("%s has %d rows", table, got)
				}
			}
			if got := count(t, look, versions); got != all {
				t.Errorf("%d versions are noted, want %d", got, all)
			}
		})
	}
}

func TestServerThatIsDown(t *testing.T) {
	t.Parallel()
	server := testkit.OwnMariaDB(t)
	name := server.NewDatabase(t)
	server.Stop(t)
	db := databasetest.On(server, name).Open(t, database.QueryTimeout(2*time.Second))
	add := func(user string) error {
		return db.InTx(t.Context(), "add", func(ctx context.Context, tx *sql.Tx) error { return insert(ctx, tx, user) })
	}
	for use, err := range map[string]error{"first use": add("a"), "ping": db.Ping(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), server.Password) {
			t.Errorf("%s: error = %v, want one that names the database and no password", use, err)
		}
	}

	server.Start(t)
	if err := add("a"); err != nil {
		t.Fatalf("after the start: %v", err)
	}
	// A restart breaks all pooled connections; nobody notices.
	server.Kill(t)
	server.Start(t)
	if err := add("b"); err != nil {
		t.Fatalf("after a crash: %v", err)
	}

	server.Freeze(t)
	// The signal takes effect when the kernel gets to it; until then the server answers.
	var begin time.Time
	var err error
	for i := 0; err == nil; i++ {
		begin = time.Now()
		err = add(fmt.Sprintf("c%d", i))
	}
	if !errors.Is(err, database.ErrNoAnswer) || !strings.Contains(err.Error(), name) {
		t.Errorf("frozen: error = %v, want that there is no answer, and from whom", err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("frozen: failed after %s, want the query's limit", took)
	}
	server.Thaw(t)
	if err := add("d"); err != nil {
		t.Fatalf("thawed: %v", err)
	}
	if _, err := db.Exec(t.Context(), "clean", "DELETE FROM krb5_cleanup_pending WHERE username LIKE 'c%'"); err != nil {
		t.Fatal(err)
	}
	wantUsers(t, db, "a", "b", "d")
}

func TestWrongPasswordIsNotTold(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	cfg := databasetest.Config(server, "some_database")
	cfg.Password = "wrong-and-secret"
	db, err := database.OpenMySQL(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Ready(t.Context())
	if err == nil || !strings.Contains(err.Error(), "Access denied") || strings.Contains(err.Error(), cfg.Password) {
		t.Errorf("error = %v, want a denial without the password", err)
	}
}

func TestSessionOfMySQL(t *testing.T) {
	t.Parallel()
	db := databasetest.MariaDB(t).Open(t)
	for variable, want := range map[string]string{
		"tx_isolation":             "READ-COMMITTED",
		"time_zone":                "+00:00",
		"innodb_lock_wait_timeout": "4",
		"character_set_client":     "utf8mb4",
	} {
		var got string
		err := db.Read(t.Context(), "variable", func(ctx context.Context, q database.Queryer) error {
			return q.QueryRowContext(ctx, "SELECT @@SESSION."+variable).Scan(&got)
		})
		if err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", variable, got, err, want)
		}
	}
}

func TestTablesThatVanishAreMadeAgain(t *testing.T) {
	t.Parallel()
	server := testkit.MariaDB(t)
	name := server.NewDatabase(t)
	db := databasetest.On(server, name).Open(t)
	if err := db.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	look := server.Open(t, "")
	mustExec(t, look, "DROP DATABASE "+name)
	mustExec(t, look, "CREATE DATABASE "+name)
	_, first := db.Exec(t.Context(), "clean", "DELETE FROM krb5_cleanup_pending")
	if first == nil {
		t.Error("the first use after the loss succeeded: it did not see the empty database")
	}
	if _, err := db.Exec(t.Context(), "clean", "DELETE FROM krb5_cleanup_pending"); err != nil {
		t.Error(err)
	}
}

func TestSQLiteFileIsPrivateAndOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a folder with 한글 & %20?", "state.db")
	for range 2 {
		db, err := database.OpenSQLite(path)
		if err != nil {
			t.Fatal(err)
		}
		err = db.InTx(t.Context(), "add", func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO krb5_cleanup_pending (username, node_name) VALUES ('a', (SELECT COUNT(*) FROM krb5_cleanup_pending))")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode = %o, want 600", got)
	}
	db, err := database.OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	wantUsers(t, db, "a", "a")
}

func TestOpenSQLiteNamesTheFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := database.OpenSQLite(filepath.Join(file, "state.db"))
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error = %v, want one that names %s", err, file)
	}
}

func TestDamagedSQLiteFileIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := database.OpenSQLite(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error = %v, want one that names %s", err, path)
	}
}

func mustExec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func count(t *testing.T, db *sql.DB, query string, args ...any) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestTablesAreLeftAsTheyAreFound(t *testing.T) {
	t.Parallel()
	db, err := database.OpenSQLite(filepath.Join(t.TempDir(), "left.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.LeaveTables()
	var tables int
	ask := func(query string) error {
		return db.Read(t.Context(), "count", func(ctx context.Context, q database.Queryer) error {
			return q.QueryRowContext(ctx, query).Scan(&tables)
		})
	}
	if err := ask("SELECT COUNT(*) FROM nodeport_allocations"); !database.IsMissingTable(err) {
		t.Errorf("a table that nobody made was asked: %v", err)
	}
	if err := ask("SELECT COUNT(*) FROM sqlite_master"); err != nil || tables != 0 {
		t.Errorf("%d tables, %v: they were made", tables, err)
	}
}
