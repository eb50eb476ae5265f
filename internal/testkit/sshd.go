package testkit

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// DefaultShare is the share path of an SSHD when the options name none: the service's default.
const DefaultShare = "/volume1/share/user"

// SSHDOptions say how the server differs from a NAS with OpenSSH's defaults.
type SSHDOptions struct {
	User        string // login; "" = nas
	Share       string // absolute path of the homes on the server; "" = DefaultShare
	MaxSessions int    // sessions at once on a connection; 0 = OpenSSH's default, 10
	// Script, when set, is shell text that answers every command in place of a login shell, as a
	// forced command does: the command asked for is in $SSH_ORIGINAL_COMMAND, and $SPOOL is a folder
	// that the script may write and the test may read (SSHDServer.Spool).
	Script string
}

// SSHDServer is a running OpenSSH server that plays a NAS (or, with a Script, a farm node). It sees
// a file tree and a user list of its own: its share is a folder of the test, under the path that the
// service uses in production, and its sudo allows the four commands of the contract on that share.
type SSHDServer struct {
	Host       string // always 127.0.0.1
	Port       int
	User       string
	KeyPath    string // private key that the server accepts
	KnownHosts string // known_hosts file with the server's key
	Share      string // path of the share as the server sees it
	ShareDir   string // the same folder as the test sees it
	Spool      string // folder that a Script may write, as the test sees it

	dir  string
	proc *process
}

// SSHD starts a server for this test. It needs root, because logins and sudo do.
func SSHD(t testing.TB, options SSHDOptions) *SSHDServer {
	t.Helper()
	Need(t, "OpenSSH server", "openssh-server sudo", "sshd", "sudo", "mount")
	needRoot(t, "OpenSSH server")
	server, err := prepareSSHD(testPartDir(t, "sshd"), options)
	if err != nil {
		t.Fatal(err)
	}
	manage(t, server.proc)
	return server
}

// Address is the server's host:port.
func (s *SSHDServer) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Stop ends the server and every session, as an outage of the host does; connecting is refused.
func (s *SSHDServer) Stop() { s.proc.stop() }

// Start starts a stopped server again on the same port, with the same key and share.
func (s *SSHDServer) Start(t testing.TB) {
	t.Helper()
	controlled{s.proc}.restart(t)
}

// Freeze makes the server and its sessions hang: connections are accepted by the kernel, and nothing
// is ever said on them.
func (s *SSHDServer) Freeze(t testing.TB) {
	t.Helper()
	s.signalAll(syscall.SIGSTOP)
	t.Cleanup(s.Thaw)
}

// Thaw lets a frozen server go on.
func (s *SSHDServer) Thaw() { s.signalAll(syscall.SIGCONT) }

// DropConnections breaks every connection; the server goes on and accepts new ones.
func (s *SSHDServer) DropConnections() {
	for _, pid := range descendants(s.proc.runningPID()) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func (s *SSHDServer) signalAll(sig syscall.Signal) {
	pid := s.proc.runningPID()
	s.proc.signal(sig)
	for _, child := range descendants(pid) {
		_ = syscall.Kill(child, sig)
	}
}

// Commands returns the commands that the server was sent, in order of their arrival.
func (s *SSHDServer) Commands(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, "log", "commands"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("read the commands of the ssh server: %v", err)
	}
	// A command may hold line ends; each entry ends in NUL.
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// ForgetCommands empties the list of commands.
func (s *SSHDServer) ForgetCommands(t testing.TB) {
	t.Helper()
	if err := os.Remove(filepath.Join(s.dir, "log", "commands")); err != nil && !os.IsNotExist(err) {
		t.Fatalf("forget the commands of the ssh server: %v", err)
	}
}

// prepareSSHD writes all files of a server to dir.
func prepareSSHD(dir string, options SSHDOptions) (*SSHDServer, error) {
	if options.User == "" {
		options.User = "nas"
	}
	if options.Share == "" {
		options.Share = DefaultShare
	}
	daemon, err := lookProgram("sshd")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	top, rest, _ := strings.Cut(strings.TrimPrefix(path.Clean(options.Share), "/"), "/")
	// The share is mounted on its first folder, and hides what is there from the server.
	if entries, err := os.ReadDir("/" + top); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("share %s: the machine has something in /%s already", options.Share, top)
	}
	s := &SSHDServer{
		Host: "127.0.0.1", Port: ports[0], User: options.User, Share: options.Share,
		KeyPath: filepath.Join(dir, "client_key"), KnownHosts: filepath.Join(dir, "known_hosts"),
		ShareDir: filepath.Join(dir, "volume", rest), Spool: filepath.Join(dir, "spool"), dir: dir,
	}
	for folder, mode := range map[string]os.FileMode{
		s.ShareDir: 0o755, s.Spool: 0o777, filepath.Join(dir, "log"): 0o777, filepath.Join(dir, "faults"): 0o777,
	} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, fmt.Errorf("make the folders of the ssh server: %w", err)
		}
		if err := os.Chmod(folder, mode); err != nil {
			return nil, fmt.Errorf("make the folders of the ssh server: %w", err)
		}
	}
	hostKey, err := writeKey(filepath.Join(dir, "host_key"))
	if err != nil {
		return nil, err
	}
	clientKey, err := writeKey(s.KeyPath)
	if err != nil {
		return nil, err
	}
	script := options.Script
	if script == "" {
		script = `exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"`
	}
	files := []struct {
		name, text string
		mode       os.FileMode
	}{
		{"authorized_keys", string(ssh.MarshalAuthorizedKey(clientKey)), 0o644},
		{"known_hosts", knownhosts.Line([]string{knownhosts.Normalize(s.Address())}, hostKey) + "\n", 0o644},
		{"sshd_config", s.config(options), 0o644},
		{"passwd", "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n" + options.User + ":x:1026:100::/:/bin/sh\n", 0o644},
		{"group", "root:x:0:\nusers:x:100:\nnogroup:x:65534:\n", 0o644},
		{"shadow", "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n" + options.User + ":*:19000:0:99999:7:::\n", 0o600},
		{"hosts", "127.0.0.1 localhost " + hostname() + "\n", 0o644},
		{"sudoers", sudoers(options.User, options.Share), 0o440},
		// sudo would complain on every command where it may not change its own limits.
		{"sudo.conf", "Set disable_coredump false\n", 0o644},
		{"answer", "#!/bin/sh\n" + script + "\n", 0o755},
		{"command", s.commandScript(), 0o755},
		{"start", s.startScript(daemon, "/"+top), 0o755},
	}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file.name), []byte(file.text), file.mode); err != nil {
			return nil, fmt.Errorf("write the files of the ssh server: %w", err)
		}
	}
	s.proc = &process{
		name: "sshd", path: "/bin/sh", args: []string{filepath.Join(dir, "start")}, dir: "/",
		log: filepath.Join(dir, "sshd.log"), ready: dialTCP(s.Address()),
		// Its own mounts give the server its own users, sudo rules and share; its own process
		// numbers make every session end with it.
		attr: func(attr *syscall.SysProcAttr) { attr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID },
	}
	return s, nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "nas"
	}
	return name
}

