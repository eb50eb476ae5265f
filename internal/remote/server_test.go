package remote

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// call is a command as the server sees it.
type call struct {
	command string
	stdin   []byte
	conn    net.Conn // for handlers that break it
}

type reply struct {
	stdout string
	stderr string
	status uint32
}

// server is an SSH server in this process, for the faults that a real one does not do at will.
type server struct {
	t        *testing.T
	address  string
	config   *ssh.ServerConfig
	handle   func(call) reply
	accepted atomic.Int32 // connections that finished the handshake

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	wg       sync.WaitGroup
}

// startServer lets in whoever has the key and answers commands with handle.
func startServer(t *testing.T, client ssh.PublicKey, hostKeys []ssh.Signer, handle func(call) reply) *server {
	t.Helper()
	s := &server{t: t, handle: handle, conns: map[net.Conn]bool{}}
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(client.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	for _, key := range hostKeys {
		s.config.AddHostKey(key)
	}
	s.start("127.0.0.1:0")
	t.Cleanup(s.stop)
	return s
}

func (s *server) start(address string) {
	s.t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		s.t.Fatalf("listen: %v", err)
	}
	s.mu.Lock()
	s.listener, s.address = listener, listener.Addr().String()
	s.mu.Unlock()
	s.wg.Go(func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[raw] = true
			s.mu.Unlock()
			s.wg.Go(func() { s.serve(raw) })
		}
	})
}

// stop ends the listener and all connections.
func (s *server) stop() {
	s.mu.Lock()
	_ = s.listener.Close()
	s.mu.Unlock()
	s.dropAll()
	s.wg.Wait()
}

func (s *server) dropAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

func (s *server) serve(raw net.Conn) {
	defer raw.Close()
	_, channels, requests, err := ssh.NewServerConn(raw, s.config)
	if err != nil {
		return
	}
	s.accepted.Add(1)
	s.wg.Go(func() { ssh.DiscardRequests(requests) })
	for opening := range channels {
		channel, requests, err := opening.Accept()
		if err != nil {
			return
		}
		s.wg.Go(func() { s.session(raw, channel, requests) })
	}
}

func (s *server) session(raw net.Conn, channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for request := range requests {
		if request.Type != "exec" {
			_ = request.Reply(false, nil)
			continue
		}
		var exec struct{ Command string }
		if err := ssh.Unmarshal(request.Payload, &exec); err != nil {
			return
		}
		_ = request.Reply(true, nil)
		stdin, err := io.ReadAll(channel)
		if err != nil {
			return
		}
		answer := s.handle(call{command: exec.Command, stdin: stdin, conn: raw})
		_, _ = io.WriteString(channel, answer.stdout)
		_, _ = io.WriteString(channel.Stderr(), answer.stderr)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{answer.status}))
		return
	}
}

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatalf("generate key: %v", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatalf("marshal key: %v", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatalf("signer: %v", err)
	}
	return signer, pem.EncodeToMemory(block)
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatalf("write %s: %v", name, err)
	}
	return path
}

// fixture is a server with a client that may log in.
type fixture struct {
	*server
	client  *Client
	hostKey ssh.Signer
}

// start makes both ends; change may be nil.
func start(t *testing.T, handle func(call) reply, change func(*Options)) *fixture {
	t.Helper()
	hostKey, _ := newKey(t)
	signer, private := newKey(t)
	s := startServer(t, signer.PublicKey(), []ssh.Signer{hostKey}, handle)
	return &fixture{server: s, hostKey: hostKey, client: connectTo(t, s.address, writeFile(t, "key", private), change)}
}

func connectTo(t *testing.T, address, keyPath string, change func(*Options)) *Client {
	t.Helper()
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatalf("address: %v", err)
	}
	opts := Options{
		Host: "127.0.0.1", Port: tcp.Port, User: "nas", KeyPath: keyPath,
		Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&opts)
	}
	client, err := New(opts)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// echo answers with the command and its input.
func echo(c call) reply { return reply{stdout: fmt.Sprintf("%s|%s", c.command, c.stdin)} }

func mustRun(t *testing.T, client *Client, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := client.Run(ctx, argv, nil)
	if err != nil {
		t.Fatalf("Run(%q): %v", argv, err)
	}
	return out
}
