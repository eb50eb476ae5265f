package demo

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// nasServer is an SSH server that knows the NAS's commands and no other, and has no shell. One key may
// log in: the one that startNAS has written.
type nasServer struct {
	homes    *homes
	config   *ssh.ServerConfig
	listener net.Listener

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
	work   sync.WaitGroup
}

// startNAS serves the folder dir, and writes the private key of its user and its known_hosts line.
func startNAS(dir, keyPath, knownHostsPath string) (_ *nasServer, err error) {
	userKey, err := newKey()
	if err != nil {
		return nil, err
	}
	hostKey, err := newKey()
	if err != nil {
		return nil, err
	}
	n := &nasServer{open: map[net.Conn]bool{}}
	n.config = &ssh.ServerConfig{PublicKeyCallback: func(who ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if who.User() != nasUser || !bytes.Equal(key.Marshal(), userKey.signer.PublicKey().Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	n.config.AddHostKey(hostKey.signer)
	if n.homes, err = openHomes(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.homes.close())
		}
	}()
	if n.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	line := knownhosts.Line([]string{knownhosts.Normalize(n.address())}, hostKey.signer.PublicKey())
	writeErr := errors.Join(os.WriteFile(keyPath, userKey.private, 0o600), os.WriteFile(knownHostsPath, []byte(line+"\n"), 0o600))
	if writeErr != nil {
		return nil, errors.Join(writeErr, n.listener.Close())
	}
	n.work.Go(n.accept)
	return n, nil
}

type key struct {
	signer  ssh.Signer
	private []byte // PEM
}

func newKey() (key, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return key{}, fmt.Errorf("make a key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return key{}, fmt.Errorf("make a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "config-server demo")
	if err != nil {
		return key{}, fmt.Errorf("write a key: %w", err)
	}
	return key{signer, pem.EncodeToMemory(block)}, nil
}

func (n *nasServer) address() string { return n.listener.Addr().String() }

func (n *nasServer) accept() {
	for {
		raw, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.mu.Lock()
		if n.closed {
			n.mu.Unlock()
			_ = raw.Close()
			return
		}
		n.open[raw] = true
		n.mu.Unlock()
		n.work.Go(func() {
			n.serve(raw)
			_ = raw.Close()
			n.mu.Lock()
			delete(n.open, raw)
			n.mu.Unlock()
		})
	}
}

// close ends every connection and waits for its commands.
func (n *nasServer) close() error {
	n.mu.Lock()
	n.closed = true
	err := n.listener.Close()
	for raw := range n.open {
		_ = raw.Close()
	}
	n.mu.Unlock()
	n.work.Wait()
	return errors.Join(err, n.homes.close())
}

func (n *nasServer) serve(raw net.Conn) {
	_, channels, requests, err := ssh.NewServerConn(raw, n.config)
	if err != nil {
		return
	}
	var sessions sync.WaitGroup
	defer sessions.Wait()
	sessions.Go(func() { ssh.DiscardRequests(requests) })
	for opening := range channels {
		if opening.ChannelType() != "session" {
			_ = opening.Reject(ssh.UnknownChannelType, "only commands are served here")
			continue
		}
		channel, requests, err := opening.Accept()
		if err != nil {
			return
		}
		sessions.Go(func() { n.session(channel, requests) })
	}
}

// session runs the one command of a session. A shell, a terminal or a subsystem is refused.
func (n *nasServer) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for request := range requests {
		var asked struct{ Command string }
		if request.Type != "exec" || ssh.Unmarshal(request.Payload, &asked) != nil {
			_ = request.Reply(false, nil)
			continue
		}
		_ = request.Reply(true, nil)
		done := n.homes.run(asked.Command)
		_, _ = io.WriteString(channel, done.stdout)
		_, _ = io.WriteString(channel.Stderr(), done.stderr)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{done.status}))
		return
	}
}
