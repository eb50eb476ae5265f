package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// krb5Points are words in the names of points that Kerberos and account Secrets add; the others are
// the crash matrix's own.
var krb5Points = []string{"kadmin ", "farm ", " secrets ", "ACCOUNT_SECRET", "KRB5", "KEYTAB", ":keytab"}

// TestCrashKerberos is the crash matrix at those points. The process is killed at each of them, and
// what is left of principals, Secrets and keytabs has to be whole or gone as well.
func TestCrashKerberos(t *testing.T) {
	t.Parallel()
	k := newKrb5Parts(t)
	cluster := testkit.OwnCluster(t)
	cluster.Grant(t, "everything")
	f := newCrashFarm(t, world.Options{Cluster: cluster, Env: k.env(t, "farm6")})
	f.krb5 = func(ctx context.Context, p picture, name string) (facts, strays []string, err error) {
		return krb5Picture(ctx, t, f, k, p, name)
	}
	onFarm6 := func(f *crashFarm, name string) { f.config(name, "", []string{"farm6"}, crashKorean) }
	create := func(t *testing.T, f *crashFarm, name string) crashCall {
		call := createPod(t, f, name)
		onFarm6(f, name)
		return call
	}
	for i, c := range []crashCase{
		{name: "PUT user", arrange: func(_ *testing.T, f *crashFarm, name string) crashCall { return f.putUser(name) }, status: 201, fresh: 201, done: 409,
			recovery: []string{"kadmin addprinc after#1", "POST secrets after#1"}},
		{name: "DELETE user", arrange: func(t *testing.T, f *crashFarm, name string) crashCall {
			f.must(t, f.putUser(name), 201)
			return crashCall{"DELETE", "/accounts/users/" + name, ""}
		}, status: 200, fresh: 200, done: 404, recovery: []string{"kadmin delprinc before#1"}},
		{name: "create-pod", arrange: create, status: 201, fresh: 201, done: 201, again: true, recovery: []string{"farm deploy after#1", "POST secrets after#1"}},
		{name: "create-pod, Service refused", arrange: create, status: 500, fresh: 201,
			fault: func(_ *testing.T, f *crashFarm, name string) {
				f.config(name, "", []string{"farm6"}, crashKorean, crashRefused)
			},
			heal: func(_ *testing.T, f *crashFarm, name string) { onFarm6(f, name) }},
		{name: "delete-pod", arrange: func(t *testing.T, f *crashFarm, name string) crashCall {
			pod := f.must(t, create(t, f, name), 201).Text("pod_name")
			return crashCall{"POST", "/delete-pod", fmt.Sprintf(`{"pod_name":%q}`, pod)}
		}, status: 200, fresh: 200, done: 200, recovery: []string{"farm remove before#1"}},
	} {
		pictures, points := f.discover(t, c)
		points = slices.DeleteFunc(points, func(point string) bool {
			return !slices.ContainsFunc(krb5Points, func(word string) bool { return strings.Contains(point, word) })
		})
		if len(points) == 0 {
			t.Errorf("%s passes no point of Kerberos", c.name)
		}
		tried, recoveries := 0, 0
		for at, point := range points {
			if crashChosen(at + 3*i) {
				tried++
				f.try(t, c, pictures, point)
			}
		}
		for at, point := range c.recovery {
			if crashChosen(at + i) {
				recoveries += f.tryRecovery(t, c, pictures, point, at+i)
			}
		}
		f.note("%-34s %3d points, %3d tried; %3d in recovery", c.name, len(points), tried, recoveries)
	}
	for _, line := range f.table {
		t.Log(line)
	}
	t.Logf("crash: %d points tried, %d leftovers, %d retries succeeded", f.tried, f.leftovers, f.retries)
	if f.tried == 0 || f.retries != f.tried || f.leftovers > 0 {
		t.Error("not every point left everything whole")
	}
}

// krb5Picture looks at KDC, Secrets, farm node and notes.
func krb5Picture(ctx context.Context, t *testing.T, f *crashFarm, k *krb5Parts, p picture, name string) (facts, strays []string, err error) {
	t.Helper()
	secrets, err := krb5Secrets(ctx, f.world, t)
	if err != nil {
		return nil, nil, err
	}
	keytabs, err := k.deployed()
	if err != nil {
		return nil, nil, err
	}
	left, err := pendingKeytabs(ctx, f.db)
	if err != nil {
		return nil, nil, err
	}
	for _, one := range left {
		strays = append(strays, fmt.Sprintf("note of a keytab of %s on %s", one.User, one.Node))
	}
	principals := k.kdc.Principals(t)
	want := map[string][]string{}
	for user, account := range p.share.passwd {
		if account.managed() {
			want["principal"] = append(want["principal"], user)
			want["Secret"] = append(want["Secret"], "krb5-keytab-"+user)
		}
	}
	for _, pod := range p.pods {
		want["Secret"] = append(want["Secret"], pod.Name+"-account")
		if user := pod.Labels[farm.LabelUser]; !slices.Contains(want["keytab"], user) {
			want["keytab"] = append(want["keytab"], user)
		}
	}
	for what, have := range map[string][]string{"principal": principals, "Secret": secrets, "keytab": keytabs} {
		for _, one := range have {
			if !slices.Contains(want[what], one) {
				strays = append(strays, fmt.Sprintf("%s %s of nobody", what, one))
			}
			if name != "" && (one == name || one == "krb5-keytab-"+name) {
				facts = append(facts, fmt.Sprintf("%s %s", what, one))
			}
		}
		for _, one := range want[what] {
			if !slices.Contains(have, one) {
				strays = append(strays, fmt.Sprintf("%s %s is missing", what, one))
			}
		}
	}
	return facts, sortedNames(strays), nil
}
