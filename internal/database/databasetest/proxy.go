package databasetest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"config-server/internal/database"
	"config-server/internal/testkit"
)

// CommitCutter stands between a client and a MariaDB server. Armed, it cuts the connection of the
// next COMMIT: after passing it on, so that the change is kept and nobody hears of it, or before.
type CommitCutter struct {
	addr     *net.TCPAddr
	server   string
	keep     atomic.Int32
	lose     atomic.Int32
	mu       sync.Mutex
	closed   bool
	conns    map[net.Conn]bool
	finished sync.WaitGroup
}

// NewCommitCutter starts one; it ends with the test.
func NewCommitCutter(t testing.TB, server string) *CommitCutter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &CommitCutter{addr: listener.Addr().(*net.TCPAddr), server: server, conns: map[net.Conn]bool{}}
	c.finished.Go(func() { c.accept(listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		c.closeAll()
		c.finished.Wait()
	})
	return c
}

// Place is the database name of the server, reached through the cutter.
func (c *CommitCutter) Place(server *testkit.MariaDBServer, name string) Place {
	through := *server
	through.Port = c.addr.Port
	return Place{Dialect: database.MySQL, Open: On(&through, name).Open}
}

// CutAfter cuts the next n commits when the server has them.
func (c *CommitCutter) CutAfter(n int) { c.keep.Store(int32(n)) }

// CutBefore cuts the next n commits before the server has them.
func (c *CommitCutter) CutBefore(n int) { c.lose.Store(int32(n)) }

func (c *CommitCutter) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !c.track(client, server) {
			return
		}
		c.finished.Go(func() { c.requests(server, client) })
		c.finished.Go(func() {
			// The other goroutine closes the server's side, when it has read what it wants.
			_, _ = io.Copy(client, server)
			_ = client.Close()
		})
	}
}

func (c *CommitCutter) requests(server, client net.Conn) {
	defer func() { _, _ = client.Close(), server.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		commit := bytes.Contains(buffer[:n], []byte("\x03COMMIT"))
		if commit && take(&c.lose) {
			return
		}
		if commit && take(&c.keep) {
			// The client is cut first, so that it cannot get the answer.
			_ = client.(*net.TCPConn).SetLinger(0)
			_ = client.Close()
			_, _ = server.Write(buffer[:n])
			// Half-closing lets the server finish the commit before it sees the end.
			_ = server.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, server)
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (c *CommitCutter) track(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		if c.closed {
			_ = conn.Close()
			continue
		}
		c.conns[conn] = true
	}
	return !c.closed
}

func (c *CommitCutter) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.conns {
		_ = conn.Close()
	}
}

// take counts n down and reports whether it was above zero.
func take(n *atomic.Int32) bool {
	for {
		have := n.Load()
		if have <= 0 {
			return false
		}
		if n.CompareAndSwap(have, have-1) {
			return true
		}
	}
}
