package kerberos_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"config-server/internal/cluster"
	"config-server/internal/database"
	"config-server/internal/farm"
	"config-server/internal/kerberos"
	"config-server/internal/remote"
	"config-server/internal/testkit"
)

// farmScript is a farm node's forced command.
const farmScript = `set -f
set -- $SSH_ORIGINAL_COMMAND
case "$1" in
  deploy) base64 -d >"$SPOOL/$2.keytab.new" && printf '%s' "$3" >"$SPOOL/$2.uid" && mv "$SPOOL/$2.keytab.new" "$SPOOL/$2.keytab" ;;
  remove) rm -f "$SPOOL/$2.keytab" "$SPOOL/$2.uid" ;;
  *) echo "what is $1?" >&2; exit 64 ;;
esac`

// parts are a realm with all that it works on, each part real.
type parts struct {
	kdc     *testkit.KDCServer
	node    *testkit.SSHDServer
	cluster *testkit.KubeCluster
	secrets *cluster.Cluster
	table   *kerberos.Table
	log     *strings.Builder
	realm   *kerberos.Realm
}

func start(t *testing.T, change ...func(*kerberos.Options)) *parts {
	t.Helper()
	p := &parts{kdc: testkit.KDC(t), node: testkit.SSHD(t, testkit.SSHDOptions{User: "farm", Script: farmScript}), cluster: testkit.Cluster(t), log: new(strings.Builder)}
	p.cluster.Grant(t, "everything")
	p.secrets = cluster.FromREST(p.cluster.ServiceConfig(), cluster.Options{Namespace: p.cluster.Namespace})
	p.table = kerberos.NewTable(openTable(t))
	options := kerberos.Options{
		Realm: p.kdc.Realm, KDCHost: "127.0.0.1:" + strconv.Itoa(p.kdc.KDCPort), ConfigFile: p.kdc.ConfigFile,
		AdminPrincipal: p.kdc.AdminPrincipal, AdminPassword: p.kdc.AdminPassword, Secrets: p.secrets, Pending: p.table,
		Nodes: []kerberos.Node{{Name: "Farm6", Runner: runner(t, p.node)}},
		Log:   slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&options)
	}
	p.realm = newRealm(t, options)
	return p
}

func newRealm(t *testing.T, options kerberos.Options) *kerberos.Realm {
	t.Helper()
	realm, err := kerberos.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return realm
}

