package remote_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"config-server/internal/remote"
	"config-server/internal/testkit"
)

func realClient(t *testing.T, server *testkit.SSHDServer) *remote.Client {
	t.Helper()
	client, err := remote.New(remote.Options{
		Host: server.Host, Port: server.Port, User: server.User, KeyPath: server.KeyPath, KnownHosts: server.KnownHosts,
		CommandTimeout: 10 * time.Second, HandshakeTimeout: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestHostileArgumentsReachARealShellAsTheyAre(t *testing.T) {
	t.Parallel()
	client := realClient(t, testkit.SSHD(t, testkit.SSHDOptions{}))
	hostile := []string{
		"", " ", "a b", "$HOME", "$(touch /tmp/x)", "`id`", "a;id", "a&&id", "a|id", "a>b", "*", "~", "'", `"`, `\`, "'; id; '",
		"a\nb", "#x", "!x", "=ls", "A=b", "-rf", "--", "한글", "\x01", "%s", `a'b"c$d`,
	}
	out, err := client.Run(t.Context(), append([]string{"printf", `%s\0`}, hostile...), nil)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if got := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"); !slices.Equal(got, hostile) {
		t.Errorf("the shell saw\n%q\nwant\n%q", got, hostile)
	}
}

// Random arguments out of what shells treat as special, many to a command and many commands.
func TestRandomArgumentsReachARealShellAsTheyAre(t *testing.T) {
	t.Parallel()
	client := realClient(t, testkit.SSHD(t, testkit.SSHDOptions{}))
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	letters := []rune("ab'\"`\\$(){}[]<>|&;*?~!#=%^-_./:, \t\n\r\x01\x7f\u00e9\ud55c\U0001f600")
	const commands, arguments = 60, 40
	for range commands {
		argv := make([]string, arguments)
		for i := range argv {
			text := make([]rune, random.IntN(12))
			for j := range text {
				text[j] = letters[random.IntN(len(letters))]
			}
			argv[i] = string(text)
		}
		out, err := client.Run(t.Context(), append([]string{"printf", `%s\0`}, argv...), nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"); !slices.Equal(got, argv) {
			t.Fatalf("seed %d: the shell saw\n%q\nwant\n%q", seed, got, argv)
		}
	}
	t.Logf("quoting: %d arguments reached a real shell as they are", commands*arguments)
}

func TestInputStatusAndManyCommandsOnARealServer(t *testing.T) {
	t.Parallel()
	client := realClient(t, testkit.SSHD(t, testkit.SSHDOptions{}))
	input := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	if out, err := client.Run(t.Context(), []string{"cat"}, input); out != string(input) || err != nil {
		t.Errorf("cat gave %d bytes, %v, want %d", len(out), err, len(input))
	}
	_, err := client.Run(t.Context(), []string{"sh", "-c", "echo no >&2; exit 3"}, nil)
	var exit *remote.ExitError
	if !errors.As(err, &exit) || exit.Status != 3 || exit.Stderr != "no" {
		t.Errorf("error %v, want status 3 and stderr no", err)
	}
	// sshd allows ten sessions on a connection; thirty at once must not meet its refusal.
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if _, err := client.Run(t.Context(), []string{"true"}, nil); err != nil {
				t.Errorf("one of many: %v", err)
			}
		})
	}
	wg.Wait()
}

// OpenSSH counts a session until it has cleaned up after it, which is later than the client's end of it.
func TestManyCommandsNeedOneConnectionOnARealServer(t *testing.T) {
	t.Parallel()
	server := testkit.SSHD(t, testkit.SSHDOptions{})
	var connections atomic.Int64
	client, err := remote.New(remote.Options{
		Host: server.Host, Port: server.Port, User: server.User, KeyPath: server.KeyPath, KnownHosts: server.KnownHosts, Log: slog.New(slog.DiscardHandler),
		Connected: func(bool, error) { connections.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 50 {
				if _, err := client.Run(t.Context(), []string{"true"}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestRealServerThatHangsAndComesBack(t *testing.T) {
	t.Parallel()
	server := testkit.SSHD(t, testkit.SSHDOptions{})
	client := realClient(t, server)
	server.Freeze(t)
	_, err := client.Run(t.Context(), []string{"true"}, nil)
	var connect *remote.ConnectError
	if !errors.As(err, &connect) || !connect.Timeout() {
		t.Errorf("frozen server: %v, want a ConnectError by time-out", err)
	}
	server.Thaw()
	if _, err := client.Run(t.Context(), []string{"true"}, nil); err != nil {
		t.Errorf("after the hang: %v", err)
	}
}
