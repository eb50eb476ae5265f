package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/deploy/lab/internal/machine"
	"config-server/deploy/lab/internal/raise"
	"config-server/deploy/lab/internal/site"
)

func kerberosChecks() []check {
	checks := []check{
		{"Kerberos: PUT user makes the principal and the keytab's Secret", principalMade},
		{"Kerberos: create-pod brings the keytab to the node, where kinit works with it", keytabDeployed},
		{"Kerberos: the workspace sees its realm, its principal and its tickets", ticketsInPod},
		{"Kerberos: delete-pod takes the keytab from the node", keytabRemoved},
		{"Kerberos: a KDC that is down refuses PUT user, with ledger and homes as before", kdcDown},
		{"Kerberos: a keytab on a node that is down is kept in mind, and removed when it is back", removalPending},
		{"Kerberos: DELETE user removes principal, Secret and keytab", principalRemoved},
	}
	for i := range checks {
		run := checks[i].run
		checks[i].run = func(ctx context.Context, w *walk) error {
			if !w.site.Kerberos {
				return errOff
			}
			return run(ctx, w)
		}
	}
	return checks
}

// principals lists the KDC's principals.
func (w *walk) principals(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "/usr/sbin/kadmin.local", "-r", site.Domain, "-q", "listprincs")
	cmd.Env = []string{"LC_ALL=C", "KRB5_CONFIG=" + w.site.Path("kdc", "krb5.conf"), "KRB5_KDC_PROFILE=" + w.site.Path("kdc", "kdc.conf")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("list principals: %w: %s", err, out)
	}
	return "\n" + string(out), nil
}

func principalMade(ctx context.Context, w *walk) error {
	if err := w.addUser(ctx, dora); err != nil {
		return err
	}
	list, err := w.principals(ctx)
	if err != nil {
		return err
	}
	if !strings.Contains(list, "\n"+dora+"@"+site.Domain) {
		return fmt.Errorf("the KDC has %s", list)
	}
	secret, err := w.admin.CoreV1().Secrets(site.Namespace).Get(ctx, "krb5-keytab-"+dora, metav1.GetOptions{})
	if err == nil && len(secret.Data["krb5.keytab"]) == 0 {
		err = errors.New("the Secret has no keytab")
	}
	return err
}

// onFarm1 runs a command on the real node farm1.
func (w *walk) onFarm1(ctx context.Context, command string) (string, error) {
	return machine.Run(ctx, machine.Namespace(w.ours("farm1")), "/bin/sh", "-c", command)
}

func keytabDeployed(ctx context.Context, w *walk) error {
	if err := w.configure(ctx, dora, onNode("farm1", 0)); err != nil {
		return err
	}
	if _, err := w.create(ctx, dora); err != nil {
		return err
	}
	_, err := w.onFarm1(ctx, "KRB5CCNAME=MEMORY: kinit -k -t /etc/krb5-keytabs/"+dora+".keytab "+dora+"@"+site.Domain)
	return err
}

func ticketsInPod(ctx context.Context, w *walk) error {
	account, err := w.account(ctx, dora)
	if err != nil {
		return err
	}
	got, err := w.shell(ctx, dora, fmt.Sprintf("klist -c FILE:/run/user/%d/krb5cc", account.User.UID))
	if err == nil && !strings.Contains(got, "Default principal: "+dora+"@"+site.Domain) {
		err = fmt.Errorf("klist says %s", got)
	}
	if err != nil {
		return err
	}
	pod, err := w.pod(ctx, w.spaces[dora].PodName)
	if err != nil {
		return err
	}
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["KRB5_REALM"] != site.Domain || env["DECS_KRB5_PRINCIPAL"] != dora+"@"+site.Domain {
		return fmt.Errorf("the environment has realm %q and principal %q", env["KRB5_REALM"], env["DECS_KRB5_PRINCIPAL"])
	}
	return nil
}

func (w *walk) noKeytab(ctx context.Context) error {
	return until(ctx, 20*time.Second, func(ctx context.Context) error {
		_, err := w.onFarm1(ctx, "! test -e /etc/krb5-keytabs/"+dora+".keytab")
		return err
	})
}

func keytabRemoved(ctx context.Context, w *walk) error {
	if err := w.remove(ctx, dora); err != nil {
		return err
	}
	return w.noKeytab(ctx)
}

func kdcDown(ctx context.Context, w *walk) error {
	if err := w.ours("kadmind").Kill(); err != nil {
		return err
	}
	a, err := w.want(ctx, http.StatusInternalServerError, http.MethodPut, "/accounts/users", map[string]any{"name": carol, "passwd_base64": encoded(carol)})
	if err = errors.Join(err, w.up(ctx)); err != nil {
		return err
	}
	if a.text("step") != "CREATE_KRB5_PRINCIPAL" || a.text("error") != "KDC_FAILED" {
		return fmt.Errorf("it says %s", a.raw)
	}
	if _, err := w.want(ctx, http.StatusNotFound, http.MethodGet, "/accounts/users/"+carol, nil); err != nil {
		return err
	}
	return mustNotExist(w.home(carol))
}

func removalPending(ctx context.Context, w *walk) error {
	if _, err := w.create(ctx, dora); err != nil {
		return err
	}
	// Its sessions end with it, as with a host that is down.
	if err := w.ours("farm1-sshd").Kill(); err != nil {
		return err
	}
	for _, pid := range machine.Members(w.site.Scratch("farm1")) {
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil && strings.TrimSpace(string(name)) == "sshd" {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	err := w.remove(ctx, dora)
	var rows int
	if err == nil {
		rows, err = w.pending(ctx)
	}
	if err = errors.Join(err, w.up(ctx)); err != nil {
		return err
	}
	if rows != 1 {
		return fmt.Errorf("%d rows in krb5_cleanup_pending while the node was down, want 1", rows)
	}
	if err := w.noKeytab(ctx); err != nil {
		return err
	}
	return until(ctx, 20*time.Second, func(ctx context.Context) error {
		rows, err := w.pending(ctx)
		if err == nil && rows > 0 {
			err = fmt.Errorf("%d rows in krb5_cleanup_pending after the removal", rows)
		}
		return err
	})
}

// pending counts the removals that are still owed.
func (w *walk) pending(ctx context.Context) (int, error) {
	db := raise.OpenDatabase(w.site)
	defer func() { _ = db.Close() }()
	var rows int
	err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM krb5_cleanup_pending WHERE username = ?", dora).Scan(&rows)
	return rows, err
}

func principalRemoved(ctx context.Context, w *walk) error {
	if _, err := w.create(ctx, dora); err != nil {
		return err
	}
	if err := w.remove(ctx, dora); err != nil {
		return err
	}
	if _, err := w.want(ctx, http.StatusOK, http.MethodDelete, "/accounts/users/"+dora, nil); err != nil {
		return err
	}
	list, err := w.principals(ctx)
	if err != nil {
		return err
	}
	if strings.Contains(list, "\n"+dora+"@") {
		return errors.New("the KDC still has the principal")
	}
	if _, err := w.admin.CoreV1().Secrets(site.Namespace).Get(ctx, "krb5-keytab-"+dora, metav1.GetOptions{}); err == nil {
		return errors.New("the Secret is still there")
	}
	return w.noKeytab(ctx)
}
