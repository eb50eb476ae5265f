package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"config-server/internal/projects"
	"config-server/internal/projects/v1alpha1"
)

// errTerminating is a namespace that is being deleted, in which nothing can be made.
var errTerminating = errors.New("the namespace is being deleted")

// reconcileProject has namespace, quota and rights follow a project, tells so in its status, and takes everything back once it is gone.
// What one of them meets does not stop the others.
func (c *controller) reconcileProject(ctx context.Context, name string) (reconcile.Result, error) {
	p, object, err := c.project(ctx, name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if p == nil {
		c.problems.set(name, nil)
		return c.later(ctx, "project", name, c.withdraw(ctx, name))
	}
	bound, err := c.bind(ctx, *p)
	if err != nil {
		return reconcile.Result{}, err
	}
	met := newFindings(projects.Conditions(*p, bound, c.opts.Settings))
	if c.opts.Settings.Usable(name) {
		c.follow(ctx, *p, object, bound, met)
	} else {
		met.take(c.withdrawRights(ctx, name))
	}
	if met.outrun() {
		return reconcile.Result{}, errors.Join(met.faults...)
	}
	c.tell(ctx, name, object, met)
	met.take(c.writeStatus(ctx, *p, object, bound, met))
	if len(met.faults) == 0 && met.has(projects.ConditionForbidden) {
		return reconcile.Result{RequeueAfter: c.opts.Patience}, nil
	}
	return reconcile.Result{}, errors.Join(met.faults...)
}

// follow makes what a project asks for. While it is being deleted nothing is made; the keys on its namespace stay.
func (c *controller) follow(ctx context.Context, p projects.Project, object *v1alpha1.Project, bound projects.Bound, met *findings) {
	there, err := c.followNamespace(ctx, p, object)
	met.take(err)
	if p.Deleting {
		return
	}
	for _, role := range projects.Roles() {
		met.take(c.followClusterRights(ctx, role, p, bound))
	}
	if !there {
		return
	}
	met.take(c.followQuota(ctx, p))
	for _, role := range projects.Roles() {
		met.take(c.followNamespaceRights(ctx, role, p))
	}
}

// followNamespace makes the namespace of a project, or gives one that is there our keys. The result says whether something can be made
// in it.
func (c *controller) followNamespace(ctx context.Context, p projects.Project, object *v1alpha1.Project) (bool, error) {
	var before corev1.Namespace
	found, err := c.find(ctx, "", p.Name, &before)
	if err != nil {
		return false, err
	}
	if !found {
		if p.Deleting {
			return false, nil
		}
		err := c.write.create(ctx, c.freshNamespace(p, object))
		if !apierrors.IsAlreadyExists(err) {
			return err == nil, err
		}
		if err := c.live.Get(ctx, types.NamespacedName{Name: p.Name}, &before); err != nil {
			return false, fmt.Errorf("get namespace %s: %w", p.Name, err)
		}
	}
	if before.DeletionTimestamp != nil {
		return false, fmt.Errorf("namespace %s: %w", p.Name, errTerminating)
	}
	after := before.DeepCopy()
	shall := projects.NamespaceKeys(projects.Namespace{Labels: before.Labels, Annotations: before.Annotations}, p.Name, true, c.opts.Settings.Keys)
	after.Labels, after.Annotations = shall.Labels, shall.Annotations
	if object != nil && before.Annotations[createdAnnotation] == string(object.UID) && !owns(object, before.OwnerReferences) {
		after.OwnerReferences = append(after.OwnerReferences, owner(object))
	}
	return true, c.write.patch(ctx, &before, after)
}

// freshNamespace is a namespace as it is made. It belongs to the object of its project, if that has one, and goes with it.
func (c *controller) freshNamespace(p projects.Project, object *v1alpha1.Project) *corev1.Namespace {
	shall := projects.NamespaceKeys(projects.Namespace{}, p.Name, true, c.opts.Settings.Keys)
	fresh := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: shall.Labels, Annotations: shall.Annotations}}
	if object != nil {
		fresh.OwnerReferences = []metav1.OwnerReference{owner(object)}
		fresh.Annotations[createdAnnotation] = string(object.UID)
	}
	return fresh
}