func openTable(t *testing.T) *database.DB {
	t.Helper()
	db, err := database.OpenSQLite(filepath.Join(t.TempDir(), "table.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func runner(t *testing.T, node *testkit.SSHDServer) kerberos.Runner {
	t.Helper()
	client, err := remote.New(remote.Options{
		Host: node.Host, Port: node.Port, User: node.User, KeyPath: node.KeyPath, KnownHosts: node.KnownHosts,
		ConnectTimeout: time.Second, HandshakeTimeout: time.Second, CommandTimeout: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// keytab reads the user's Secret with every right.
func (p *parts) keytab(t *testing.T, user farm.UserName) []byte {
	t.Helper()
	secret, found, err := p.secrets.Secret(t.Context(), farm.SecretName("krb5-keytab", user))
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return nil
	}
	return secret.Data["krb5.keytab"]
}

// deployed reads what lies on the farm node; nil = nothing.
func (p *parts) deployed(t *testing.T, user farm.UserName) []byte {
	t.Helper()
	keytab, err := os.ReadFile(filepath.Join(p.node.Spool, string(user)+".keytab"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return keytab
}

func (p *parts) left(t *testing.T) []farm.KeytabLeft {
	t.Helper()
	left, err := p.table.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAUserGetsAPrincipalWhoseKeytabLogsInFromTheFarmNode(t *testing.T) {
	t.Parallel()
	p := start(t)
	ctx := t.Context()
	must(t, p.realm.Check(ctx))
	const user = farm.UserName("kim_1")
	if principal, keytab, err := p.realm.Existing(ctx, user); principal || keytab || err != nil {
		t.Fatalf("before: principal %v, keytab %v, %v", principal, keytab, err)
	}
	must(t, p.realm.CreatePrincipal(ctx, user))
	if principal, keytab, err := p.realm.Existing(ctx, user); !principal || !keytab || err != nil {
		t.Fatalf("after: principal %v, keytab %v, %v", principal, keytab, err)
	}
	must(t, p.realm.Deploy(ctx, "farm6", user, 20001))
	if uid, err := os.ReadFile(filepath.Join(p.node.Spool, "kim_1.uid")); string(uid) != "20001" {
		t.Errorf("the node was told uid %q (%v)", uid, err)
	}
	if err := p.kdc.Login(t, p.realm.Principal(user), p.deployed(t, user)); err != nil {
		t.Error(err)
	}
	must(t, p.realm.RemoveUser(ctx, user, 20001))
	if got := p.kdc.Principals(t); len(got) > 0 {
		t.Errorf("principals left: %q", got)
	}
	if p.keytab(t, user) != nil || p.deployed(t, user) != nil || len(p.left(t)) > 0 {
		t.Errorf("Secret %v, keytab on the node %v, notes %v", p.keytab(t, user) != nil, p.deployed(t, user) != nil, p.left(t))
	}
	must(t, p.realm.RemoveUser(ctx, user, 20001)) // nothing is there any more
}

func TestALeftOverPrincipalGetsANewKey(t *testing.T) {
	t.Parallel()
	p := start(t)
	must(t, p.realm.CreatePrincipal(t.Context(), "lee"))
	old := p.keytab(t, "lee")
	must(t, p.realm.CreatePrincipal(t.Context(), "lee"))
	if err := p.kdc.Login(t, "lee@"+p.kdc.Realm, old); err == nil {
		t.Error("the old keytab still logs in")
	}
	if err := p.kdc.Login(t, "lee@"+p.kdc.Realm, p.keytab(t, "lee")); err != nil {
		t.Error(err)
	}
}

func TestDeployMakesTheKeytabOfAnAccountOlderThanKerberos(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(t *testing.T, p *parts){
		"nothing is there":    func(*testing.T, *parts) {},
		"the Secret was lost": func(t *testing.T, p *parts) { p.kdc.Local(t, "addprinc -randkey old") },
		"the Secret is of no use": func(t *testing.T, p *parts) {
			must(t, p.secrets.PutSecret(t.Context(), farm.Secret{Name: "krb5-keytab-old", Data: map[string][]byte{"krb5.keytab": []byte("rubbish")}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			arrange(t, p)
			must(t, p.realm.Deploy(t.Context(), "farm6", "old", 20002))
			if err := p.kdc.Login(t, "old@"+p.kdc.Realm, p.deployed(t, "old")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWithdrawTakesBackWhatWasMadeAndNoMore(t *testing.T) {
	t.Parallel()
	p := start(t)
	for _, test := range []struct{ principal, keytab bool }{{true, true}, {false, true}, {true, false}, {false, false}} {
		must(t, p.realm.CreatePrincipal(t.Context(), "park"))
		must(t, p.realm.Withdraw(t.Context(), "park", test.principal, test.keytab))
		principal, keytab, err := p.realm.Existing(t.Context(), "park")
		if principal == test.principal || keytab == test.keytab || err != nil {
			t.Errorf("withdrawn %+v: there are principal %v, keytab %v, %v", test, principal, keytab, err)
		}
	}
}

func TestTheServicesOwnPrincipalIsNeverTouched(t *testing.T) {
	t.Parallel()
	p := start(t, func(o *kerberos.Options) { o.AdminPrincipal = "boss" })
	p.kdc.Local(t, "addprinc -randkey boss")
	for name, err := range map[string]error{
		"create": p.realm.CreatePrincipal(t.Context(), "boss"), "deploy": p.realm.Deploy(t.Context(), "farm6", "boss", 20001),
	} {
		if !errors.Is(err, farm.ErrOwner) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, p.realm.RemoveUser(t.Context(), "boss", 20001))
	if !strings.Contains(p.kdc.Local(t, "getprinc boss"), "Key: vno 1,") {
		t.Error("the principal was changed")
	}
}

func TestAKDCThatIsDownIsAnErrorInBoundedTime(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(t *testing.T, k *testkit.KDCServer){
		"stopped": func(_ *testing.T, k *testkit.KDCServer) { k.Stop() },
		"frozen":  func(t *testing.T, k *testkit.KDCServer) { k.Freeze(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, func(o *kerberos.Options) { o.Limit = time.Second })
			fault(t, p.kdc)
			began := time.Now()
			err := p.realm.CreatePrincipal(t.Context(), "kim")
			if err == nil || strings.Contains(err.Error(), p.kdc.AdminPassword) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			if p.keytab(t, "kim") != nil {
				t.Error("a keytab without principal")
			}
		})
	}
}

func TestARefusalOfKadmindIsAnErrorAlthoughKadminEndsWithZero(t *testing.T) {
	t.Parallel()
	p := start(t)
	weak := newRealm(t, kerberos.Options{
		Realm: p.kdc.Realm, KDCHost: "127.0.0.1", ConfigFile: p.kdc.ConfigFile, AdminPrincipal: "weak/admin", AdminPassword: "weak", Secrets: p.secrets, Pending: p.table,
	})
	p.kdc.Local(t, "addprinc -pw weak weak/admin")
	if err := weak.CreatePrincipal(t.Context(), "kim"); err == nil || !strings.Contains(err.Error(), "privilege") {
		t.Errorf("an administrator without rights: %v", err)
	}
	wrong := newRealm(t, kerberos.Options{
		Realm: p.kdc.Realm, KDCHost: "127.0.0.1", ConfigFile: p.kdc.ConfigFile, AdminPrincipal: p.kdc.AdminPrincipal, AdminPassword: "wrong", Secrets: p.secrets, Pending: p.table,
	})
	if err := wrong.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "Incorrect password") {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestAFarmNodeThatIsDownIsNotedAndStruckWhenItIsBack(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(t *testing.T, s *testkit.SSHDServer){
		"stopped": func(_ *testing.T, s *testkit.SSHDServer) { s.Stop() },
		"frozen":  func(t *testing.T, s *testkit.SSHDServer) { s.Freeze(t) },
		"refuses": func(t *testing.T, s *testkit.SSHDServer) {
			s.Fail(t, testkit.SSHFault{Contains: "remove", Exit: 1, Stderr: "read-only"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			must(t, p.realm.CreatePrincipal(t.Context(), "kim"))
			must(t, p.realm.Deploy(t.Context(), "Farm6", "kim", 20001))
			fault(t, p.node)
			err := p.realm.RemoveUser(t.Context(), "kim", 20001)
			if !errors.Is(err, farm.ErrDeferred) || !strings.Contains(err.Error(), "Farm6") {
				t.Errorf("error %v", err)
			}
			want := farm.KeytabLeft{User: "kim", Node: "Farm6"}
			if left, err := p.realm.Left(t.Context()); err != nil || len(left) != 1 || left[0] != want {
				t.Errorf("noted %v, %v", left, err)
			}
			p.node.Thaw()
			p.node.Fail(t)
			p.node.Start(t)
			must(t, p.realm.Remove(t.Context(), "Farm6", "kim"))
			if p.deployed(t, "kim") != nil || len(p.left(t)) > 0 {
				t.Errorf("keytab there: %v, notes %v", p.deployed(t, "kim") != nil, p.left(t))
			}
		})
	}
}

func TestRemoveUserIsNotDeferredWhileThePrincipalStays(t *testing.T) {
	t.Parallel()
	p := start(t, func(o *kerberos.Options) { o.Limit = 2 * time.Second })
	must(t, p.realm.CreatePrincipal(t.Context(), "kim"))
	p.kdc.Stop()
	p.node.Stop()
	err := p.realm.RemoveUser(t.Context(), "kim", 20001)
	if err == nil || errors.Is(err, farm.ErrDeferred) || !strings.Contains(err.Error(), "kim@") || !strings.Contains(err.Error(), "Farm6") {
		t.Errorf("error %v", err)
	}
}

func TestDeployTellsOfANodeThatIsNotListed(t *testing.T) {
	t.Parallel()
	p := start(t)
	err := p.realm.Deploy(t.Context(), "farm7", "kim", 20001)
	if !errors.Is(err, farm.ErrNotFound) || !strings.Contains(err.Error(), "FARM_NODES_JSON") {
		t.Errorf("error %v", err)
	}
	if len(p.kdc.Principals(t)) > 0 || len(p.left(t)) > 0 {
		t.Error("it left something")
	}
}

func TestSecretsStandInNoLogErrorArgumentOrFile(t *testing.T) {
	t.Parallel()
	seen := filepath.Join(t.TempDir(), "seen")
	spy := filepath.Join(t.TempDir(), "kadmin")
	script := "#!/bin/sh\n{ printf '%s\\n' \"$@\"; env; case \"$*\" in *ktadd*) echo \"keytab: $(readlink /proc/$$/fd/3)\";; esac; } >>" + seen + "\nexec kadmin \"$@\"\n"
	must(t, os.WriteFile(spy, []byte(script), 0o755))
	p := start(t, func(o *kerberos.Options) { o.Kadmin = spy })
	ctx := t.Context()
	must(t, p.realm.CreatePrincipal(ctx, "kim"))
	encoded := base64.StdEncoding.EncodeToString(p.keytab(t, "kim"))
	// A careless script on the node repeats what it gets.
	p.node.Fail(t, testkit.SSHFault{Contains: "deploy", Exit: 1, Stderr: "+ echo " + encoded})
	err := p.realm.Deploy(ctx, "farm6", "kim", 20001)
	if err == nil {
		t.Fatal("no error")
	}
	p.node.Fail(t)
	must(t, p.realm.Deploy(ctx, "farm6", "kim", 20001))
	must(t, p.realm.RemoveUser(ctx, "kim", 20001))
	told, readErr := os.ReadFile(seen)
	must(t, readErr)
	if !strings.Contains(string(told), "keytab: ") {
		t.Fatalf("the spy saw nothing: %s", told)
	}
	for what, text := range map[string]string{"kadmin's arguments and environment": string(told), "the error": err.Error(), "the log": p.log.String(), "the node's commands": fmt.Sprint(p.node.Commands(t))} {
		if strings.Contains(text, p.kdc.AdminPassword) || strings.Contains(text, encoded[:20]) {
			t.Errorf("%s shows a secret: %s", what, text)
		}
	}
	for line := range strings.Lines(string(told)) {
		if strings.HasPrefix(line, "keytab: ") && !strings.HasSuffix(line, " (deleted)\n") {
			t.Errorf("a file with a name holds a keytab: %s", line)
		}
	}
}

func TestOurOwnKrb5ConfLeadsToTheKDC(t *testing.T) {
	t.Parallel()
	p := start(t, func(o *kerberos.Options) { o.ConfigFile = filepath.Join(t.TempDir(), "none") })
	// The KDC is found by its port; kadmind would be at 749, where nobody is.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := p.realm.Check(ctx)
	if err == nil || strings.Contains(err.Error(), "any KDC") {
		t.Errorf("error %v, want one of kadmind", err)
	}
}
