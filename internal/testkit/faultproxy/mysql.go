package faultproxy

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// SQLFault is what happens to a statement.
type SQLFault struct {
	// Match is a part of the statement's text; "" = every statement.
	Match string
	Skip  int // how many statements pass first
	Times int // how many it hits; 0 = all
	// Hook is called when the fault hits: before all else, or with After when the server has
	// answered. A fault with nothing but a Hook lets the statement go on.
	Hook func()
	// After has the server run the statement first: its effect is there, its answer is lost.
	After bool

	// One of the following.
	Errno   uint16 // the server's error of that number
	Garbage bool   // an answer that belongs to nothing
	Hang    bool   // no answer until the client goes
	Cut     bool   // the connection breaks
}

// MySQL is a proxy in front of a MySQL server that breaks statements as its faults say. It knows
// enough of the protocol to see statements that are sent as text, which is how the service sends them.
type MySQL struct {
	Host string // always 127.0.0.1
	Port int

	rules    rules[SQLFault]
	server   string
	finished sync.WaitGroup

	mu     sync.Mutex
	closed bool
	refuse bool
	conns  map[net.Conn]bool
}

// NewMySQL starts a proxy in front of a server's address, which ends with the test.
func NewMySQL(t testing.TB, server string) *MySQL {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &MySQL{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, server: server, conns: map[net.Conn]bool{}}
	p.rules.fits = func(fault SQLFault, call string) bool { return strings.Contains(call, fault.Match) }
	p.rules.count = func(fault SQLFault) (int, int) { return fault.Skip, fault.Times }
	p.finished.Go(func() { p.accept(listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.CutAll()
		p.finished.Wait()
	})
	return p
}

// Fail sets the faults, the first that fits a statement winning, until it is called again.
func (p *MySQL) Fail(faults ...SQLFault) { p.rules.set(faults) }

// Hits tells how often each fault has hit, in their order.
func (p *MySQL) Hits() []int { return p.rules.hits() }

// Refuse ends all connections and, until it is called with false, every new one at once: the server
// is gone.
func (p *MySQL) Refuse(refuse bool) {
	p.mu.Lock()
	p.refuse = refuse
	p.mu.Unlock()
	if refuse {
		p.CutAll()
	}
}

// CutAll breaks every connection.
func (p *MySQL) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		_ = conn.Close()
	}
}

func (p *MySQL) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client, server) {
			continue
		}
		link := &link{proxy: p, client: client, server: server}
		p.finished.Go(link.statements)
		p.finished.Go(link.answers)
	}
}

func (p *MySQL) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.closed || p.refuse {
			_ = conn.Close()
			continue
		}
		p.conns[conn] = true
	}
	return !p.closed && !p.refuse
}

func (p *MySQL) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		delete(p.conns, conn)
	}
}

// link is one connection of a client with its connection to the server.
type link struct {
	proxy          *MySQL
	client, server net.Conn

	mu   sync.Mutex
	lose func() // set when the server's next answer is to be lost: called in its place
}

const (
	commandQuery = 3
	maxPacket    = 64 << 20
)

// statements passes on what the client sends, packet by packet.
func (l *link) statements() {
	defer l.close()
	for {
		packet, err := readPacket(l.client)
		if err != nil {
			return
		}
		// A command begins a new sequence; packets of the login go on in one.
		if packet[3] != 0 || len(packet) < 5 || packet[4] != commandQuery {
			if _, err := l.server.Write(packet); err != nil {
				return
			}
			continue
		}
		fault, hit := l.proxy.rules.take(string(packet[5:]))
		if hit && fault.Hook != nil && !fault.After {
			fault.Hook()
		}
		if !l.carry(packet, fault, hit) {
			return
		}
	}
}

// carry passes a statement on or breaks it; it reports false when the connection is over.
func (l *link) carry(packet []byte, fault SQLFault, hit bool) bool {
	answer := fault.answer
	passes := !hit || fault.Errno == 0 && !fault.Garbage && !fault.Hang && !fault.Cut
	switch {
	case passes:
		_, err := l.server.Write(packet)
		return err == nil
	case fault.After:
		l.mu.Lock()
		l.lose = func() {
			if fault.Hook != nil {
				fault.Hook()
			}
			answer(l.client)
		}
		l.mu.Unlock()
		_, err := l.server.Write(packet)
		return err == nil
	}
	return answer(l.client)
}

// answer says to the client what the fault has in place of an answer.
func (f SQLFault) answer(client net.Conn) bool {
	switch {
	case f.Errno != 0:
		_, err := client.Write(errorPacket(f.Errno))
		return err == nil
	case f.Garbage:
		// A success with the number of another packet: somebody else's answer.
		_, err := client.Write([]byte{7, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0})
		return err == nil
	case f.Cut:
		_ = client.Close()
		return false
	}
	return true // the client waits, until it goes
}

// answers passes on what the server says, unless its answer is to be lost.
func (l *link) answers() {
	defer l.close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(buffer)
		if err != nil {
			return
		}
		l.mu.Lock()
		lose := l.lose
		// The rest of a long answer is lost too; the service's statements have short ones.
		l.lose = nil
		l.mu.Unlock()
		if lose != nil {
			lose()
			continue
		}
		if _, err := l.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
	l.proxy.forget(l.client, l.server)
}

// readPacket reads one packet with its four bytes of head.
func readPacket(conn net.Conn) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	size := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	if size > maxPacket {
		return nil, errors.New("the packet is too long")
	}
	packet := make([]byte, 4+size)
	copy(packet, head[:])
	_, err := io.ReadFull(conn, packet[4:])
	return packet, err
}

// sqlStates are those of the errors that the tests use; others have the general one.
var sqlStates = map[uint16]string{1062: "23000", 1213: "40001", 1205: "HY000"}

// errorPacket is the answer to a command that failed.
func errorPacket(number uint16) []byte {
	state, ok := sqlStates[number]
	if !ok {
		state = "HY000"
	}
	body := binary.LittleEndian.AppendUint16([]byte{0xff}, number)
	body = append(body, "#"+state+"the fault proxy says so"...)
	return append([]byte{byte(len(body)), 0, 0, 1}, body...)
}
