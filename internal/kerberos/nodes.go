package kerberos

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"config-server/internal/farm"
	"config-server/internal/remote"
)

const (
	// maxNodes is how many farm nodes a removal asks at once.
	maxNodes = 8
	// noteLimit bounds the note of a failed removal, which is taken even when the call's time is up.
	noteLimit = 5 * time.Second
	// tellingPart is how many characters of an encoded keytab give it away in a message.
	tellingPart = 24
)

// errNotListed tells of a node that FARM_NODES_JSON does not have.
var errNotListed = fmt.Errorf("FARM_NODES_JSON does not list it: %w", farm.ErrNotFound)

func (r *Realm) node(name farm.NodeName) (Node, error) {
	for _, node := range r.nodes {
		if strings.EqualFold(strings.TrimSpace(string(node.Name)), string(name)) {
			return node, nil
		}
	}
	return Node{}, fmt.Errorf("farm node %s: %w", name, errNotListed)
}

// Deploy brings the user's keytab to a farm node: from the user's Secret, or, for an account that is
// older than Kerberos here, from a principal that is made now. A connection that times out is tried
// once more. The error names the node, and FARM_NODES_JSON if it does not list it.
func (r *Realm) Deploy(ctx context.Context, name farm.NodeName, user farm.UserName, uid farm.ID) error {
	if err := r.checkName(user); err != nil {
		return err
	}
	node, err := r.node(name)
	if err != nil {
		return fmt.Errorf("deploy keytab of %s: %w", user, err)
	}
	keytab, err := r.keytab(ctx, user)
	if err != nil {
		return fmt.Errorf("deploy keytab of %s to farm node %s: %w", user, name, err)
	}
	r.point("farm deploy before")
	err = deploy(ctx, node.Runner, user, uid, keytab)
	r.point("farm deploy after")
	if err != nil {
		return fmt.Errorf("deploy keytab of %s to farm node %s: %w", user, name, err)
	}
	if err := r.pending.Forget(ctx, farm.KeytabLeft{User: user, Node: name}); err != nil {
		r.log.WarnContext(ctx, "a note of an earlier failed removal stays; it is struck once the pod is seen", "user", user, "node", name, "error", err)
	}
	return nil
}

// keytab reads the user's Secret, and makes what it lacks.
func (r *Realm) keytab(ctx context.Context, user farm.UserName) ([]byte, error) {
	secret, found, err := r.secrets.Secret(ctx, secretName(user))
	if err != nil {
		return nil, err
	}
	if found {
		keytab := secret.Data[farm.KeytabKey]
		_, err := checkKeytab(keytab, r.Principal(user))
		if err == nil {
			return keytab, nil
		}
		r.log.WarnContext(ctx, "the keytab's Secret is of no use and is made anew", "user", user, "secret", secret.Name, "error", err)
	} else {
		r.log.InfoContext(ctx, "the user has no keytab yet: principal and keytab are made now", "user", user)
	}
	return r.makeKeytab(ctx, user)
}

func deploy(ctx context.Context, node Runner, user farm.UserName, uid farm.ID, keytab []byte) error {
	encoded := base64.StdEncoding.EncodeToString(keytab)
	argv := []string{"deploy", string(user), strconv.FormatInt(int64(uid), 10)}
	_, err := node.Run(ctx, argv, []byte(encoded+"\n"))
	var connect *remote.ConnectError
	if errors.As(err, &connect) && connect.Timeout() && ctx.Err() == nil {
		_, err = node.Run(ctx, argv, []byte(encoded+"\n"))
	}
	if err != nil && strings.Contains(err.Error(), encoded[:min(len(encoded), tellingPart)]) {
		return errors.New("the farm node refused it; its message is withheld, because it repeats the keytab")
	}
	return err
}

// Remove takes the user's keytab from a farm node; none there is no error. If that fails it is noted,
// and the error wraps farm.ErrDeferred; another error says that it could not even be noted.
func (r *Realm) Remove(ctx context.Context, name farm.NodeName, user farm.UserName) error {
	left := farm.KeytabLeft{User: user, Node: name}
	err := r.removeFrom(ctx, name, user)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	if err == nil {
		if err := r.pending.Forget(ctx, left); err != nil {
			r.log.WarnContext(ctx, "a note of an earlier failed removal stays and leads to one more removal", "user", user, "node", name, "error", err)
		}
		return nil
	}
	err = fmt.Errorf("remove keytab of %s from farm node %s: %w", user, name, err)
	if noted := r.pending.Note(ctx, left); noted != nil {
		return fmt.Errorf("%w (and this could not be noted: %w)", err, noted)
	}
	return fmt.Errorf("%w: %w", farm.ErrDeferred, err)
}

func (r *Realm) removeFrom(ctx context.Context, name farm.NodeName, user farm.UserName) error {
	if err := r.checkName(user); errors.Is(err, farm.ErrBadName) {
		return nil // it was never deployed
	}
	node, err := r.node(name)
	if err != nil {
		return err
	}
	r.point("farm remove before")
	_, err = node.Runner.Run(ctx, []string{"remove", string(user)}, nil)
	r.point("farm remove after")
	return err
}

// removeEverywhere takes the user's keytab from all farm nodes, several at once.
func (r *Realm) removeEverywhere(ctx context.Context, user farm.UserName) error {
	errs := make([]error, len(r.nodes))
	turns := make(chan struct{}, maxNodes)
	var all sync.WaitGroup
	for i, node := range r.nodes {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			errs[i] = r.Remove(ctx, node.Name, user)
		})
	}
	all.Wait()
	var deferred, lost []error
	for _, err := range errs {
		switch {
		case errors.Is(err, farm.ErrDeferred):
			deferred = append(deferred, err)
		case err != nil:
			lost = append(lost, err)
		}
	}
	if len(lost) == 0 {
		return errors.Join(deferred...)
	}
	if len(deferred) > 0 {
		// The sentinel must not stand for the whole.
		lost = append(lost, errors.New(errors.Join(deferred...).Error()))
	}
	return errors.Join(lost...)
}

// Left lists the keytabs whose removal failed and is to be tried again with Remove; those on nodes
// that FARM_NODES_JSON does not list wait until it does.
func (r *Realm) Left(ctx context.Context) ([]farm.KeytabLeft, error) {
	all, err := r.pending.List(ctx)
	if err != nil {
		return nil, err
	}
	var left []farm.KeytabLeft
	for _, one := range all {
		if _, err := r.node(one.Node); err == nil {
			left = append(left, one)
		}
	}
	return left, nil
}

// Keep strikes a keytab from that list, because it is wanted again.
func (r *Realm) Keep(ctx context.Context, left farm.KeytabLeft) error {
	return r.pending.Forget(ctx, left)
}
