package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"config-server/internal/projects"
)

// ensure has an object be there as set makes it. One for which replace says so is deleted and made anew, as some fields cannot be
// changed. before is an empty object of its type.
func ensure[T client.Object](ctx context.Context, c *controller, project, namespace, name string, before T, set func(T), replace func(T) bool) error {
	fresh := before.DeepCopyObject().(T)
	found, err := c.find(ctx, namespace, name, before)
	if err != nil {
		return err
	}
	if found && replace != nil && replace(before) {
		if err := c.write.remove(ctx, before); err != nil {
			return err
		}
		found = false
	}
	if !found {
		fresh.SetName(name)
		fresh.SetNamespace(namespace)
		mark(fresh, project)
		set(fresh)
		err := c.write.create(ctx, fresh)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		// The cache has not seen it yet.
		if err := c.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, before); err != nil {
			return fmt.Errorf("get %s %s: %w", c.write.kindOf(before), name, err)
		}
	}
	after := before.DeepCopyObject().(T)
	mark(after, project)
	set(after)
	return c.write.patch(ctx, before, after)
}

// mark puts the label of our objects.
func mark(object client.Object, project string) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ownerLabel] = project
	object.SetLabels(labels)
}

// removeOurs deletes an object that the controller made for a project, if it is there. into is an empty object of its type.
func (c *controller) removeOurs(ctx context.Context, project, namespace, name string, into client.Object) error {
	found, err := c.find(ctx, namespace, name, into)
	if !found || into.GetLabels()[ownerLabel] != project || into.GetDeletionTimestamp() != nil {
		return err
	}
	return c.write.remove(ctx, into)
}

// followClusterRights gives a role its ClusterRole, and the ClusterRole its users.
func (c *controller) followClusterRights(ctx context.Context, role projects.Role, p projects.Project, bound projects.Bound) error {
	name, rules := projects.RightsName(role, p.Name), projects.ClusterRules(role, p, bound, c.opts.Settings)
	subjects := projects.Subjects(role, p, c.opts.Settings)
	err := ensure(ctx, c, p.Name, "", name, new(rbacv1.ClusterRole), func(r *rbacv1.ClusterRole) { setRules(&r.Rules, rules) }, nil)
	if err != nil {
		return err
	}
	reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	return ensure(ctx, c, p.Name, "", name, new(rbacv1.ClusterRoleBinding), func(b *rbacv1.ClusterRoleBinding) {
		b.RoleRef = reference
		setSubjects(&b.Subjects, subjects)
	}, func(b *rbacv1.ClusterRoleBinding) bool { return b.RoleRef != reference })
}

// followNamespaceRights gives a role its Role in the namespace, and the Role its users.
func (c *controller) followNamespaceRights(ctx context.Context, role projects.Role, p projects.Project) error {
	name, rules, subjects := projects.RightsName(role, p.Name), projects.NamespaceRules(role), projects.Subjects(role, p, c.opts.Settings)
	err := ensure(ctx, c, p.Name, p.Name, name, new(rbacv1.Role), func(r *rbacv1.Role) { setRules(&r.Rules, rules) }, nil)
	if err != nil {
		return err
	}
	reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}
	return ensure(ctx, c, p.Name, p.Name, name, new(rbacv1.RoleBinding), func(b *rbacv1.RoleBinding) {
		b.RoleRef = reference
		setSubjects(&b.Subjects, subjects)
	}, func(b *rbacv1.RoleBinding) bool { return b.RoleRef != reference })
}

// setRules leaves rules that grant the same as they are, in whatever order they stand.
func setRules(has *[]rbacv1.PolicyRule, shall []rbacv1.PolicyRule) {
	if !equality.Semantic.DeepEqual(projects.CanonicalRules(*has), shall) {
		*has = shall
	}
}

// setSubjects leaves the same set of subjects as it is, in whatever order they stand.
func setSubjects(has *[]rbacv1.Subject, shall []rbacv1.Subject) {
	if !slices.Equal(projects.CanonicalSubjects(*has), shall) {
		*has = shall
	}
}

// withdrawRights removes quota, roles and bindings of a project.
func (c *controller) withdrawRights(ctx context.Context, project string) error {
	faults := []error{c.removeOurs(ctx, project, project, projects.QuotaName(project), new(corev1.ResourceQuota))}
	for _, role := range projects.Roles() {
		name := projects.RightsName(role, project)
		faults = append(faults,
			c.removeOurs(ctx, project, "", name, new(rbacv1.ClusterRoleBinding)), c.removeOurs(ctx, project, "", name, new(rbacv1.ClusterRole)),
			c.removeOurs(ctx, project, project, name, new(rbacv1.RoleBinding)), c.removeOurs(ctx, project, project, name, new(rbacv1.Role)),
		)
	}
	return errors.Join(faults...)
}
