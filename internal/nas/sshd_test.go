package nas_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"config-server/internal/farm"
	"config-server/internal/nas"
	"config-server/internal/remote"
	"config-server/internal/testkit"
)

// realNAS is an OpenSSH server whose sudo allows what the NAS's does.
func realNAS(t *testing.T) (*testkit.SSHDServer, *nas.Homes) {
	t.Helper()
	server := testkit.SSHD(t, testkit.SSHDOptions{})
	client, err := remote.New(remote.Options{
		Host: server.Host, Port: server.Port, User: server.User, KeyPath: server.KeyPath, KnownHosts: server.KnownHosts,
		CommandTimeout: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("remote.New: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	homes, err := nas.New(nas.Options{Runner: client, Host: client.Host(), SharePath: server.Share})
	if err != nil {
		t.Fatalf("nas.New: %v", err)
	}
	return server, homes
}

func TestHomeOnARealServer(t *testing.T) {
	t.Parallel()
	server, homes := realNAS(t)
	ctx := t.Context()

	if err := homes.Check(ctx); err != nil {
		t.Fatalf("Check: %v", err)
	}
	if owner, found, err := homes.Owner(ctx, "kim"); found || err != nil {
		t.Fatalf("before: Owner = %d, %v, %v, want none", owner, found, err)
	}
	for range 2 { // Make repeats safely.
		if err := homes.Make(ctx, "kim", 20001, 20002); err != nil {
			t.Fatalf("Make: %v", err)
		}
	}
	info, err := os.Stat(filepath.Join(server.ShareDir, "kim"))
	if err != nil {
		t.Fatalf("the home is not there: %v", err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm() != 0o700 || owner.Uid != 20001 || owner.Gid != 20002 {
		t.Errorf("home %v of %d:%d, want 0700 of 20001:20002", info.Mode(), owner.Uid, owner.Gid)
	}
	if owner, found, err := homes.Owner(ctx, "kim"); owner != 20001 || !found || err != nil {
		t.Errorf("Owner = %d, %v, %v, want 20001", owner, found, err)
	}
	if all, err := homes.All(ctx); len(all) != 1 || all["kim"] != 20001 || err != nil {
		t.Errorf("All = %v, %v", all, err)
	}
	if _, err := homes.Empty(ctx, "kim"); err == nil {
		t.Error("a home that only its owner may read was read")
	}
	for range 2 { // Remove repeats safely too.
		if err := homes.Remove(ctx, "kim"); err != nil {
			t.Fatalf("Remove: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(server.ShareDir, "kim")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Remove: %v, want absence", err)
	}
}

func TestMkdirCutOffBeforeChownIsARootOwnedEmptyHome(t *testing.T) {
	t.Parallel()
	server, homes := realNAS(t)
	server.Fail(t, testkit.SSHFault{Contains: "chown", Times: 1, Exit: 1, Stderr: "Operation not permitted"})
	if err := homes.Make(t.Context(), "kim", 20001, 20001); err == nil {
		t.Fatal("Make did not tell that chown failed")
	}
	owner, found, err := homes.Owner(t.Context(), "kim")
	if owner != 0 || !found || err != nil {
		t.Errorf("Owner = %d, %v, %v, want root", owner, found, err)
	}
	if empty, err := homes.Empty(t.Context(), "kim"); !empty || err != nil {
		t.Errorf("Empty = %v, %v, want true", empty, err)
	}
}

func TestOwnerTellsAFailureFromAbsence(t *testing.T) {
	t.Parallel()
	server, homes := realNAS(t)
	if err := homes.Make(t.Context(), "kim", 20001, 20001); err != nil {
		t.Fatalf("Make: %v", err)
	}
	// The share cannot be searched any more: stat is denied, though the home is there.
	if err := os.Chmod(server.ShareDir, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, found, err := homes.Owner(t.Context(), "kim"); err == nil {
		t.Errorf("Owner: found %v without an error", found)
	}
	// An unknown language, and a home that is there.
	if err := os.Chmod(server.ShareDir, 0o755); err != nil {
		t.Fatal(err)
	}
	server.Fail(t, testkit.SSHFault{Contains: "stat", Exit: 1, Stderr: "그런 파일이 없습니다"})
	if _, found, err := homes.Owner(t.Context(), "kim"); err == nil {
		t.Errorf("Owner of a home that is there: found %v without an error", found)
	}
	if _, found, err := homes.Owner(t.Context(), "lee"); found || err != nil {
		t.Errorf("Owner of an absent home: %v, %v", found, err)
	}
}

func TestManyHomesAtOnceAndThroughBrokenConnections(t *testing.T) {
	t.Parallel()
	server, homes := realNAS(t)
	make1 := func(i int) error {
		return homes.Make(t.Context(), farm.UserName(fmt.Sprintf("user%d", i)), farm.ID(20000+i), farm.ID(20000+i))
	}
	var wg sync.WaitGroup
	errs := make(chan error, 40)
	for i := range 20 { // more than sshd's ten sessions a connection
		wg.Go(func() { errs <- make1(i) })
	}
	wg.Wait()
	server.DropConnections()
	for i := 20; i < 40; i++ {
		wg.Go(func() { errs <- make1(i) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Errorf("Make: %v", err)
		}
	}
	if all, err := homes.All(t.Context()); len(all) != 40 || err != nil {
		t.Errorf("%d homes, %v, want 40", len(all), err)
	}
	server.Stop()
	if err := homes.Check(t.Context()); err == nil {
		t.Error("Check of a stopped server gave no error")
	}
	server.Start(t)
	if err := homes.Check(t.Context()); err != nil {
		t.Errorf("Check after the outage: %v", err)
	}
}

// TestOnlyCommandsOnTheShareAreSent gives every call names that a path or a shell would misread.
func TestOnlyCommandsOnTheShareAreSent(t *testing.T) {
	t.Parallel()
	server, homes := realNAS(t)
	ctx := t.Context()
	for _, user := range []farm.UserName{"kim", "K.im_2-x", "..", ".", "", "a/../..", "$(reboot)", "a b", "-rf", "a'b", "a\nb", farm.UserName(strings.Repeat("x", 100))} {
		_, _, _ = homes.Owner(ctx, user)
		_ = homes.Make(ctx, user, 20001, 20001)
		_, _ = homes.Empty(ctx, user)
		_ = homes.Remove(ctx, user)
	}
	sent := server.Commands(t)
	if len(sent) == 0 {
		t.Fatal("nothing was sent")
	}
	for _, command := range sent {
		words := strings.Fields(command)
		path := words[len(words)-1]
		name, below := strings.CutPrefix(path, server.Share+"/")
		if !below || !farm.UserName(name).Commandable() || strings.ContainsAny(command, "'\"$;\n") {
			t.Errorf("sent %q", command)
		}
		allowed := []string{"stat -c %u", "ls -A", "sudo mkdir -p", "sudo chown 20001:20001", "sudo chmod 700", "sudo rm -rf"}
		if !slices.Contains(allowed, strings.Join(words[:len(words)-1], " ")) {
			t.Errorf("sent %q, which the NAS does not allow", command)
		}
	}
}
