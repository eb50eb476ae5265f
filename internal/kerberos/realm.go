package kerberos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"time"

	"config-server/internal/farm"
)

// DefaultLimit bounds one call of kadmin.
const DefaultLimit = 10 * time.Second

// Secrets keeps the keytabs.
type Secrets interface {
	// PutSecret creates a Secret, or replaces the data of the one that has its name.
	PutSecret(ctx context.Context, secret farm.Secret) error
	// Secret reads a Secret; false if there is none.
	Secret(ctx context.Context, name string) (farm.Secret, bool, error)
	// DeleteSecret removes a Secret; false if there was none.
	DeleteSecret(ctx context.Context, name string) (bool, error)
}

// Runner runs commands on one farm node, which answers them with its forced command.
type Runner interface {
	Run(ctx context.Context, argv []string, stdin []byte) (string, error)
}

// Node is a farm node that takes keytabs.
type Node struct {
	Name   farm.NodeName // as the cluster calls it; compared without case
	Runner Runner
}

// Options of a Realm. All are required but those that have a default.
type Options struct {
	Realm string
	// KDCHost is the host, or host:port, of the KDC; kadmind is asked on the same host, port 749. It
	// counts only if ConfigFile does not name the realm.
	KDCHost string
	// ConfigFile is a krb5.conf; if it exists and names the realm, it alone says where the KDC is.
	ConfigFile string
	// AdminPrincipal may inquire, add, change and delete principals; without @ it is of the realm.
	AdminPrincipal string
	AdminPassword  string
	Kadmin         string // program; "" = kadmin, as PATH has it
	Secrets        Secrets
	Nodes          []Node
	Pending        Pending
	Limit          time.Duration // of one call of kadmin; zero = DefaultLimit
	// Point is called before and after everything that changes the KDC or a farm node, with a name of
	// that moment, so that tests can cut the process off there; nil = nobody.
	Point func(name string)
	// Called is told of each call of kadmin; nil = nobody.
	Called farm.CallObserver
	Log    *slog.Logger
}

// Realm is Kerberos switched on. It is safe for concurrent use; calls on one user are made under
// that user's lock.
type Realm struct {
	realm   string
	admin   string
	kadmin  *kadmin
	secrets Secrets
	nodes   []Node
	pending Pending
	point   func(string)
	log     *slog.Logger
}

