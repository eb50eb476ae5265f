package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// login opens an SSH connection to a workspace as its user, with the password.
func login(ctx context.Context, port int, user, password string) (*ssh.Client, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	config := &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.Password(password)},
		// A workspace makes its host key at its start.
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	}
	client, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("log in as %s on port %d: %w", user, port, err)
	}
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	return ssh.NewClient(client, channels, requests), nil
}

// shell runs a command in the user's workspace as the user would.
func (w *walk) shell(ctx context.Context, user, command string) (string, error) {
	s, err := w.space(user)
	if err != nil {
		return "", err
	}
	var client *ssh.Client
	// kube-proxy learns of a new Service a moment after it was made.
	err = until(ctx, 15*time.Second, func(ctx context.Context) error {
		client, err = login(ctx, s.external(22), user, passwordOf(user))
		return err
	})
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	out, err := session.CombinedOutput(command)
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("%s in the workspace of %s: %w: %s", command, user, err, text)
	}
	return text, nil
}

// background starts a command in the user's workspace that goes on after the session.
func (w *walk) background(ctx context.Context, user, command string) error {
	_, err := w.shell(ctx, user, "nohup setsid "+command+" >/dev/null 2>&1 </dev/null & echo started")
	return err
}

// page asks a NodePort for its page until it answers.
func page(ctx context.Context, port int) (string, error) {
	if port == 0 {
		return "", errors.New("the workspace has no such port")
	}
	var text string
	err := until(ctx, 20*time.Second, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+"/", nil)
		if err != nil {
			return err
		}
		req.Close = true
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		text = string(body)
		return err
	})
	return text, err
}
