// Package remote runs commands on one host over SSH.
//
// All commands to a host share one connection, which is made when the first command needs it and
// made anew when it is found broken. At most Options.MaxSessions commands run on it at once; the
// others wait. There is no memory of an outage: the next command tries at once.
//
// A command whose connection breaks before its exit status arrives is sent once more over a new
// connection, because the first one may just have grown stale. It may therefore run twice: send
// only commands that repeat safely, as looking, mkdir -p, chown, chmod and rm -rf do.
package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"config-server/internal/farm"
)

// Defaults of Options.
const (
	DefaultPort             = 22
	DefaultConnectTimeout   = 5 * time.Second
	DefaultHandshakeTimeout = 5 * time.Second
	DefaultCommandTimeout   = 20 * time.Second
	DefaultKeepalive        = 15 * time.Second
	// DefaultMaxSessions is half of the 10 sessions that sshd allows on a connection by default. A
	// session that has ended is counted until sshd comes round to clean up after it, and by then each
	// may have a successor; one session too many is refused, and costs a new connection.
	DefaultMaxSessions = 5
)

const (
	maxStdout = 64 << 20 // bytes; a listing of several hundred thousand homes
	maxStderr = 1 << 10  // bytes
)

// Options of a Client. The zero value of a limit stands for its default.
type Options struct {
	Host    string
	Port    int
	User    string
	KeyPath string // private key in OpenSSH or PEM form; read at every connect, so that it may be replaced
	// KnownHosts is a file in the form of ssh_known_hosts, read at every connect; empty = any host
	// key is accepted, and New warns of it.
	KnownHosts string

	ConnectTimeout   time.Duration // TCP connect
	HandshakeTimeout time.Duration // banner, key exchange and authentication together
	CommandTimeout   time.Duration // one command from opening its session to its exit; waiting for a turn and connecting are not counted
	Keepalive        time.Duration // between two probes of a connection, and the limit of each answer
	MaxSessions      int           // commands at once

	Log *slog.Logger // nil = slog.Default
	// Connected is told how each attempt to connect ended, and whether it was made because a connection
	// that there had been was gone; nil = nobody. It must not block.
	Connected func(again bool, err error)
	// Called is told of each command that was sent or should have been, the wait for its turn left out;
	// nil = nobody.
	Called farm.CallObserver
	// Dial opens the TCP connection; nil = net.Dialer. Tests put faults here.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client runs commands on one host. It is safe for concurrent use.
type Client struct {
	opts    Options
	address string
	turns   chan struct{} // one token a running command

	mu      sync.Mutex
	closed  bool
	ever    bool        // there was a connection
	current *connection // nil, or the connection that new commands use
	connect *attempt    // nil, or the attempt that is under way
}

// New checks the options and returns a client that is not yet connected. Without KnownHosts it
// logs one warning.
func New(opts Options) (*Client, error) {
	if opts.Host == "" || opts.User == "" || opts.KeyPath == "" {
		return nil, errors.New("ssh: host, user and key path are required")
	}
	setDefault(&opts.Port, DefaultPort)
	if opts.Port < 1 || opts.Port > 65535 {
		return nil, fmt.Errorf("ssh %s: port %d is outside 1..65535", opts.Host, opts.Port)
	}
	setDefault(&opts.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&opts.HandshakeTimeout, DefaultHandshakeTimeout)
	setDefault(&opts.CommandTimeout, DefaultCommandTimeout)
	setDefault(&opts.Keepalive, DefaultKeepalive)
	setDefault(&opts.MaxSessions, DefaultMaxSessions)
	if opts.MaxSessions < 1 {
		return nil, fmt.Errorf("ssh %s: at least one session is needed", opts.Host)
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Connected == nil {
		opts.Connected = func(bool, error) {}
	}
	if opts.Dial == nil {
		opts.Dial = new(net.Dialer).DialContext
	}
	if opts.KnownHosts == "" {
		opts.Log.Warn("SSH host keys are not checked, because no known_hosts file is given", "host", opts.Host)
	}
	return &Client{
		opts:    opts,
		address: net.JoinHostPort(opts.Host, strconv.Itoa(opts.Port)),
		turns:   make(chan struct{}, opts.MaxSessions),
	}, nil
}

func setDefault[T comparable](value *T, def T) {
	var zero T
	if *value == zero {
		*value = def
	}
}

// Host is the host that the client was made for.
func (c *Client) Host() string { return c.opts.Host }

// Run runs one command, its arguments quoted for the remote shell, with stdin as its standard
// input, and returns what it wrote to standard output.
//
// Errors name the host. A command that ran and failed gives a *ExitError; a host that cannot be
// reached or does not let us in, a *ConnectError; a command over its limit wraps
// context.DeadlineExceeded; after Close, ErrClosed. An argument with a NUL is refused before
// anything is sent.
func (c *Client) Run(ctx context.Context, argv []string, stdin []byte) (string, error) {
	command, err := commandLine(argv)
	if err != nil {
		return "", fmt.Errorf("ssh %s: %w", c.opts.Host, err)
	}
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return "", fmt.Errorf("ssh %s: wait for a session: %w", c.opts.Host, context.Cause(ctx))
	}
	begin := time.Now()
	stdout, err := c.runOnce(ctx, command, stdin)
	if isBroken(err) && ctx.Err() == nil {
		stdout, err = c.runOnce(ctx, command, stdin)
	}
	c.opts.Called.Tell(ctx, command, begin, unanswered(err))
	if err != nil {
		return "", fmt.Errorf("ssh %s: %w", c.opts.Host, err)
	}
	return stdout, nil
}

// Close ends the connection; commands that run fail. It may be called more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	conn := c.current
	c.closed, c.current = true, nil
	c.mu.Unlock()
	if conn != nil {
		conn.close()
	}
	return nil
}

