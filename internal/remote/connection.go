package remote

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// connection is one SSH connection. Its counters are guarded by the client's mutex.
type connection struct {
	client  *ssh.Client
	raw     net.Conn
	running int  // commands on it
	retired bool // no new commands; closed when running is 0

	once   sync.Once
	closed chan struct{}
}

// close ends the connection without asking the other side, which may be dead.
func (k *connection) close() {
	k.once.Do(func() {
		close(k.closed)
		_ = k.raw.Close()
		_ = k.client.Close()
	})
}

// attempt is one try to connect, shared by all commands that wait for it.
type attempt struct {
	done chan struct{}
	err  error // set before done is closed
}

// acquire returns the current connection, after connecting if there is none. The caller releases
// it. Commands that arrive while an attempt is under way share its outcome, so that a dead host
// costs each of them one time-out and not one after the other.
func (c *Client) acquire(ctx context.Context) (*connection, error) {
	for {
		c.mu.Lock()
		switch {
		case c.closed:
			c.mu.Unlock()
			return nil, ErrClosed
		case c.current != nil:
			conn := c.current
			conn.running++
			c.mu.Unlock()
			return conn, nil
		case c.connect == nil:
			c.connect = &attempt{done: make(chan struct{})}
			// The attempt outlives the command that began it: others wait for it too. Its own
			// time limits end it.
			go c.try(context.WithoutCancel(ctx), c.connect)
		}
		try := c.connect
		c.mu.Unlock()

		select {
		case <-try.done:
			if try.err != nil {
				return nil, try.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to %s: %w", c.address, context.Cause(ctx))
		}
	}
}

// release gives a connection back; a retired one is closed by its last command.
func (c *Client) release(conn *connection) {
	c.mu.Lock()
	conn.running--
	last := conn.retired && conn.running == 0
	c.mu.Unlock()
	if last {
		conn.close()
	}
}

// retire takes a connection out of use. Commands that still run on it may end.
func (c *Client) retire(conn *connection) {
	c.mu.Lock()
	conn.retired = true
	if c.current == conn {
		c.current = nil
	}
	idle := conn.running == 0
	c.mu.Unlock()
	if idle {
		conn.close()
	}
}

// try makes one connection and publishes the outcome.
func (c *Client) try(ctx context.Context, try *attempt) {
	conn, err := c.dial(ctx)
	c.mu.Lock()
	again := c.ever
	c.ever = c.ever || err == nil
	switch {
	case err != nil:
		try.err = &ConnectError{Address: c.address, Err: err}
	case c.closed:
		try.err = ErrClosed
		defer conn.close()
	default:
		c.current = conn
		go c.watch(conn)
		go c.probe(conn)
	}
	c.connect = nil
	c.opts.Connected(again, err)
	close(try.done)
	c.mu.Unlock()
}

// dial connects, checks the host's key and authenticates, each within its limit.
func (c *Client) dial(ctx context.Context) (*connection, error) {
	config, err := c.sshConfig()
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, c.opts.ConnectTimeout)
	defer cancel()
	raw, err := c.opts.Dial(limited, "tcp", c.address)
	if err != nil {
		return nil, err
	}
	// The library bounds the TCP connect alone. A host that accepts and then says nothing, not even
	// its banner, is bounded by the deadline of the connection.
	if err := raw.SetDeadline(time.Now().Add(c.opts.HandshakeTimeout)); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("set deadline: %w", err)
	}
	conn, channels, requests, err := ssh.NewClientConn(raw, c.address, config)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	if err := raw.SetDeadline(time.Time{}); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("clear deadline: %w", err)
	}
	return &connection{client: ssh.NewClient(conn, channels, requests), raw: raw, closed: make(chan struct{})}, nil
}

func (c *Client) sshConfig() (*ssh.ClientConfig, error) {
	pem, err := os.ReadFile(c.opts.KeyPath)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return nil, fmt.Errorf("parse private key %s: %w", c.opts.KeyPath, err)
	}
	config := &ssh.ClientConfig{
		User:            c.opts.User,
		Auth:            []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), // without a known_hosts file; New has warned
	}
	if c.opts.KnownHosts == "" {
		return config, nil
	}
	config.HostKeyCallback, config.HostKeyAlgorithms, err = hostKeys(c.opts.KnownHosts, c.address)
	return config, err
}

// watch takes a connection that ended by itself out of use, so that the next command connects anew
// and does not have to find out first.
func (c *Client) watch(conn *connection) {
	_ = conn.client.Wait()
	c.mu.Lock()
	conn.retired = true
	if c.current == conn {
		c.current = nil
	}
	c.mu.Unlock()
	conn.close()
}

// probe asks the other side from time to time whether it is there, and closes the connection if it
// does not answer: a host that lost power sends no end of connection.
func (c *Client) probe(conn *connection) {
	ticker := time.NewTicker(c.opts.Keepalive)
	defer ticker.Stop()
	for {
		select {
		case <-conn.closed:
			return
		case <-ticker.C:
		}
		limit := time.AfterFunc(c.opts.Keepalive, conn.close)
		_, _, err := conn.client.SendRequest("keepalive@openssh.com", true, nil)
		limit.Stop()
		if err != nil {
			conn.close()
			return
		}
	}
}
