package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func TestReasonOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		want string
	}{
		"deadlock":                 {&mysql.MySQLError{Number: 1213}, ReasonDeadlock},
		"lock wait":                {&mysql.MySQLError{Number: 1205}, ReasonLockWait},
		"duplicate key":            {&mysql.MySQLError{Number: 1062}, ReasonDuplicate},
		"wrapped":                  {fmt.Errorf("insert: %w", &mysql.MySQLError{Number: 1213}), ReasonDeadlock},
		"server shuts down":        {&mysql.MySQLError{Number: 1053}, ReasonConnection},
		"connection was killed":    {&mysql.MySQLError{Number: 1927}, ReasonConnection},
		"statement was killed":     {&mysql.MySQLError{Number: 1317}, ReasonConnection},
		"too many connections":     {&mysql.MySQLError{Number: 1040}, ReasonConnection},
		"wrong password":           {&mysql.MySQLError{Number: 1045}, ""},
		"no such table":            {&mysql.MySQLError{Number: 1146}, ""},
		"syntax":                   {&mysql.MySQLError{Number: 1064}, ""},
		"bad connection":           {driver.ErrBadConn, ReasonConnection},
		"broken answer":            {mysql.ErrInvalidConn, ReasonConnection},
		"end of file":              {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), ReasonConnection},
		"refused":                  {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, ReasonConnection},
		"reset":                    {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, ReasonConnection},
		"the caller's own error":   {errors.New("no free port"), ""},
		"no rows":                  {sql.ErrNoRows, ""},
		"the context ended":        {context.Canceled, ""},
		"the transaction was over": {sql.ErrTxDone, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := reasonOf(test.err); got != test.want {
				t.Errorf("reasonOf(%v) = %q, want %q", test.err, got, test.want)
			}
		})
	}
}

func TestUnansweredIsTheDatabasesFailureAlone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err    error
		failed bool
	}{
		"none":                     {nil, false},
		"deadlock":                 {&mysql.MySQLError{Number: 1213}, false},
		"lock wait":                {fmt.Errorf("insert: %w", &mysql.MySQLError{Number: 1205}), false},
		"duplicate key":            {finalError{&mysql.MySQLError{Number: 1062}}, false},
		"the caller's own error":   {errors.New("no free port"), false},
		"no rows":                  {sql.ErrNoRows, false},
		"server shuts down":        {&mysql.MySQLError{Number: 1053}, true},
		"wrong password":           {&mysql.MySQLError{Number: 1045}, true},
		"refused":                  {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		"lost in commit":           {commitError{cause: io.EOF}, true},
		"no answer":                {fmt.Errorf("%w: x", ErrNoAnswer), true},
		"nobody waits any more":    {fmt.Errorf("read: %w", context.Canceled), true},
		"the caller's time is out": {fmt.Errorf("read: %w", context.DeadlineExceeded), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := unanswered(test.err); (got != nil) != test.failed || test.failed && got != test.err {
				t.Errorf("unanswered(%v) = %v", test.err, got)
			}
		})
	}
}

func TestLockNameFitsTheServerAndIsTheDatabasesOwn(t *testing.T) {
	t.Parallel()
	one, two := &DB{scope: "farm"}, &DB{scope: "farm2"}
	long := string(make([]byte, 1000))
	for _, name := range []string{"ledger", "user/홍길동", "", long} {
		if n := len(one.LockName(name)); n > 64 {
			t.Errorf("LockName(%.20q) has %d characters, want at most 64", name, n)
		}
	}
	if one.LockName("ledger") == two.LockName("ledger") {
		t.Error("two databases on one server share a lock's name")
	}
	if one.LockName("a") == one.LockName("b") {
		t.Error("two locks share a name")
	}
}
