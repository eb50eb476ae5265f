package kerberos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"config-server/internal/farm"
	"config-server/internal/testkit"
)

// memory keeps Secrets in a map.
type memory map[string]farm.Secret

func (m memory) PutSecret(_ context.Context, secret farm.Secret) error {
	m[secret.Name] = secret
	return nil
}

func (m memory) Secret(_ context.Context, name string) (farm.Secret, bool, error) {
	secret, found := m[name]
	return secret, found, nil
}

func (m memory) DeleteSecret(_ context.Context, name string) (bool, error) {
	_, found := m[name]
	delete(m, name)
	return found, nil
}

// lying is a realm whose kadmin is a shell script; in it $q is the query, $d a folder of its own.
func lying(t *testing.T, script string, limit time.Duration) (*Realm, memory) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "kadmin")
	text := "#!/bin/sh\nd=" + dir + "\nfor q; do :; done\nread -r password\n" + script + "\n"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	secrets := memory{}
	realm, err := New(Options{
		Realm: "FARM.TEST", KDCHost: "kdc.example:88", AdminPrincipal: "config-server/admin", AdminPassword: "pa55 word\n", Kadmin: program, Secrets: secrets, Limit: limit,
	})
	if err != nil {
		t.Fatal(err)
	}
	return realm, secrets
}

const missing = `echo 'get_principal: Principal does not exist while retrieving "kim@FARM.TEST".' >&2`

func TestKadminIsBelievedOnlyAfterALook(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, script, want string }{
		{"it says created and there is nothing", `case "$q" in getprinc*) ` + missing + ` ;; *) echo 'Principal "kim@FARM.TEST" created.' ;; esac`, "did not do it"},
		{"it complains and ends with 0", `case "$q" in getprinc*) ` + missing + ` ;; *) echo 'add_principal: no room' >&2 ;; esac`, "no room"},
		{"it says nothing at all", ``, "says nothing"},
		{"it shows another principal", `echo 'Principal: kim@FARM.TEST.OTHER'`, "says nothing"},
		{"the keytab stays empty", `case "$q" in getprinc*) echo 'Principal: kim@FARM.TEST'; echo 'Key: vno 2, aes' ;; *) echo 'Entry for principal kim added to keytab' ;; esac`, "no key"},
		{"the keytab is rubbish", `case "$q" in getprinc*) echo 'Principal: kim@FARM.TEST' ;; *) printf 'xxxxx' >/proc/self/fd/3 ;; esac`, "no readable keytab"},
		{"it repeats the password", `echo "bad password $password" >&2; exit 1`, "withheld"},
		{"it ends with 1", `echo 'kadmin: Cannot contact any KDC' >&2; exit 1`, "kadmin: Cannot contact any KDC"},
		{"it talks without end", `yes complaint | head -c 9000000 >&2; exit 1`, "complaint"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			realm, secrets := lying(t, test.script, 0)
			err := realm.CreatePrincipal(t.Context(), "kim")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), "pa55") || len(err.Error()) > 1000) {
				t.Errorf("error of %d bytes: %.200s", len(err.Error()), err.Error())
			}
			if len(secrets) > 0 {
				t.Errorf("Secrets %v", secrets)
			}
		})
	}
}

func TestAKeytabWithAnotherVersionThanTheKDCsIsRefused(t *testing.T) {
	t.Parallel()
	keytab := filepath.Join(t.TempDir(), "keytab")
	if err := os.WriteFile(keytab, keytabOf(entryOf(7, true, "key", "FARM.TEST", "kim")), 0o600); err != nil {
		t.Fatal(err)
	}
	for kvno, want := range map[string]string{"6": "the KDC has version 6", "7": ""} {
		realm, secrets := lying(t, `case "$q" in getprinc*) echo 'Principal: kim@FARM.TEST'; echo 'Key: vno `+kvno+`, aes256' ;; *) cat `+keytab+` >/proc/self/fd/3 ;; esac`, 0)
		err := realm.CreatePrincipal(t.Context(), "kim")
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("version %s: %v", kvno, err)
		}
		if (len(secrets) == 1) != (want == "") {
			t.Errorf("version %s: Secrets %v", kvno, secrets)
		}
	}
}

func TestADeletionThatDidNothingIsAnError(t *testing.T) {
	t.Parallel()
	realm, _ := lying(t, `case "$q" in getprinc*) echo 'Principal: kim@FARM.TEST' ;; *) echo 'Principal "kim@FARM.TEST" deleted.' ;; esac`, 0)
	if err := realm.RemoveUser(t.Context(), "kim", 20001); err == nil || errors.Is(err, farm.ErrDeferred) {
		t.Errorf("error %v", err)
	}
}

