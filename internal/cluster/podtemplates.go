package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodTemplates lists the PodTemplates of the namespace that bear a label with this key, whatever its
// value, as the API server has them. They carry the defaults that the API server gave them when
// they were stored. farm.IsForbidden tells an error that means a missing right.
func (c *Cluster) PodTemplates(ctx context.Context, label string) ([]corev1.PodTemplate, error) {
	list := func(ctx context.Context, opts metav1.ListOptions) ([]corev1.PodTemplate, string, error) {
		page, err := c.client.CoreV1().PodTemplates(c.namespace).List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Continue, nil
	}
	asTheyAre := func(template *corev1.PodTemplate) corev1.PodTemplate { return *template }
	return listAll(ctx, c, "list PodTemplates with label "+label, metav1.ListOptions{LabelSelector: label}, list, asTheyAre)
}

// PodTemplate reads one PodTemplate of the namespace, as the API server has it; the second result is
// false if there is none. farm.IsForbidden tells an error that means a missing right.
func (c *Cluster) PodTemplate(ctx context.Context, name string) (corev1.PodTemplate, bool, error) {
	var found *corev1.PodTemplate
	err := c.call(ctx, "get PodTemplate "+name, func(ctx context.Context) (err error) {
		found, err = c.client.CoreV1().PodTemplates(c.namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return corev1.PodTemplate{}, false, nil
	}
	if err != nil {
		return corev1.PodTemplate{}, false, err
	}
	return *found, true, nil
}