func owner(object *v1alpha1.Project) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Project", Name: object.Name, UID: object.UID}
}

func owns(object *v1alpha1.Project, references []metav1.OwnerReference) bool {
	return slices.ContainsFunc(references, func(r metav1.OwnerReference) bool { return r.UID == object.UID })
}

// followQuota gives the namespace the project's quota, or none.
func (c *controller) followQuota(ctx context.Context, p projects.Project) error {
	if len(p.Quota) == 0 {
		return c.removeOurs(ctx, p.Name, p.Name, projects.QuotaName(p.Name), new(corev1.ResourceQuota))
	}
	hard := corev1.ResourceList{}
	for name, quantity := range p.Quota {
		hard[corev1.ResourceName(name)] = quantity
	}
	err := ensure(ctx, c, p.Name, p.Name, projects.QuotaName(p.Name), new(corev1.ResourceQuota), func(q *corev1.ResourceQuota) {
		if !equality.Semantic.DeepEqual(q.Spec.Hard, hard) {
			q.Spec.Hard = hard
		}
	}, nil)
	if apierrors.IsInvalid(err) {
		return refusedQuota{err}
	}
	return err
}

// refusedQuota is a quota that the API server does not take.
type refusedQuota struct{ error }

// Unwrap gives the API server's answer.
func (r refusedQuota) Unwrap() error { return r.error }

// withdraw takes everything back that was made for a project that is gone.
func (c *controller) withdraw(ctx context.Context, name string) error {
	faults := []error{c.withdrawRights(ctx, name)}
	if !projects.Reserved(name, c.opts.Settings.Reserved) {
		faults = append(faults, c.withdrawKeys(ctx, name))
	}
	return errors.Join(faults...)
}

// withdrawKeys takes our keys from a namespace without a project.
func (c *controller) withdrawKeys(ctx context.Context, name string) error {
	var before corev1.Namespace
	if found, err := c.find(ctx, "", name, &before); !found || before.DeletionTimestamp != nil {
		return err
	}
	after := before.DeepCopy()
	shall := projects.NamespaceKeys(projects.Namespace{Labels: before.Labels, Annotations: before.Annotations}, name, false, c.opts.Settings.Keys)
	after.Labels, after.Annotations = shall.Labels, shall.Annotations
	return c.write.patch(ctx, &before, after)
}

// writeStatus tells in the project's object what was found and done. A project without one has the log and the metrics alone.
func (c *controller) writeStatus(ctx context.Context, p projects.Project, before *v1alpha1.Project, bound projects.Bound, met *findings) error {
	if before == nil {
		return nil
	}
	after := before.DeepCopy()
	s := &after.Status
	s.ObservedGeneration = before.Generation
	s.Nodes, s.NodeCount = namesOf(bound.Nodes), int64(len(bound.Nodes))
	s.NodeGroups = projects.GroupsThatExist(p, bound)
	s.Members = nil
	for _, role := range projects.Roles() {
		for _, subject := range projects.Subjects(role, p, c.opts.Settings) {
			s.Members = append(s.Members, v1alpha1.MemberStatus{Subject: subject.Name, Role: string(role)})
		}
	}
	s.MemberCount = int64(len(s.Members))
	var quota corev1.ResourceQuota
	if _, err := c.find(ctx, p.Name, projects.QuotaName(p.Name), &quota); err != nil {
		return err
	}
	s.Quota = v1alpha1.QuotaStatus{Hard: plain(quota.Status.Hard), Used: plain(quota.Status.Used)}
	setConditions(&s.Conditions, before.Generation, met.all)
	setReady(&s.Conditions, before.Generation, met)
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	err := c.write.patchStatus(ctx, before, after)
	if apierrors.IsNotFound(err) {
		return nil // it is gone, and so is whoever would read it
	}
	return err
}

func plain(list corev1.ResourceList) map[string]resource.Quantity {
	if len(list) == 0 {
		return nil
	}
	all := make(map[string]resource.Quantity, len(list))
	for name, quantity := range list {
		all[string(name)] = quantity
	}
	return all
}

// firstLine cuts what the API server says to what is the same each time and fits a condition.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	const most = 500
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "")
	}
	return line
}
