package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Error numbers of MySQL and MariaDB.
const (
	mysqlTooManyConnections = 1040
	mysqlShutdown           = 1053
	mysqlDuplicate          = 1062
	mysqlUnknownTable       = 1146
	mysqlLockWait           = 1205
	mysqlDeadlock           = 1213
	mysqlInterrupted        = 1317
	mysqlBadText            = 1366
	mysqlTooLong            = 1406
	mariadbKilled           = 1927
	mysqlIdleDisconnect     = 4031
)

// reasonOf tells why an attempt that changed nothing may be repeated; empty = it may not.
func reasonOf(err error) string {
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return mysqlReason(my.Number)
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		return sqliteReason(lite.Code())
	}
	if connectionLost(err) {
		return ReasonConnection
	}
	return ""
}

func mysqlReason(number uint16) string {
	switch number {
	case mysqlDeadlock:
		return ReasonDeadlock
	case mysqlLockWait:
		return ReasonLockWait
	case mysqlDuplicate:
		return ReasonDuplicate
	case mysqlTooManyConnections, mysqlShutdown, mysqlInterrupted, mariadbKilled, mysqlIdleDisconnect:
		return ReasonConnection
	}
	return ""
}

func sqliteReason(code int) string {
	switch {
	case code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return ReasonDuplicate
	// The low byte is the primary code; the rest says which kind of busy it is.
	case code&0xff == sqlite3.SQLITE_BUSY || code&0xff == sqlite3.SQLITE_LOCKED:
		return ReasonLockWait
	}
	return ""
}

func connectionLost(err error) bool {
	for _, lost := range []error{
		driver.ErrBadConn, mysql.ErrInvalidConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}

// unanswered is nil if the database answered in good order: an attempt that it refused because of
// another transaction or a key, and what our own code makes of its answers, are no failures of its.
func unanswered(err error) error {
	if err == nil {
		return nil
	}
	switch reasonOf(err) {
	case ReasonDeadlock, ReasonLockWait, ReasonDuplicate:
		return nil
	case ReasonConnection:
		return err
	}
	var my *mysql.MySQLError
	var lite *sqlite.Error
	for _, ended := range []error{ErrNoAnswer, ErrCommitUnknown, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return err
		}
	}
	if errors.As(err, &my) || errors.As(err, &lite) {
		return err
	}
	return nil
}

// IsDuplicate reports whether a statement failed because a unique key has the value already.
func IsDuplicate(err error) bool { return reasonOf(err) == ReasonDuplicate }

// IsUnstorable reports whether a statement failed because a column cannot hold the text: its
// character set lacks a character, or it is too short. Tables made by hand may be latin1 or utf8mb3.
func IsUnstorable(err error) bool {
	var my *mysql.MySQLError
	return errors.As(err, &my) && (my.Number == mysqlBadText || my.Number == mysqlTooLong)
}

// IsMissingTable reports whether a statement failed because one of the service's tables is not
// there: somebody removed it while we run, or after LeaveTables no service has used the database yet.
func IsMissingTable(err error) bool {
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		return my.Number == mysqlUnknownTable
	}
	// SQLite has one code for all mistakes in a statement; its words tell them apart.
	var lite *sqlite.Error
	return errors.As(err, &lite) && lite.Code() == sqlite3.SQLITE_ERROR && strings.Contains(lite.Error(), "no such table")
}