// writeKey makes an ed25519 key, writes its private half to path and returns the public one.
func writeKey(path string) (ssh.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an ssh key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, fmt.Errorf("make an ssh key: %w", err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, fmt.Errorf("write an ssh key: %w", err)
	}
	return ssh.NewPublicKey(public)
}

func (s *SSHDServer) config(options SSHDOptions) string {
	lines := []string{
		"ListenAddress 127.0.0.1:" + strconv.Itoa(s.Port),
		"HostKey " + filepath.Join(s.dir, "host_key"),
		"AuthorizedKeysFile " + filepath.Join(s.dir, "authorized_keys"),
		"PidFile none",
		"StrictModes no", // the temporary folder's owner and mode are not the point here
		"UsePAM no",
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"PermitRootLogin no",
		"UseDNS no",
		"PrintMotd no",
		"MaxStartups 200", // tests open many connections at once, which is not what they test
		"ForceCommand " + filepath.Join(s.dir, "command"),
		"LogLevel VERBOSE",
	}
	if options.MaxSessions > 0 {
		lines = append(lines, "MaxSessions "+strconv.Itoa(options.MaxSessions))
	}
	return strings.Join(lines, "\n") + "\n"
}

// sudoers allows user the contract's four commands on homes directly below share, and nothing else.
func sudoers(user, share string) string {
	// Sudo's own escapes: a colon separates in its grammar.
	home := strings.ReplaceAll(share, ".", `\.`) + "/[A-Za-z0-9_][A-Za-z0-9._-]*"
	return strings.Join([]string{
		"Defaults !requiretty, !lecture, !fqdn, !syslog, secure_path=/usr/sbin:/usr/bin:/sbin:/bin",
		user + " ALL=(root) NOPASSWD: /usr/bin/mkdir ^-p " + home + "$",
		user + ` ALL=(root) NOPASSWD: /usr/bin/chown ^[0-9]+\:[0-9]+ ` + home + "$",
		user + " ALL=(root) NOPASSWD: /usr/bin/chmod ^700 " + home + "$",
		user + " ALL=(root) NOPASSWD: /usr/bin/rm ^-rf " + home + "$",
	}, "\n") + "\n"
}

// commandScript is what every session runs: it notes the command, lets a fault of the test take
// over, and else has the command answered.
func (s *SSHDServer) commandScript() string {
	return `#!/bin/sh
export SPOOL=` + s.Spool + `
printf '%s\0' "$SSH_ORIGINAL_COMMAND" >>` + filepath.Join(s.dir, "log", "commands") + `
faults=` + filepath.Join(s.dir, "faults") + `
answer=` + filepath.Join(s.dir, "answer") + `
[ -r "$faults/rules" ] && . "$faults/rules"
exec "$answer"
`
}

// startScript gives the server its own view of the machine and becomes sshd.
func (s *SSHDServer) startScript(daemon, top string) string {
	return `#!/bin/sh
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p -m 0755 /run/sshd
for name in passwd group shadow hosts sudoers; do
  mount --bind ` + s.dir + `/$name /etc/$name
done
[ ! -e /etc/sudo.conf ] || mount --bind ` + s.dir + `/sudo.conf /etc/sudo.conf
# The only trace on the machine: an empty folder to mount the share on.
mkdir -p ` + top + `
mount --bind ` + s.dir + `/volume ` + top + `
exec ` + daemon + ` -D -e -f ` + s.dir + `/sshd_config
`
}
