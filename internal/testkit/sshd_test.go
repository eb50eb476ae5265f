package testkit_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"config-server/internal/testkit"
)

// dial connects to the server as the service would.
func dial(t *testing.T, server *testkit.SSHDServer) (*ssh.Client, error) {
	t.Helper()
	pem, err := os.ReadFile(server.KeyPath)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	hostKey, err := knownhosts.New(server.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	client, err := ssh.Dial("tcp", server.Address(), &ssh.ClientConfig{
		User: server.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: hostKey, Timeout: 10 * time.Second,
	})
	if err == nil {
		t.Cleanup(func() { _ = client.Close() })
	}
	return client, err
}

// run runs one command and returns its exit status (-1 = none) and what it said.
func run(t *testing.T, client *ssh.Client, command string) (int, string) {
	t.Helper()
	session, err := client.NewSession()
	if err != nil {
		return -1, err.Error()
	}
	defer session.Close()
	out, err := session.CombinedOutput(command)
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0, string(out)
	case errors.As(err, &exit):
		return exit.ExitStatus(), string(out)
	}
	return -1, err.Error()
}

func TestSSHDPlaysANASWhoseSudoAllowsFourCommands(t *testing.T) {
	t.Parallel()
	server := testkit.SSHD(t, testkit.SSHDOptions{})
	client, err := dial(t, server)
	if err != nil {
		t.Fatal(err)
	}
	home := server.Share + "/kim"
	tests := []struct {
		command string
		works   bool
	}{
		{"sudo mkdir -p " + home, true},
		{"sudo chown 20001:20001 " + home, true},
		{"sudo chmod 700 " + home, true},
		{"stat -c %u " + home, true},
		{"ls -n " + server.Share, true},
		{"sudo chmod 755 " + home, false},
		{"sudo rm -rf " + server.Share, false},
		{"sudo rm -rf " + server.Share + "/..", false},
		{"sudo rm -rf " + home + " /etc", false},
		{"sudo ls " + home, false},
		{"sudo rm -rf " + home, true},
	}
	var sent []string
	for _, test := range tests {
		status, out := run(t, client, test.command)
		sent = append(sent, test.command)
		if (status == 0) != test.works {
			t.Errorf("%s: exit status %d, want success %v: %s", test.command, status, test.works, out)
		}
		if test.works && strings.Contains(out, "sudo:") {
			t.Errorf("%s: sudo complains: %s", test.command, out)
		}
		if test.command == "stat -c %u "+home && strings.TrimSpace(out) != "20001" {
			t.Errorf("owner of the home: %q", out)
		}
	}
	if got := server.Commands(t); !slices.Equal(got, sent) {
		t.Errorf("commands noted: %q, want %q", got, sent)
	}
	if left, _ := filepath.Glob(filepath.Join(server.ShareDir, "*")); len(left) != 0 {
		t.Errorf("left on the share: %v", left)
	}
}

func TestSSHDFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		fault  testkit.SSHFault
		status int
		out    string
		effect bool // the folder is there afterwards
	}{
		{"exit status", testkit.SSHFault{Contains: "mkdir", Exit: 7, Stderr: "disk full"}, 7, "disk full", false},
		{"after the effect", testkit.SSHFault{Contains: "mkdir", After: true, Exit: 1}, 1, "", true},
		{"broken connection", testkit.SSHFault{Contains: "mkdir", Drop: true}, -1, "exited without exit status", false},
		{"another command", testkit.SSHFault{Contains: "chown", Exit: 1}, 0, "", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := testkit.SSHD(t, testkit.SSHDOptions{})
			client, err := dial(t, server)
			if err != nil {
				t.Fatal(err)
			}
			test.fault.Times = 1
			server.Fail(t, test.fault)
			status, out := run(t, client, "sudo mkdir -p "+server.Share+"/kim")
			if status != test.status || !strings.Contains(out, test.out) {
				t.Errorf("exit status %d, want %d: %s", status, test.status, out)
			}
			if _, err := os.Stat(filepath.Join(server.ShareDir, "kim")); (err == nil) != test.effect {
				t.Errorf("folder afterwards: %v, want there: %v", err, test.effect)
			}
			if client, err = dial(t, server); err != nil {
				t.Fatal(err)
			}
			if status, out := run(t, client, "sudo mkdir -p "+server.Share+"/kim"); status != 0 {
				t.Errorf("the fault was for one command, the next one fails too: %d %s", status, out)
			}
		})
	}
}

func TestSSHDOutage(t *testing.T) {
	t.Parallel()
	server := testkit.SSHD(t, testkit.SSHDOptions{MaxSessions: 1})
	client, err := dial(t, server)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.NewSession(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.NewSession(); err == nil {
		t.Error("a second session was opened against MaxSessions 1")
	}
	server.Stop()
	if _, err := dial(t, server); err == nil {
		t.Error("a stopped server accepts connections")
	}
	if err := client.Wait(); err == nil {
		t.Error("the connection outlived the server")
	}
	server.Start(t)
	if client, err = dial(t, server); err != nil {
		t.Fatalf("after the restart: %v", err)
	}
	server.DropConnections()
	if err := client.Wait(); err == nil {
		t.Error("the connection was not dropped")
	}
	if _, err = dial(t, server); err != nil {
		t.Fatalf("after dropped connections: %v", err)
	}
}

func TestSSHDWithAScriptPlaysAForcedCommand(t *testing.T) {
	t.Parallel()
	server := testkit.SSHD(t, testkit.SSHDOptions{User: "deploy", Script: `cat >"$SPOOL/keytab"; echo "did $SSH_ORIGINAL_COMMAND"`})
	client, err := dial(t, server)
	if err != nil {
		t.Fatal(err)
	}
	session, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	session.Stdin = strings.NewReader("key")
	out, err := session.Output("deploy kim 20001")
	if err != nil || string(out) != "did deploy kim 20001\n" {
		t.Errorf("answer %q, %v", out, err)
	}
	if text, err := os.ReadFile(filepath.Join(server.Spool, "keytab")); err != nil || string(text) != "key" {
		t.Errorf("spooled %q, %v", text, err)
	}
}
