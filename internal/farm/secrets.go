package farm

import (
	"fmt"
	"log/slog"
)

// The Secrets that the service makes, and their keys.
const (
	// KeytabSecretPrefix begins the name of a user's keytab Secret: SecretName(KeytabSecretPrefix, user).
	KeytabSecretPrefix = "krb5-keytab"
	// KeytabKey holds the keytab, in MIT's file format.
	KeytabKey = "krb5.keytab"
	// ShadowKey holds the password field of the account's shadow line, without a line end.
	ShadowKey = "shadow"
)

// AccountSecretName is the name of the Secret that gives a pod its user's password hash: each pod has
// its own, so that it can go with that pod.
func AccountSecretName(pod PodName) string { return string(pod) + "-account" }

// Secret is a Kubernetes Secret of the service's namespace.
type Secret struct {
	Name string
	User UserName // whom it is about
	// Pod and PodUID name the pod that it goes with; empty = it stays until somebody deletes it.
	Pod    PodName
	PodUID string
	Data   map[string][]byte
}

// String names the Secret and shows nothing of its content.
func (s Secret) String() string { return fmt.Sprintf("Secret %s", s.Name) }

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue is String, for logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// KeytabLeft is a keytab that could not be removed from a farm node and is tried again.
type KeytabLeft struct {
	User UserName
	Node NodeName
}
