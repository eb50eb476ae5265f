package remote

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ErrClosed is returned, wrapped, by Run after Close.
var ErrClosed = errors.New("client is closed")

// ConnectError says that there is no connection: the host is not reached, shows a wrong key, or
// does not let us in. No command was sent.
type ConnectError struct {
	Address string // host:port
	Err     error
}

// Error names the address.
func (e *ConnectError) Error() string { return fmt.Sprintf("connect to %s: %v", e.Address, e.Err) }

// Unwrap returns the reason.
func (e *ConnectError) Unwrap() error { return e.Err }

// Timeout reports whether the host did not answer in time.
func (e *ConnectError) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(e.Err, &timeout) && timeout.Timeout()
}

// ExitError says that a command ran on the other side and ended with a status other than 0.
type ExitError struct {
	Status int    // 1..255; above 128 also for a command that a signal ended
	Stderr string // the beginning of standard error, bounded, on one line
}

// Error gives the status and what the command said.
func (e *ExitError) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return fmt.Sprintf("exit status %d: %s", e.Status, e.Stderr)
}

// Refused reports that the other side did get the command and said no: asking again changes nothing.
func (e *ExitError) Refused() bool { return true }

// brokenError says that no exit status arrived: the connection, or at least the session, is lost.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

func isBroken(err error) bool {
	var broken *brokenError
	return errors.As(err, &broken)
}

// unanswered is nil if the command ran to its end, whatever its status: then the host is well.
func unanswered(err error) error {
	var exit *ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// boundedBuffer keeps the first limit bytes and lets the rest go, so that the writer never blocks.
// The buffer is no embedded one: its ReadFrom would pass by the limit.
type boundedBuffer struct {
	kept  bytes.Buffer
	limit int
	cut   bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	room := b.limit - b.kept.Len()
	if len(p) > room {
		b.cut = true
		b.kept.Write(p[:room])
		return len(p), nil
	}
	return b.kept.Write(p)
}

func (b *boundedBuffer) String() string { return b.kept.String() }

// oneLine makes output fit for an error text: white space is one blank, other control characters go.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return strings.Join(strings.Fields(text), " ")
}
