// Package database opens the service's database, MySQL or an embedded SQLite file, brings its
// tables up to date and runs transactions with bounded retry.
//
// Opening needs no server: the tables are made or adopted at first use (Ready), and again at the
// next use when the server was down. Every attempt of a transaction, of a statement and of a read
// has a time limit of its own besides the caller's context. Errors never carry the password.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"config-server/internal/farm"
)

// Dialect names the kind of SQL that a database speaks.
type Dialect string

// The dialects.
const (
	MySQL  Dialect = "mysql"
	SQLite Dialect = "sqlite"
)

// The limits that hold unless an Option says otherwise.
const (
	// DefaultConnectTimeout bounds the making of a connection.
	DefaultConnectTimeout = 5 * time.Second
	// DefaultQueryTimeout bounds one attempt of a transaction, a statement or a read.
	DefaultQueryTimeout = 10 * time.Second
	// DefaultLockWait bounds the wait for a row that another transaction holds. It is shorter than
	// the query's limit, so that the server's answer 1205 comes and the attempt can be repeated.
	DefaultLockWait = 4 * time.Second
)

// The reasons for which a transaction, a statement or a read is run again, as Retried is told them.
const (
	ReasonDeadlock   = "deadlock"   // MySQL 1213
	ReasonLockWait   = "lock_wait"  // MySQL 1205, SQLite's busy
	ReasonDuplicate  = "duplicate"  // MySQL 1062, SQLite's unique constraint
	ReasonConnection = "connection" // the connection was refused or lost before the commit
	ReasonCommit     = "commit"     // the connection was lost in the commit of something repeatable
)

// ErrCommitUnknown is returned, wrapped, when the connection was lost in COMMIT: the transaction may
// or may not have happened. It comes only from transactions that are not marked Repeatable.
var ErrCommitUnknown = errors.New("connection lost in commit: it is not known whether the change was kept")

// ErrNoAnswer is returned, wrapped, when one attempt had no answer within the query's limit.
var ErrNoAnswer = errors.New("no answer from the database in time")

// DB is an open database. It is safe for concurrent use.
type DB struct {
	dialect Dialect
	object  string // what an error calls the database: never with a password
	write   *sql.DB
	read    *sql.DB // the same as write on MySQL
	lock    *sql.DB // MySQL: connections that hold named locks; nil on SQLite
	scope   string  // MySQL: the database's name, because named locks are the whole server's
	file    string  // SQLite: the file
	opts    options

	ready atomic.Bool
	// asFound: the tables are neither made nor adopted.
	asFound atomic.Bool
	// turn holds one token: whoever put it there migrates, and may touch the two below.
	turn     chan struct{}
	failedAt time.Time
	failure  error
}

type options struct {
	retried        func(ctx context.Context, name, reason string)
	called         farm.CallObserver
	connectTimeout time.Duration
	queryTimeout   time.Duration
	lockWait       time.Duration
}

// Option changes how a database is opened.
type Option func(*options)

// Retried has f called before each repetition, with the name of the transaction, statement or read
// and one of the Reason constants. It must not block.
func Retried(f func(ctx context.Context, name, reason string)) Option {
	return func(o *options) { o.retried = f }
}

// Called has f told of each attempt of a transaction, a statement or a read, by its name.
func Called(f farm.CallObserver) Option { return func(o *options) { o.called = f } }

// ConnectTimeout replaces DefaultConnectTimeout.
func ConnectTimeout(d time.Duration) Option { return func(o *options) { o.connectTimeout = d } }

// QueryTimeout replaces DefaultQueryTimeout.
func QueryTimeout(d time.Duration) Option { return func(o *options) { o.queryTimeout = d } }

// LockWait replaces DefaultLockWait. MySQL counts it in whole seconds, at least one.
func LockWait(d time.Duration) Option { return func(o *options) { o.lockWait = d } }

func newDB(dialect Dialect, object string, opts []Option) *DB {
	db := &DB{
		dialect: dialect,
		object:  object,
		turn:    make(chan struct{}, 1),
		opts: options{
			retried:        func(context.Context, string, string) {},
			connectTimeout: DefaultConnectTimeout,
			queryTimeout:   DefaultQueryTimeout,
			lockWait:       DefaultLockWait,
		},
	}
	for _, option := range opts {
		option(&db.opts)
	}
	return db
}

// Dialect tells which SQL the database speaks.
func (db *DB) Dialect() Dialect { return db.dialect }

// String is the database as logs and errors call it: dialect, address and name, without user and
// password.
func (db *DB) String() string { return db.object }

// Pools are the pools of connections by name, for figures alone: main on MySQL, with that of the named
// locks as locks; write and read on SQLite.
func (db *DB) Pools() map[string]*sql.DB {
	if db.dialect == SQLite {
		return map[string]*sql.DB{"write": db.write, "read": db.read}
	}
	return map[string]*sql.DB{"main": db.write, "locks": db.lock}
}

// LeaveTables keeps this DB from making or adopting tables: it is for programs that only look. A
// table that is missing is then an error of the statement that asks for it.
func (db *DB) LeaveTables() { db.asFound.Store(true) }

// Ping asks the database for a sign of life, within the query's limit. It makes no tables.
func (db *DB) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, db.opts.queryTimeout)
	defer cancel()
	if err := db.write.PingContext(ctx); err != nil {
		return fmt.Errorf("reach %s: %w", db.object, err)
	}
	return nil
}

// Close closes all connections. Named locks held on them are free then.
func (db *DB) Close() error {
	var errs []error
	for _, pool := range []*sql.DB{db.lock, db.read, db.write} {
		if pool == nil {
			continue
		}
		// A connection to a server that was broken meanwhile is as closed as it can be; the driver's
		// error for a farewell that could not be sent has no name to tell it by.
		if err := pool.Close(); db.dialect != MySQL {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close %s: %w", db.object, err)
	}
	return nil
}
