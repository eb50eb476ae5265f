package testkit

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MariaDBServer is a running MariaDB server. User may do everything on every database.
type MariaDBServer struct {
	Host     string // always 127.0.0.1
	Port     int
	User     string
	Password string

	proc *process // nil when another process runs the server
}

// databaseCount makes the names of databases unique within this process.
var databaseCount atomic.Int64

// sharedMariaDB starts this process's server on first use.
var sharedMariaDB = sync.OnceValues(func() (*MariaDBServer, error) {
	dir, err := partDir("mariadb")
	if err != nil {
		return nil, err
	}
	return startMariaDB(dir)
})

// MariaDB returns a server that this test shares with others: do not stop it, and use NewDatabase.
func MariaDB(t testing.TB) *MariaDBServer {
	t.Helper()
	needMariaDB(t)
	if set := sharedSet(t); set != nil && set.MariaDB != nil {
		server := *set.MariaDB
		return &server
	}
	server, err := sharedMariaDB()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// OwnMariaDB starts a server for this test alone, which may Stop, Kill, Freeze and Start it.
func OwnMariaDB(t testing.TB) *MariaDBServer {
	t.Helper()
	needMariaDB(t)
	server, err := startMariaDB(testPartDir(t, "mariadb"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.proc.kill)
	return server
}

func needMariaDB(t testing.TB) {
	t.Helper()
	Need(t, "MariaDB", "mariadb-server", "mariadbd", "mariadb-install-db")
	needRoot(t, "MariaDB")
}

// Start starts a stopped server again, on the same port and data, and waits until it answers.
func (s *MariaDBServer) Start(t testing.TB) { control(t, s.proc, "MariaDB").restart(t) }

// Stop ends the server in a friendly way.
func (s *MariaDBServer) Stop(t testing.TB) { control(t, s.proc, "MariaDB").stop() }

// Kill ends the server at once, as a crash would.
func (s *MariaDBServer) Kill(t testing.TB) { control(t, s.proc, "MariaDB").kill() }

// Freeze stops the server from answering while its connections stay open.
func (s *MariaDBServer) Freeze(t testing.TB) { control(t, s.proc, "MariaDB").freeze(t) }

// Thaw lets a frozen server go on.
func (s *MariaDBServer) Thaw(t testing.TB) { control(t, s.proc, "MariaDB").thaw(t) }

// NewDatabase makes an empty database for this test, removes it afterwards, and returns its name.
func (s *MariaDBServer) NewDatabase(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("t%d_%d", os.Getpid(), databaseCount.Add(1))
	s.exec(t, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	t.Cleanup(func() {
		if s.proc != nil && !s.proc.alive() {
			return // the test left it stopped; its folder goes with the test
		}
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		db := s.open("")
		defer db.Close()
		if _, err := db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+name); err != nil {
			t.Logf("drop database %s: %v", name, err)
		}
	})
	return name
}

// Open opens a database of this server for the test's own look at it. Times are parsed, in UTC.
func (s *MariaDBServer) Open(t testing.TB, database string) *sql.DB {
	t.Helper()
	db := s.open(database)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// KillConnections ends every client connection to database, as a failing server or network would,
// and returns their number.
func (s *MariaDBServer) KillConnections(t testing.TB, database string) int {
	t.Helper()
	db := s.open("")
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT id FROM information_schema.processlist WHERE db = ?", database)
	if err != nil {
		t.Fatalf("list connections to %s: %v", database, err)
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, id := range ids {
		// A connection that has ended since is what was wanted.
		if _, err := db.ExecContext(t.Context(), "KILL CONNECTION "+strconv.FormatInt(id, 10)); err == nil {
			killed++
		}
	}
	return killed
}

func (s *MariaDBServer) exec(t testing.TB, statement string) {
	t.Helper()
	db := s.open("")
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (s *MariaDBServer) open(database string) *sql.DB {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = s.User, s.Password, database
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	cfg.ParseTime, cfg.Timeout = true, 5*time.Second
	// Probes of a server that is starting would fill the test's output otherwise.
	cfg.Logger = log.New(io.Discard, "", 0)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		panic(fmt.Sprintf("testkit: MariaDB configuration: %v", err)) // only a fault of this package gets here
	}
	return sql.OpenDB(connector)
}

// mariaDBTemplate is a fresh data folder. Making one takes longer than everything else about a
// server, so that it is made once for a process, or a whole run, and copied.
var mariaDBTemplate = sync.OnceValues(func() (string, error) {
	if set, err := loadedSet(); err == nil && set != nil && set.MariaDBTemplate != "" {
		return set.MariaDBTemplate, nil
	}
	install, err := lookProgram("mariadb-install-db")
	if err != nil {
		return "", err
	}
	dir, err := partDir("mariadb-template")
	if err != nil {
		return "", err
	}
	// Servers that share /tmp remove one another's temporary tables.
	tmp, err := partDir("mariadb-tmp")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(install, "--no-defaults", "--datadir="+dir, "--tmpdir="+tmp, "--user=root",
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
		"--innodb-log-file-size=8M", "--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make the data folder of MariaDB: %w\n%s", err, out)
	}
	return dir, nil
})

// startMariaDB makes a data folder in dir and runs a server on it.
func startMariaDB(dir string) (*MariaDBServer, error) {
	daemon, err := lookProgram("mariadbd")
	if err != nil {
		return nil, err
	}
	template, err := mariaDBTemplate()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.CopyFS(data, os.DirFS(template)); err != nil {
		return nil, fmt.Errorf("copy the data folder of MariaDB: %w", err)
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	server := &MariaDBServer{Host: "127.0.0.1", Port: ports[0], User: "tester", Password: "tester-password"}
	init := filepath.Join(dir, "init.sql")
	grants := fmt.Sprintf("GRANT ALL ON *.* TO '%s'@'%%' IDENTIFIED BY '%s' WITH GRANT OPTION;\n", server.User, server.Password)
	if err := os.WriteFile(init, []byte(grants), 0o600); err != nil {
		return nil, fmt.Errorf("write the grants of MariaDB: %w", err)
	}
	server.proc = &process{
		name: "MariaDB", path: daemon, log: filepath.Join(dir, "mariadb.log"), dir: dir,
		args: []string{
			"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir, "--user=root", "--bind-address=127.0.0.1",
			"--port=" + strconv.Itoa(server.Port), "--socket=" + filepath.Join(dir, "sock"),
			"--pid-file=" + filepath.Join(dir, "pid"), "--init-file=" + init,
			"--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M",
			// Tests kill the server, not the machine: what the kernel has is safe, and fsync is slow.
			"--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--skip-log-bin",
			"--max-connections=500", "--skip-name-resolve", "--performance-schema=OFF",
		},
		ready: func(ctx context.Context) error {
			db := server.open("")
			defer db.Close()
			return db.PingContext(ctx)
		},
	}
	if err := server.proc.start(); err != nil {
		return nil, err
	}
	return server, nil
}
