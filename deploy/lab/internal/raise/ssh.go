package raise

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/machine"
	"config-server/deploy/lab/internal/site"
)

// farmCommand is the forced command of farm nodes: all that the service's key can do there.
//
//go:embed farm-command.sh
var farmCommand string

// startNAS starts the NAS: a machine with users, sudo rules and a share of its own.
func (l *Lab) startNAS(ctx context.Context) error {
	clientKey, err := l.sshKey("nas")
	if err != nil {
		return err
	}
	hostKey, err := l.sshKey("nas-host")
	if err != nil {
		return err
	}
	if _, err := l.knownHosts("nas-known-hosts", map[int]ssh.PublicKey{l.Site.PortOf(site.NAS): hostKey}); err != nil {
		return err
	}
	user := site.NASUser
	files := []machine.File{
		{Path: "/etc/passwd", Text: "root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n" + user + ":x:1026:100::/:/bin/sh\n", Mode: 0o644},
		{Path: "/etc/group", Text: "root:x:0:\nusers:x:100:\nnogroup:x:65534:\n", Mode: 0o644},
		{Path: "/etc/shadow", Text: "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n" + user + ":*:19000:0:99999:7:::\n", Mode: 0o600},
		{Path: "/etc/sudoers", Text: sudoers(user), Mode: 0o440},
		// sudo would complain on every command where it may not change its own limits.
		{Path: "/etc/sudo.conf", Text: "Set disable_coredump false\n", Mode: 0o644},
		{Path: "/etc/hosts", Text: "127.0.0.1 localhost " + hostname() + "\n", Mode: 0o644},
		{Path: "/etc/lab-ssh/authorized_keys", Text: string(ssh.MarshalAuthorizedKey(clientKey)), Mode: 0o644},
	}
	nas, err := l.machine(machine.Spec{
		Name: "nas", Scratch: l.Site.Scratch("nas"), Shared: []string{l.Site.Dir},
		Binds: map[string]string{site.SharePath: l.Site.Homes()}, Files: files,
	})
	if err != nil {
		return err
	}
	if err := l.startMachine(ctx, nas, ""); err != nil {
		return err
	}
	return l.startSSHD(ctx, "nas-sshd", nas, l.Site.PortOf(site.NAS), "nas-host", "PermitRootLogin no")
}

// sudoers allows user the contract's four commands on homes directly below the share, and nothing
// else.
func sudoers(user string) string {
	home := site.SharePath + "/[A-Za-z0-9_][A-Za-z0-9._-]*"
	return strings.Join([]string{
		"Defaults !requiretty, !lecture, !fqdn, !syslog, secure_path=/usr/sbin:/usr/bin:/sbin:/bin",
		user + " ALL=(root) NOPASSWD: /usr/bin/mkdir ^-p " + home + "$",
		user + ` ALL=(root) NOPASSWD: /usr/bin/chown ^[0-9]+\:[0-9]+ ` + home + "$",
		user + " ALL=(root) NOPASSWD: /usr/bin/chmod ^700 " + home + "$",
		user + " ALL=(root) NOPASSWD: /usr/bin/rm ^-rf " + home + "$",
	}, "\n") + "\n"
}

// farmNodeFiles are what a farm node has for its forced command.
func (l *Lab) farmNodeFiles(_ site.Node) []machine.File {
	key, err := l.sshKey("farm")
	if err != nil {
		return nil
	}
	return []machine.File{
		{Path: "/etc/krb5.conf", Text: l.krb5Conf(), Mode: 0o644},
		{Path: "/etc/lab-ssh/authorized_keys", Text: `restrict,command="/usr/local/sbin/farm-command" ` + string(ssh.MarshalAuthorizedKey(key)), Mode: 0o644},
		{Path: "/usr/local/sbin/farm-command", Text: farmCommand, Mode: 0o755},
	}
}

// startNodeSSH starts a farm node's sshd.
func (l *Lab) startNodeSSH(ctx context.Context, node site.Node) error {
	host, err := l.nodeMachine(node)
	if err != nil {
		return err
	}
	keys := map[int]ssh.PublicKey{}
	for _, node := range l.Site.Nodes {
		key, err := l.sshKey(node.Name + "-host")
		if err != nil {
			return err
		}
		keys[l.Site.SSHPort(node)] = key
	}
	if _, err := l.knownHosts("farm-known-hosts", keys); err != nil {
		return err
	}
	return l.startSSHD(ctx, node.Name+"-sshd", host, l.Site.SSHPort(node), node.Name+"-host",
		"PermitRootLogin forced-commands-only")
}

// startSSHD starts OpenSSH's server in a machine, on 127.0.0.1.
func (l *Lab) startSSHD(ctx context.Context, name string, host *daemon.Daemon, port int, hostKey string, lines ...string) error {
	namespace, err := namespaceOf(host)
	if err != nil {
		return err
	}
	config := append([]string{
		"ListenAddress 127.0.0.1:" + strconv.Itoa(port), "HostKey " + l.Site.Path("keys", hostKey),
		"AuthorizedKeysFile /etc/lab-ssh/authorized_keys", "PidFile none", "UsePAM no", "PasswordAuthentication no",
		"KbdInteractiveAuthentication no", "UseDNS no", "PrintMotd no", "LogLevel VERBOSE",
	}, lines...)
	file := l.Site.Path("keys", name+".conf")
	if err := l.write(file, strings.Join(config, "\n")+"\n", 0o644); err != nil {
		return err
	}
	// Its folder for privilege separation lies on the machine's own /run.
	if _, err := machine.Run(ctx, namespace, "mkdir", "-p", "-m", "0755", "/run/sshd"); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	return l.startAll(ctx, described{&daemon.Daemon{
		Name: name, Path: "/usr/sbin/sshd", Args: []string{"-D", "-e", "-f", file}, Namespace: namespace,
	}, address, "tcp://" + address})
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "nas"
	}
	return name
}
