package raise

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/site"
)

func (l *Lab) krb5Conf() string {
	return "[libdefaults]\n default_realm = " + site.Domain + "\n dns_lookup_kdc = false\n dns_lookup_realm = false\n dns_canonicalize_hostname = false\n" +
		"[realms]\n " + site.Domain + " = {\n  kdc = " + l.Site.Address(site.KDC) + "\n  admin_server = " + l.Site.Address(site.Kadmind) + "\n }\n"
}

// startKDC starts krb5kdc and kadmind on a realm of the lab.
func (l *Lab) startKDC(ctx context.Context) error {
	s := l.Site
	file := func(name string) string { return s.Path("kdc", name) }
	profile := "[kdcdefaults]\n kdc_listen = " + s.Address(site.KDC) + "\n kdc_tcp_listen = " + s.Address(site.KDC) + "\n[realms]\n " + site.Domain + " = {\n" +
		"  database_name = " + file("principal") + "\n  key_stash_file = " + file("stash") + "\n  acl_file = " + file("acl") + "\n" +
		"  kadmind_listen = " + s.Address(site.Kadmind) + "\n  kpasswd_listen = " + s.Address(site.Kpasswd) + "\n }\n"
	for name, text := range map[string]string{"krb5.conf": l.krb5Conf(), "kdc.conf": profile, "acl": site.KadminPrincipal + " *\n"} {
		if err := l.write(file(name), text, 0o644); err != nil {
			return err
		}
	}
	env := []string{"LC_ALL=C", "KRB5_CONFIG=" + file("krb5.conf"), "KRB5_KDC_PROFILE=" + file("kdc.conf")}
	if _, err := os.Stat(file("made")); errors.Is(err, fs.ErrNotExist) {
		if err := l.makeRealm(ctx, env); err != nil {
			return err
		}
		if err := l.write(file("made"), "", 0o644); err != nil {
			return err
		}
	}
	kdc := &daemon.Daemon{Name: "krb5kdc", Path: "/usr/sbin/krb5kdc", Args: []string{"-n", "-r", site.Domain}, Env: env}
	kadmind := &daemon.Daemon{Name: "kadmind", Path: "/usr/sbin/kadmind", Args: []string{"-nofork", "-r", site.Domain}, Env: env}
	return l.startAll(ctx,
		described{kdc, s.Address(site.KDC), "tcp://" + s.Address(site.KDC)},
		described{kadmind, s.Address(site.Kadmind), "tcp://" + s.Address(site.Kadmind)},
	)
}

// makeRealm makes the KDC's database and its administrator. Passwords go by standard input.
func (l *Lab) makeRealm(ctx context.Context, env []string) error {
	old, err := os.ReadDir(l.Site.Path("kdc"))
	if err != nil {
		return fmt.Errorf("make the realm: %w", err)
	}
	for _, entry := range old {
		if strings.HasPrefix(entry.Name(), "principal") || entry.Name() == "stash" {
			if err := os.Remove(l.Site.Path("kdc", entry.Name())); err != nil {
				return fmt.Errorf("make the realm: %w", err)
			}
		}
	}
	for _, step := range []struct {
		program string
		args    []string
		input   string
	}{
		{"/usr/sbin/kdb5_util", []string{"create", "-s", "-r", site.Domain}, l.Site.MasterPass + "\n" + l.Site.MasterPass + "\n"},
		{"/usr/sbin/kadmin.local", []string{"-r", site.Domain}, "addprinc -pw " + l.Site.KadminPass + " " + site.KadminPrincipal + "\nquit\n"},
	} {
		cmd := exec.CommandContext(ctx, step.program, step.args...)
		cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, env...)
		cmd.Stdin = strings.NewReader(step.input)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make the realm: %s: %w: %s", step.program, err, out)
		}
	}
	return nil
}
