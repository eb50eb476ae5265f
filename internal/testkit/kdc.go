package testkit

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// KDCServer is a running MIT KDC with its administration server, for a realm of its own.
type KDCServer struct {
	Realm string
	// AdminPrincipal may administer the principals of users, and no others; AdminPassword is its password.
	AdminPrincipal string
	AdminPassword  string
	// ConfigFile is a krb5.conf that names the realm and both servers, for KRB5_CONFIG.
	ConfigFile string
	KDCPort    int
	AdminPort  int

	dir     string
	kdc     *process
	kadmind *process
}

// KDC starts a KDC for this test. It needs no root.
func KDC(t testing.TB) *KDCServer {
	t.Helper()
	Need(t, "KDC", "krb5-kdc krb5-admin-server krb5-user", "krb5kdc", "kadmind", "kdb5_util", "kadmin.local", "kadmin", "kinit")
	k, err := prepareKDC(testPartDir(t, "kdc"))
	if err != nil {
		t.Fatal(err)
	}
	manage(t, k.kdc)
	manage(t, k.kadmind)
	return k
}

// The parts of a KDCServer, for faults.
const (
	PartKDC     = "krb5kdc"
	PartKadmind = "kadmind"
)

// Stop ends both servers; connecting is refused.
func (k *KDCServer) Stop() {
	k.kadmind.stop()
	k.kdc.stop()
}

// Start starts both again, on the same ports and database.
func (k *KDCServer) Start(t testing.TB) {
	t.Helper()
	controlled{k.kdc}.restart(t)
	controlled{k.kadmind}.restart(t)
}

// Freeze makes both servers hang: connections are accepted by the kernel, and nothing is ever said.
func (k *KDCServer) Freeze(t testing.TB) {
	t.Helper()
	controlled{k.kdc}.freeze(t)
	controlled{k.kadmind}.freeze(t)
}

// Thaw lets frozen servers go on.
func (k *KDCServer) Thaw(t testing.TB) {
	t.Helper()
	controlled{k.kdc}.thaw(t)
	controlled{k.kadmind}.thaw(t)
}

// Local runs one query of kadmin.local on the database and returns what it says. It works while the
// servers are stopped, too.
func (k *KDCServer) Local(t testing.TB, query string) string {
	t.Helper()
	out, err := k.run(nil, "kadmin.local", "-r", k.Realm, "-q", query)
	if err != nil {
		t.Fatalf("kadmin.local %s: %v\n%s", query, err, out)
	}
	return out
}

// Principals lists the principals with one component: those of users.
func (k *KDCServer) Principals(t testing.TB) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(k.Local(t, "listprincs")) {
		name, realm, found := strings.Cut(strings.TrimSpace(line), "@")
		if found && realm == k.Realm && !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	return names
}

// Login asks the KDC for a ticket with the keytab, as kinit does on a farm node.
func (k *KDCServer) Login(t testing.TB, principal string, keytab []byte) error {
	t.Helper()
	file := filepath.Join(testPartDir(t, "keytab"), "krb5.keytab")
	if err := os.WriteFile(file, keytab, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := k.run([]string{"KRB5CCNAME=FILE:" + file + ".cache"}, "kinit", "-k", "-t", file, principal); err != nil {
		return fmt.Errorf("kinit %s: %w: %s", principal, err, out)
	}
	return nil
}

// run runs a program of the realm with its configuration.
func (k *KDCServer) run(env []string, program string, args ...string) (string, error) {
	path, err := lookProgram(program)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(append(os.Environ(), k.environment()...), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (k *KDCServer) environment() []string {
	return []string{"LC_ALL=C", "KRB5_CONFIG=" + k.ConfigFile, "KRB5_KDC_PROFILE=" + filepath.Join(k.dir, "kdc.conf")}
}

// prepareKDC writes all files of a realm to dir and makes its database.
func prepareKDC(dir string) (*KDCServer, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	k := &KDCServer{
		Realm: "FARM.TEST", AdminPrincipal: "config-server/admin@FARM.TEST", AdminPassword: "kdc secret " + filepath.Base(dir),
		ConfigFile: filepath.Join(dir, "krb5.conf"), KDCPort: ports[0], AdminPort: ports[1], dir: dir,
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	local := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	for name, text := range map[string]string{
		"krb5.conf": "[libdefaults]\n default_realm = " + k.Realm + "\n dns_lookup_kdc = false\n dns_lookup_realm = false\n" +
			" dns_canonicalize_hostname = false\n[realms]\n " + k.Realm + " = {\n  kdc = " + local(k.KDCPort) + "\n  admin_server = " + local(k.AdminPort) + "\n }\n",
		"kdc.conf": "[kdcdefaults]\n kdc_listen = " + local(k.KDCPort) + "\n kdc_tcp_listen = " + local(k.KDCPort) + "\n[realms]\n " + k.Realm + " = {\n" +
			"  database_name = " + file("principal") + "\n  key_stash_file = " + file("stash") + "\n  acl_file = " + file("acl") + "\n" +
			"  kadmind_listen = " + local(k.AdminPort) + "\n  kpasswd_listen = " + local(ports[2]) + "\n }\n",
		"acl": k.AdminPrincipal + " admci *@" + k.Realm + "\n", // what docs/operations.md asks for, no more
	} {
		if err := os.WriteFile(file(name), []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("write the files of the KDC: %w", err)
		}
	}
	// The passwords of a test's realm may stand in arguments; those of the service may not.
	if out, err := k.run(nil, "kdb5_util", "create", "-s", "-r", k.Realm, "-P", "master key of a test"); err != nil {
		return nil, fmt.Errorf("make the database of the KDC: %w\n%s", err, out)
	}
	if out, err := k.run(nil, "kadmin.local", "-r", k.Realm, "-q", "addprinc -pw \""+k.AdminPassword+"\" "+k.AdminPrincipal); err != nil {
		return nil, fmt.Errorf("make the administrator of the KDC: %w\n%s", err, out)
	}
	k.kdc, k.kadmind = &process{name: PartKDC, ready: dialTCP(local(k.KDCPort))}, &process{name: PartKadmind, ready: dialTCP(local(k.AdminPort))}
	for _, p := range []*process{k.kdc, k.kadmind} {
		if p.path, err = lookProgram(p.name); err != nil {
			return nil, err
		}
		p.dir, p.log, p.env = dir, file(p.name+".log"), k.environment()
	}
	k.kdc.args = []string{"-n", "-r", k.Realm}
	k.kadmind.args = []string{"-nofork", "-r", k.Realm}
	return k, nil
}