func TestAKadminThatHangsIsKilledWithItsChildren(t *testing.T) {
	t.Parallel()
	realm, _ := lying(t, `sleep 60 & echo $! >$d/child; wait`, 300*time.Millisecond)
	began := time.Now()
	err := realm.Check(t.Context())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	child, err := os.ReadFile(filepath.Join(filepath.Dir(realm.kadmin.program), "child"))
	if err != nil {
		t.Fatal(err)
	}
	// It is killed when the call returns, and on a busy machine ends a moment later.
	testkit.WaitFor(t, 10*time.Second, "the end of the child", func(context.Context) error {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/stat")
		if err == nil && !strings.Contains(string(state), ") Z ") {
			return fmt.Errorf("it lives: %s", state)
		}
		return nil
	})
}

func TestNamesThatKadminWouldMisreadNeverReachIt(t *testing.T) {
	t.Parallel()
	realm, _ := lying(t, `touch $d/called`, 0)
	for _, user := range []farm.UserName{"kim/admin", "kim@OTHER", "-kim", "kim lee", `kim"`, "kim\nlee", ""} {
		if err := realm.CreatePrincipal(t.Context(), user); !errors.Is(err, farm.ErrBadName) {
			t.Errorf("%q: %v", user, err)
		}
		if err := realm.RemoveUser(t.Context(), user, 20001); err != nil {
			t.Errorf("remove %q: %v", user, err)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(realm.kadmin.program), "called")); err == nil {
		t.Error("kadmin was called")
	}
}

func TestTheConfigurationNamesRealmAndHosts(t *testing.T) {
	t.Parallel()
	foreign := filepath.Join(t.TempDir(), "krb5.conf")
	if err := os.WriteFile(foreign, []byte("[realms]\n OTHER = {\n }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(t.TempDir(), "krb5.conf")
	if err := os.WriteFile(own, []byte("[realms]\n\tFARM.TEST={\n }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, file, host, want string }{
		{"no file", "/does/not/exist", "kdc.example", "kdc = kdc.example\n  admin_server = kdc.example\n"},
		{"a port is the KDC's", "/does/not/exist", "kdc.example:1088", "kdc = kdc.example:1088\n  admin_server = kdc.example\n"},
		{"an address with a port", "/does/not/exist", "[::1]:88", "kdc = [::1]:88\n  admin_server = [::1]\n"},
		{"a file of another realm", foreign, "kdc.example", "kdc = kdc.example\n"},
		{"a file of the realm counts alone", own, "kdc.example", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			realm, err := New(Options{Realm: "FARM.TEST", KDCHost: test.host, ConfigFile: test.file, AdminPrincipal: "a/admin", AdminPassword: "x"})
			if err != nil {
				t.Fatal(err)
			}
			file, err := realm.kadmin.config()
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				if file != nil {
					t.Error("a configuration of our own")
				}
				return
			}
			text, err := readAll(file)
			if err != nil || !strings.Contains(string(text), test.want) {
				t.Errorf("%v\n%s", err, text)
			}
			file.Close()
		})
	}
}

func TestNewRefusesWhatKadminWouldMisread(t *testing.T) {
	t.Parallel()
	good := Options{Realm: "FARM.TEST", KDCHost: "kdc.example", AdminPrincipal: "config-server/admin@FARM.TEST", AdminPassword: "x"}
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"all is well", func(*Options) {}, ""},
		{"a realm with a blank", func(o *Options) { o.Realm = "FARM TEST" }, "KRB5_REALM"},
		{"a realm with a line", func(o *Options) { o.Realm = "FARM\nx" }, "KRB5_REALM"},
		{"a host with a brace", func(o *Options) { o.KDCHost = "kdc }" }, "KRB5_KDC_HOST"},
		{"no host", func(o *Options) { o.KDCHost = ":88" }, "KRB5_KDC_HOST"},
		{"a principal that is an option", func(o *Options) { o.AdminPrincipal = "a b" }, "KRB5_ADMIN_PRINCIPAL"},
		{"a principal of a bad realm", func(o *Options) { o.AdminPrincipal = "a@b c" }, "KRB5_ADMIN_PRINCIPAL"},
		{"no password", func(o *Options) { o.AdminPassword = "\n" }, "KRB5_ADMIN_PASSWORD"},
		{"two passwords", func(o *Options) { o.AdminPassword = "secret1\nsecret2" }, "KRB5_ADMIN_PASSWORD"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			options := good
			test.change(&options)
			_, err := New(options)
			if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestCallsOfKadminAreToldWithoutThePassword(t *testing.T) {
	t.Parallel()
	realm, _ := lying(t, `case "$q" in getprinc*) `+missing+` ;; *) echo "bad password $password" >&2; exit 1 ;; esac`, 0)
	var told []string
	realm.kadmin.called = func(_ context.Context, call string, _ time.Duration, err error) {
		told = append(told, fmt.Sprint(call, ": ", err))
	}
	if err := realm.CreatePrincipal(t.Context(), "kim"); err == nil {
		t.Fatal("no error")
	}
	want := []string{"kadmin getprinc kim@FARM.TEST: <nil>", "kadmin addprinc -randkey kim@FARM.TEST: kadmin: kadmin's message is withheld, because it repeats the password"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
