package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"config-server/internal/farm"
)

// WholePod reads one pod of the namespace with all that it has, as the API server has it, whoever made it. The second
// result is false if there is none.
func (c *Cluster) WholePod(ctx context.Context, name string) (*corev1.Pod, bool, error) {
	pod, err := c.getPod(ctx, farm.PodName(name))
	return ifThere(pod, err)
}

// PodsAt lists the pods of the namespace that have an address and have not ended, as the API server has them: one
// that has ended still shows the address that it had.
func (c *Cluster) PodsAt(ctx context.Context, ip string) ([]corev1.Pod, error) {
	alive := fields.AndSelectors(
		fields.OneTermEqualSelector("status.podIP", ip),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)), fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)
	list := func(ctx context.Context, opts metav1.ListOptions) ([]corev1.Pod, string, error) {
		page, err := c.client.CoreV1().Pods(c.namespace).List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Continue, nil
	}
	asTheyAre := func(pod *corev1.Pod) corev1.Pod { return *pod }
	return listAll(ctx, c, "list pods with address "+ip, metav1.ListOptions{FieldSelector: alive.String()}, list, asTheyAre)
}

// Claim reads one PersistentVolumeClaim of the namespace, as the API server has it; the second result is false if
// there is none. farm.IsForbidden tells an error that means a missing right.
func (c *Cluster) Claim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, bool, error) {
	var found *corev1.PersistentVolumeClaim
	err := c.call(ctx, fmt.Sprintf("get PersistentVolumeClaim %s", name), func(ctx context.Context) (err error) {
		found, err = c.client.CoreV1().PersistentVolumeClaims(c.namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return ifThere(found, err)
}

// ifThere makes of an object that was asked for by its name what callers get.
func ifThere[T any](object *T, err error) (*T, bool, error) {
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	return object, err == nil, err
}
