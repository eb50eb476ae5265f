package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"config-server/internal/projects"
)

// Once looks at everything once, and returns. It takes no Lease: beside a running controller it is safe, as each write has the state
// that it was made for as its precondition. The error joins every fault.
func Once(ctx context.Context, opts Options) error {
	opts.defaults()
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	direct, err := client.New(opts.REST, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cached, err := fill(ctx, opts, direct)
	if err != nil {
		return err
	}
	c := newController(opts, direct, cached, prometheus.NewRegistry())
	return c.all(ctx)
}

// fill starts a cache and waits until it has everything.
func fill(ctx context.Context, opts Options, direct client.Client) (cache.Cache, error) {
	options := cacheOptions(opts.Resync)
	options.Scheme = direct.Scheme()
	cached, err := cache.New(opts.REST, options)
	if err != nil {
		return nil, fmt.Errorf("make a cache: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cached.Start(ctx) }()
	if err := mayListAll(ctx, opts, direct); err != nil {
		return nil, err
	}
	for _, kind := range watched(opts) {
		if _, err := cached.GetInformer(ctx, kind); err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	if !cached.WaitForCacheSync(ctx) {
		return nil, errors.Join(errors.New("the cache could not be filled"), ctx.Err())
	}
	return cached, nil
}

// mayListAll fails where a kind that is watched cannot be listed, for want of a right or of its definition: an informer would try for
// ever and not say why.
func mayListAll(ctx context.Context, opts Options, direct client.Client) error {
	for _, kind := range watched(opts) {
		gvk, err := direct.GroupVersionKindFor(kind)
		if err != nil {
			return fmt.Errorf("list %T: %w", kind, err)
		}
		gvk.Kind += "List"
		list := new(metav1.PartialObjectMetadataList)
		list.SetGroupVersionKind(gvk)
		if err := direct.List(ctx, list, client.Limit(1)); err != nil {
			return fmt.Errorf("list %s: %w", gvk.Kind, err)
		}
	}
	return nil
}

// all looks at everything that there is.
func (c *controller) all(ctx context.Context) error {
	var faults []error
	look := func(names []string, work func(context.Context, string) (reconcile.Result, error)) {
		for _, name := range names {
			result, err := work(ctx, name)
			if err == nil && result.RequeueAfter > 0 {
				err = errors.New("a right is missing; the log says which")
			}
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", name, err))
			}
		}
	}
	teams, err := c.everything(ctx)
	if err != nil {
		return err
	}
	look(teams, c.reconcileProject)
	look(c.nodesWhere(ctx, anyNode), c.reconcileNode)
	groups, err := c.groups(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, g := range groups {
		names = append(names, g.Name)
	}
	look(names, c.reconcileGroup)
	return errors.Join(faults...)
}

func anyNode(projects.Node) bool { return true }

// projectsWithRights are the projects that have a role or binding of the cluster, whether there still is the project or not.
func (c *controller) projectsWithRights(ctx context.Context) ([]string, error) {
	var roles rbacv1.ClusterRoleList
	if err := c.reader.List(ctx, &roles, shared); err != nil {
		return nil, fmt.Errorf("list cluster roles: %w", err)
	}
	var bindings rbacv1.ClusterRoleBindingList
	if err := c.reader.List(ctx, &bindings, shared); err != nil {
		return nil, fmt.Errorf("list cluster role bindings: %w", err)
	}
	var names []string
	for _, role := range roles.Items {
		if project, ours := projects.ProjectOfRights(role.Name); ours {
			names = append(names, project)
		}
	}
	for _, binding := range bindings.Items {
		if project, ours := projects.ProjectOfRights(binding.Name); ours {
			names = append(names, project)
		}
	}
	return names, nil
}