// commandLine quotes the arguments of a command.
func commandLine(argv []string) (string, error) {
	if len(argv) == 0 {
		return "", errors.New("no command")
	}
	for _, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			return "", errors.New("an argument contains NUL")
		}
	}
	return Quote(argv...), nil
}

// runOnce runs the command on the present connection or on a new one.
func (c *Client) runOnce(ctx context.Context, command string, stdin []byte) (string, error) {
	conn, err := c.acquire(ctx)
	if err != nil {
		return "", err
	}
	defer c.release(conn)

	limited, cancel := context.WithTimeoutCause(ctx, c.opts.CommandTimeout,
		fmt.Errorf("no answer within %v: %w", c.opts.CommandTimeout, context.DeadlineExceeded))
	defer cancel()

	result := make(chan outcome, 1)
	go func() { result <- runSession(conn.client, command, stdin) }()
	select {
	case out := <-result:
		if isBroken(out.err) {
			c.retire(conn)
		}
		return out.stdout, out.err
	case <-limited.Done():
		// The other side goes on with the command and keeps its session occupied, or the
		// connection is dead. Either way nobody shall build on it any more; it is closed as soon
		// as the commands that still run on it have ended, and that ends the goroutine too.
		c.retire(conn)
		return "", context.Cause(limited)
	}
}

type outcome struct {
	stdout string
	err    error
}

// runSession runs a command in a session of its own. It may block for as long as the connection lives.
func runSession(client *ssh.Client, command string, stdin []byte) outcome {
	session, err := client.NewSession()
	if err != nil {
		return outcome{err: &brokenError{fmt.Errorf("open session: %w", err)}}
	}
	defer session.Close()

	stdout, stderr := &boundedBuffer{limit: maxStdout}, &boundedBuffer{limit: maxStderr}
	session.Stdin, session.Stdout, session.Stderr = bytes.NewReader(stdin), stdout, stderr
	err = session.Run(command)

	var exit *ssh.ExitError
	switch {
	case errors.As(err, &exit):
		return outcome{err: &ExitError{Status: exit.ExitStatus(), Stderr: oneLine(stderr.String())}}
	case err != nil:
		return outcome{err: &brokenError{fmt.Errorf("no exit status: %w", err)}}
	case stdout.cut:
		return outcome{err: fmt.Errorf("more than %d bytes of output", maxStdout)}
	}
	return outcome{stdout: stdout.String()}
}
