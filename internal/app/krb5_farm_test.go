package app_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// forcedCommand is what the sshd of a farm node answers with.
const forcedCommand = `set -f
set -- $SSH_ORIGINAL_COMMAND
case "$1" in
  deploy) base64 -d >"$SPOOL/$2.new" && mv "$SPOOL/$2.new" "$SPOOL/$2.keytab" ;;
  remove) rm -f "$SPOOL/$2.keytab" ;;
  *) exit 64 ;;
esac`

// krb5Parts are the real parts beside those of a world: a KDC, and one sshd that plays the farm nodes.
type krb5Parts struct {
	kdc  *testkit.KDCServer
	node *testkit.SSHDServer
}

func newKrb5Parts(t *testing.T) *krb5Parts {
	t.Helper()
	return &krb5Parts{kdc: testkit.KDC(t), node: testkit.SSHD(t, testkit.SSHDOptions{User: "farm", Script: forcedCommand})}
}

// env switches Kerberos on for the nodes of that name, and account Secrets too.
func (k *krb5Parts) env(t *testing.T, nodes ...string) map[string]string {
	t.Helper()
	var list []map[string]any
	for _, name := range nodes {
		list = append(list, map[string]any{"name": name, "host": k.node.Host, "port": k.node.Port})
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"KRB5_REALM": k.kdc.Realm, "KRB5_KDC_HOST": "127.0.0.1:" + strconv.Itoa(k.kdc.KDCPort), "KRB5_CONFIG": k.kdc.ConfigFile,
		"KRB5_ADMIN_PRINCIPAL": k.kdc.AdminPrincipal, "KRB5_ADMIN_PASSWORD": k.kdc.AdminPassword,
		"FARM_SSH_USER": k.node.User, "FARM_SSH_KEY_PATH": k.node.KeyPath, "FARM_SSH_KNOWN_HOSTS": k.node.KnownHosts, "FARM_NODES_JSON": string(text),
		"ACCOUNT_SECRET": "true",
	}
}

// deployed lists the users whose keytab lies on the node.
func (k *krb5Parts) deployed() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(k.node.Spool, "*.keytab"))
	var users []string
	for _, file := range files {
		users = append(users, strings.TrimSuffix(filepath.Base(file), ".keytab"))
	}
	return users, err
}

func (k *krb5Parts) keytab(t *testing.T, user string) []byte {
	t.Helper()
	keytab, err := os.ReadFile(filepath.Join(k.node.Spool, user+".keytab"))
	if err != nil {
		t.Fatal(err)
	}
	return keytab
}

// secretOf reads a Secret with every right; nil = there is none.
func secretOf(t *testing.T, w *world.World, name string) *corev1.Secret {
	t.Helper()
	secret, err := w.Cluster.Admin(t).CoreV1().Secrets(w.Cluster.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// pendingKeytabs reads the table of removals that failed.
func pendingKeytabs(ctx context.Context, db *sql.DB) ([]farm.KeytabLeft, error) {
	rows, err := db.QueryContext(ctx, "SELECT username, node_name FROM krb5_cleanup_pending ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var all []farm.KeytabLeft
	for rows.Next() {
		var left farm.KeytabLeft
		if err := rows.Scan(&left.User, &left.Node); err != nil {
			return nil, err
		}
		all = append(all, left)
	}
	return all, rows.Err()
}

// krb5World is a world with Kerberos on, and its service.
func krb5World(t *testing.T, env map[string]string, nodes ...string) (*world.World, *krb5Parts, *testkit.ServiceProcess) {
	t.Helper()
	k := newKrb5Parts(t)
	full := k.env(t, nodes...)
	maps.Copy(full, env)
	w := world.New(t, world.Options{Env: full})
	w.Cluster.Grant(t, "everything")
	return w, k, w.Service(t, nil)
}

func sortedNames(names []string) []string { return slices.Sorted(slices.Values(names)) }

// krb5Secrets lists the names of the Secrets in the namespace.
func krb5Secrets(ctx context.Context, w *world.World, t testing.TB) ([]string, error) {
	list, err := w.Cluster.Admin(t).CoreV1().Secrets(w.Cluster.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, secret := range list.Items {
		names = append(names, secret.Name)
	}
	return sortedNames(names), nil
}

// refuseSecrets takes the right to make Secrets from the service, and waits until it is gone.
func refuseSecrets(t *testing.T, w *world.World) {
	t.Helper()
	roles := w.Cluster.Admin(t).RbacV1().Roles(w.Cluster.Namespace)
	role, err := roles.Get(t.Context(), "config-server-role", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].Resources, "secrets") {
			role.Rules[i].Verbs = []string{"get"}
		}
	}
	if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(w.Cluster.ServiceConfig())
	if err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, time.Minute, "the loss of a right", func(ctx context.Context) error {
		_, err := client.CoreV1().Secrets(w.Cluster.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "probe"}},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
}
