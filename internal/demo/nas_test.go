package demo

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"config-server/internal/nas"
	"config-server/internal/remote"
)

// client is the service's own client of the NAS that is played.
func client(t *testing.T, s *Surroundings, user string) *nas.Homes {
	t.Helper()
	port, err := strconv.Atoi(variable(t, s, "NAS_SSH_PORT"))
	if err != nil {
		t.Fatal(err)
	}
	runner, err := remote.New(remote.Options{
		Host: variable(t, s, "NAS_SSH_HOST"), Port: port, User: user,
		KeyPath: variable(t, s, "NAS_SSH_KEY_PATH"), KnownHosts: variable(t, s, "NAS_SSH_KNOWN_HOSTS"),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("remote.New: %v", err)
	}
	t.Cleanup(func() { _ = runner.Close() })
	homes, err := nas.New(nas.Options{Runner: runner, Host: "demo", SharePath: variable(t, s, "NFS_USER_SHARE_PATH")})
	if err != nil {
		t.Fatalf("nas.New: %v", err)
	}
	return homes
}

func TestTheServicesOwnClientFindsANAS(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	homes, ctx := client(t, s, nasUser), t.Context()

	if _, found, err := homes.Owner(ctx, "kim"); found || err != nil {
		t.Fatalf("before: found %v, %v", found, err)
	}
	for range 2 {
		if err := homes.Make(ctx, "kim", 20000, 20005); err != nil {
			t.Fatalf("Make: %v", err)
		}
	}
	if uid, found, err := homes.Owner(ctx, "kim"); uid != 20000 || !found || err != nil {
		t.Errorf("Owner = %d, %v, %v; want 20000", uid, found, err)
	}
	if empty, err := homes.Empty(ctx, "kim"); !empty || err != nil {
		t.Errorf("Empty = %v, %v; want true", empty, err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir(), "homes", "kim", ".bashrc"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if empty, err := homes.Empty(ctx, "kim"); empty || err != nil {
		t.Errorf("Empty with a hidden file = %v, %v; want false", empty, err)
	}
	if all, err := homes.All(ctx); len(all) != 1 || all["kim"] != 20000 || err != nil {
		t.Errorf("All = %v, %v; want kim of 20000", all, err)
	}
	for range 2 {
		if err := homes.Remove(ctx, "kim"); err != nil {
			t.Fatalf("Remove: %v", err)
		}
	}
	if all, err := homes.All(ctx); len(all) != 0 || err != nil {
		t.Errorf("All after Remove = %v, %v; want none", all, err)
	}
	if uid, found, err := homes.Owner(ctx, "kim"); found || err != nil {
		t.Errorf("Owner after Remove = %d, %v, %v; want none", uid, found, err)
	}
}

func TestTheNASLetsOneUserInAndGivesNoShell(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	if err := client(t, s, "root").Check(t.Context()); err == nil {
		t.Error("another user was let in")
	}
	pem, err := os.ReadFile(variable(t, s, "NAS_SSH_KEY_PATH"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ssh.Dial("tcp", s.nas.address(), &ssh.ClientConfig{
		User: nasUser, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatalf("log in: %v", err)
	}
	defer conn.Close()
	session, err := conn.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Shell(); err == nil {
		t.Error("a shell was given")
	}
	if err := session.RequestSubsystem("sftp"); err == nil {
		t.Error("SFTP was given")
	}
	if _, err := conn.Dial("tcp", s.Address()); err == nil {
		t.Error("a forwarded connection was given")
	}
}

// hostile are command lines that reach for more than one home below the share, or for more than
// the commands.
var hostile = []string{
	"", " ", "id", "sudo", "sudo -i", "sudo rm -rf", "rm -rf /volume1/share/user/kim",
	"sudo rm -rf /", "sudo rm -rf /volume1/share/user", "sudo rm -rf /volume1/share/user/", "sudo rm -rf /volume1/share/user/.",
	"sudo rm -rf /volume1/share/user/..", "sudo rm -rf /volume1/share/user/../outside", "sudo rm -rf /volume1/share/user/kim/..",
	"sudo rm -rf /volume1/share/user/kim/sub", "sudo rm -rf /volume1/share/user//kim", "sudo rm -rf '/volume1/share/user/kim/../../outside'",
	"sudo rm -rf /volume1/share/user/kim /volume1/share/user/lee", "sudo rm -r /volume1/share/user/kim", "sudo rm -rf -- /volume1/share/user/kim",
	"sudo rm -rf /volume1/share/userkim", "sudo rm -rf kim", "sudo rm -rf ../outside",
	"sudo rm -rf /volume1/share/user/*", "sudo rm -rf /volume1/share/user/k?m", "sudo rm -rf '/volume1/share/user/-x'",
	"sudo mkdir -p /etc/kim", "sudo mkdir -p /volume1/share/user/a/b", "sudo mkdir /volume1/share/user/new",
	"sudo chmod 777 /volume1/share/user/kim", "sudo chmod 700 /volume1/share/user", "sudo chmod -R 700 /volume1/share/user/kim",
	"sudo chown root /volume1/share/user/kim", "sudo chown 1:x /volume1/share/user/kim", "sudo chown -R 1:1 /volume1/share/user/kim",
	"sudo chown -1:1 /volume1/share/user/kim", "sudo chown 1:1 /volume1/share/user/kim extra", "sudo chown 1:1",
	"ls -n /", "ls -A /volume1/share/user", "ls -la /volume1/share/user/kim", "stat -c %n /volume1/share/user/kim", "stat -c %u /etc/passwd",
	"stat -c %u /volume1/share/user/kim; id", "stat -c %u $(id)", "stat -c %u `id`", "ls -n /volume1/share/user && id", "ls -n /volume1/share/user | sh",
	"ls -n /volume1/share/user\nid", "ls -n '/volume1/share/user", `ls -n "/volume1/share/user"`, "ls -n /volume1/share/user\x00",
	"sh -c id", "scp -t /volume1/share/user/kim",
}

func TestHostileCommandsAreRefusedAndTouchNothing(t *testing.T) {
	t.Parallel()
	for _, line := range hostile {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			inside := filepath.Join(dir, "homes")
			for _, folder := range []string{inside, filepath.Join(inside, "kim"), filepath.Join(inside, "kim", "sub"), filepath.Join(inside, "lee"), filepath.Join(dir, "outside")} {
				if err := os.Mkdir(folder, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			h, err := openHomes(inside)
			if err != nil {
				t.Fatal(err)
			}
			defer h.close()
			before := tree(t, dir)
			if got := h.run(line); got.status == 0 || got.stdout != "" {
				t.Errorf("%q was done: %+v", line, got)
			}
			if after := tree(t, dir); !slices.Equal(before, after) {
				t.Errorf("%q changed the tree from %v to %v", line, before, after)
			}
			if len(h.owners) != 0 {
				t.Errorf("%q gave homes away: %v", line, h.owners)
			}
		})
	}
}

// tree lists every path below dir with its mode.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		paths = append(paths, info.Mode().String()+" "+strings.TrimPrefix(path, dir))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestALinkOutOfTheShareIsNotFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inside, outside := filepath.Join(dir, "homes"), filepath.Join(dir, "outside")
	for _, folder := range []string{inside, outside} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(outside, "secret")
	if err := errors.Join(os.WriteFile(secret, nil, 0o644), os.Symlink(outside, filepath.Join(inside, "kim"))); err != nil {
		t.Fatal(err)
	}
	h, err := openHomes(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer h.close()
	if got := h.run("ls -A " + sharePath + "/kim"); got.status == 0 || got.stdout != "" {
		t.Errorf("the folder behind the link was listed: %+v", got)
	}
	if got := h.run("sudo chmod 700 " + sharePath + "/kim"); got.status == 0 {
		t.Error("the folder behind the link got another mode")
	}
	if got := h.run("sudo rm -rf " + sharePath + "/kim"); got.status != 0 {
		t.Errorf("the link itself was not removed: %+v", got)
	}
	info, err := os.Stat(outside)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the folder outside: %v, %v; want it untouched", info, err)
	}
	if _, err := os.Stat(secret); err != nil {
		t.Errorf("the file outside: %v", err)
	}
}

// FuzzWords holds the NAS's reading of a line to the service's quoting: what was quoted comes out.
func FuzzWords(f *testing.F) {
	f.Add("sudo", "rm", "/volume1/share/user/kim")
	f.Add("a b", "it's", "")
	f.Add("$(id)", "`id`", "\n;\\\xff")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		want := []string{a, b, c}
		got, err := splitWords(remote.Quote(want...))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q came out as %q, %v", want, got, err)
		}
	})
}
