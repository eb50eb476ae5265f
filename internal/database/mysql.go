package database

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MySQLConfig says where the MySQL server is and who we are there.
type MySQLConfig struct {
	Host     string
	Port     int
	User     string
	Password string
	Name     string // of the database; it must exist
}

const (
	// Requests queue in the pool rather than exhaust the server's connections, which other
	// services share (its default limit is 151).
	maxConnections     = 16
	maxLockConnections = 16
	idleLife           = time.Minute
	// The server's own limit is eight hours, but firewalls in between forget sooner.
	connectionLife = 10 * time.Minute
)

// OpenMySQL prepares connections to a MySQL or MariaDB server. It does not connect: a server that
// is down is an error of the first use, and of no later one. It fails only on a configuration that
// the driver refuses.
func OpenMySQL(cfg MySQLConfig, opts ...Option) (*DB, error) {
	addr := net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port))
	db := newDB(MySQL, fmt.Sprintf("MySQL database %s at %s", cfg.Name, addr), opts)
	db.scope = cfg.Name

	c := mysql.NewConfig()
	c.User, c.Passwd = cfg.User, cfg.Password
	c.Net, c.Addr, c.DBName = "tcp", addr, cfg.Name
	c.Collation = "utf8mb4_general_ci"
	c.ParseTime, c.Loc = true, time.UTC
	c.Timeout = db.opts.connectTimeout
	// The context of an attempt ends first; these are the second line for calls without one.
	c.ReadTimeout = db.opts.queryTimeout + 2*time.Second
	c.WriteTimeout = db.opts.queryTimeout + 2*time.Second
	// An update that changes nothing still has to tell whether the row exists.
	c.ClientFoundRows = true
	// One round trip a statement instead of two.
	c.InterpolateParams = true
	// The driver would write to standard error on its own.
	c.Logger = &mysql.NopLogger{}
	c.Params = map[string]string{
		"sql_mode":                 "'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,ERROR_FOR_DIVISION_BY_ZERO'",
		"time_zone":                "'+00:00'",
		"innodb_lock_wait_timeout": strconv.Itoa(wholeSeconds(db.opts.lockWait)),
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", db.object, err)
	}
	// MySQL and MariaDB have different names for the variable, but share this statement.
	session := sessionConnector{Connector: connector, setup: "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"}

	db.write = sql.OpenDB(session)
	db.write.SetMaxOpenConns(maxConnections)
	db.write.SetMaxIdleConns(maxConnections)
	db.write.SetConnMaxIdleTime(idleLife)
	db.write.SetConnMaxLifetime(connectionLife)
	db.read = db.write
	// Locks have connections of their own: holders that wait for a connection to work on would
	// otherwise wait for one another. Their connections never expire, as the lock would be lost.
	db.lock = sql.OpenDB(session)
	db.lock.SetMaxOpenConns(maxLockConnections)
	db.lock.SetMaxIdleConns(2)
	return db, nil
}

// LockConn takes a connection out of the pool that is kept for named locks (GET_LOCK). Its owner
// closes it. It fails on SQLite, which has no named locks, and when the server cannot be reached.
func (db *DB) LockConn(ctx context.Context) (*sql.Conn, error) {
	if db.lock == nil {
		return nil, fmt.Errorf("connect to %s: it has no named locks", db.object)
	}
	conn, err := db.lock.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", db.object, err)
	}
	return conn, nil
}

// LockName is the name under which a lock stands on the server: names are the whole server's and
// have at most 64 characters, so it is a hash of the database's name and the lock's.
func (db *DB) LockName(name string) string {
	sum := sha256.Sum256([]byte(db.scope + "\x00" + name))
	return "config-server:" + hex.EncodeToString(sum[:24])
}

// sessionConnector runs one statement on each new connection.
type sessionConnector struct {
	driver.Connector
	setup string
}

// Connect makes a connection and prepares its session.
func (c sessionConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	execer, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the driver's connection runs no statements"), conn.Close())
	}
	if _, err := execer.ExecContext(ctx, c.setup, nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func wholeSeconds(d time.Duration) int { return max(1, int(d.Round(time.Second)/time.Second)) }
