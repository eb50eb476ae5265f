package testkit_test

import (
	"slices"
	"testing"

	"config-server/internal/testkit"
)

func TestKDCKeepsPrincipalsOfItsRealm(t *testing.T) {
	t.Parallel()
	kdc := testkit.KDC(t)
	kdc.Local(t, "addprinc -randkey kim")
	if got := kdc.Principals(t); !slices.Equal(got, []string{"kim"}) {
		t.Errorf("principals %q, want kim alone", got)
	}
	kdc.Stop()
	kdc.Start(t)
	if err := kdc.Login(t, "kim@"+kdc.Realm, []byte("no keytab")); err == nil {
		t.Error("a broken keytab lets kim in")
	}
}