var (
	realmRule     = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]*\z`)
	principalRule = regexp.MustCompile(`\A[A-Za-z0-9._/-]+\z`)
	hostRule      = regexp.MustCompile(`\A[A-Za-z0-9._-]+\z`)
)

// New checks the options. It reaches nobody: what is down is an error of the calls that need it. The
// error names the environment variable.
func New(opts Options) (*Realm, error) {
	name, realm, full := strings.Cut(opts.AdminPrincipal, "@")
	password := strings.TrimRight(opts.AdminPassword, "\r\n") // files of secrets tend to end in one
	switch {
	case !realmRule.MatchString(opts.Realm):
		return nil, fmt.Errorf("KRB5_REALM %q is no name of a realm", opts.Realm)
	case !hostRule.MatchString(hostOf(opts.KDCHost)):
		return nil, fmt.Errorf("KRB5_KDC_HOST %q is no host or host:port", opts.KDCHost)
	case !principalRule.MatchString(name), full && !realmRule.MatchString(realm):
		return nil, errors.New("KRB5_ADMIN_PRINCIPAL is no principal, such as config-server/admin")
	case password == "" || strings.ContainsAny(password, "\r\n\x00"):
		return nil, errors.New("KRB5_ADMIN_PASSWORD is empty or has several lines")
	}
	if !full {
		realm = opts.Realm
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Point == nil {
		opts.Point = func(string) {}
	}
	r := &Realm{
		point: opts.Point,
		realm: opts.Realm, admin: name + "@" + realm, secrets: opts.Secrets, nodes: opts.Nodes, pending: opts.Pending, log: opts.Log,
	}
	r.kadmin = newKadmin(opts, r.admin, password)
	return r, nil
}

// hostOf is the host of host:port, [v6]:port or a host alone; "" if it is none of them.
func hostOf(address string) string {
	host := address
	if strings.Contains(address, ":") {
		var err error
		if host, _, err = net.SplitHostPort(address); err != nil {
			return ""
		}
	}
	if net.ParseIP(host) != nil {
		return "ip"
	}
	return host
}

// Enabled reports that pods get Kerberos fields.
func (r *Realm) Enabled() bool { return true }

// Principal is the name in the KDC that belongs to a user.
func (r *Realm) Principal(user farm.UserName) string { return string(user) + "@" + r.realm }

// checkName refuses names that kadmin or a farm node would misread, and the one whose principal is
// the service's own: to give that a random key would lock the service out.
func (r *Realm) checkName(user farm.UserName) error {
	if !user.Commandable() {
		return fmt.Errorf("principal of %q: %w: it cannot be an argument of kadmin", user, farm.ErrBadName)
	}
	if r.Principal(user) == r.admin {
		return fmt.Errorf("principal %s is this service's own: %w", r.admin, farm.ErrOwner)
	}
	return nil
}

// Existing tells what there is of a user before a creation: a principal in the KDC, a keytab Secret.
// The error says that the KDC or the API server cannot be asked, or that the name cannot have a
// principal.
func (r *Realm) Existing(ctx context.Context, user farm.UserName) (principal, keytab bool, err error) {
	if err := r.checkName(user); err != nil {
		return false, false, err
	}
	found, err := r.kadmin.find(ctx, r.Principal(user))
	if err != nil {
		return false, false, err
	}
	_, keytab, err = r.secrets.Secret(ctx, secretName(user))
	return found.exists, keytab, err
}

// CreatePrincipal makes the user's principal with a random key and puts its keytab into the user's
// Secret. A principal that is there already gets a new key, so that no older keytab fits any more.
// It may half succeed. The error names KDC or Secret.
func (r *Realm) CreatePrincipal(ctx context.Context, user farm.UserName) error {
	_, err := r.makeKeytab(ctx, user)
	return err
}

func (r *Realm) makeKeytab(ctx context.Context, user farm.UserName) ([]byte, error) {
	if err := r.checkName(user); err != nil {
		return nil, err
	}
	keytab, err := r.kadmin.create(ctx, r.Principal(user))
	if err != nil {
		return nil, err
	}
	secret := farm.Secret{Name: secretName(user), User: user, Data: map[string][]byte{farm.KeytabKey: keytab}}
	if err := r.secrets.PutSecret(ctx, secret); err != nil {
		return nil, err
	}
	return keytab, nil
}

// Withdraw takes back what a creation made, as Existing told what there was before. It is no error if
// there is nothing.
func (r *Realm) Withdraw(ctx context.Context, user farm.UserName, principal, keytab bool) error {
	var errs []error
	if principal {
		errs = append(errs, r.removePrincipal(ctx, user))
	}
	if keytab {
		_, err := r.secrets.DeleteSecret(ctx, secretName(user))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (r *Realm) removePrincipal(ctx context.Context, user farm.UserName) error {
	if err := r.checkName(user); err != nil {
		// Such a user never got a principal from us.
		r.log.WarnContext(ctx, "no principal is removed", "user", user, "error", err)
		return nil
	}
	return r.kadmin.remove(ctx, r.Principal(user))
}

// RemoveUser removes the user's principal, the keytab's Secret, and the keytab from every farm node.
// The error wraps farm.ErrDeferred if nothing but removals from farm nodes failed and all of these
// are noted; after any other error the call is to be repeated. It is no error if there is nothing.
func (r *Realm) RemoveUser(ctx context.Context, user farm.UserName, _ farm.ID) error {
	nodes := make(chan error, 1)
	go func() { nodes <- r.removeEverywhere(ctx, user) }()
	err := r.Withdraw(ctx, user, true, true)
	left := <-nodes
	if err == nil {
		return left
	}
	if left != nil {
		// The sentinel must not stand for the whole.
		return fmt.Errorf("%w; %v", err, left)
	}
	return err
}

// Check looks a principal up that nobody has: it proves that the administrator may log in and inquire.
func (r *Realm) Check(ctx context.Context) error {
	_, err := r.kadmin.find(ctx, r.Principal("config-server-check"))
	return err
}

func secretName(user farm.UserName) string { return farm.SecretName(farm.KeytabSecretPrefix, user) }
