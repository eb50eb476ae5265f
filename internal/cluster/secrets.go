package cluster

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"config-server/internal/farm"
)

// PutSecret creates a Secret, or replaces the data and adds the labels of the one that has its name.
// Its errors name the Secret and show nothing of its content. A Secret with a pod goes with it where
// the cluster collects garbage. The caller sees to it that nobody else puts the same Secret.
func (c *Cluster) PutSecret(ctx context.Context, secret farm.Secret) error {
	wanted := secretObject(secret)
	err := c.call(ctx, "create Secret "+secret.Name, func(ctx context.Context) error {
		_, err := c.client.CoreV1().Secrets(c.namespace).Create(ctx, wanted, metav1.CreateOptions{})
		return err
	})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return c.call(ctx, "replace Secret "+secret.Name, func(ctx context.Context) error {
		secrets := c.client.CoreV1().Secrets(c.namespace)
		present, err := secrets.Get(ctx, secret.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if present.Labels == nil {
			present.Labels = map[string]string{}
		}
		maps.Copy(present.Labels, wanted.Labels)
		present.Data, present.OwnerReferences = wanted.Data, wanted.OwnerReferences
		_, err = secrets.Update(ctx, present, metav1.UpdateOptions{})
		return err
	})
}

// Secret reads a Secret; the second result is false if there is none.
func (c *Cluster) Secret(ctx context.Context, name string) (farm.Secret, bool, error) {
	var found *corev1.Secret
	err := c.call(ctx, "get Secret "+name, func(ctx context.Context) (err error) {
		found, err = c.client.CoreV1().Secrets(c.namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return farm.Secret{}, false, nil
	}
	if err != nil {
		return farm.Secret{}, false, err
	}
	return farm.Secret{
		Name: name, User: userOf(found), Pod: farm.PodName(found.Labels[farm.LabelPod]), Data: found.Data,
	}, true, nil
}

// DeleteSecret removes a Secret and reports whether there was one.
func (c *Cluster) DeleteSecret(ctx context.Context, name string) (bool, error) {
	existed := false
	err := c.call(ctx, "delete Secret "+name, func(ctx context.Context) error {
		err := c.client.CoreV1().Secrets(c.namespace).Delete(ctx, name, metav1.DeleteOptions{})
		existed = err == nil
		return ignoreNotFound(err)
	})
	return existed, err
}

func secretObject(secret farm.Secret) *corev1.Secret {
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secret.Name, Labels: map[string]string{farm.LabelManagedBy: farm.ManagedBy}},
		Data:       secret.Data,
	}
	if farm.IsLabelValue(string(secret.User)) {
		object.Labels[farm.LabelUser] = string(secret.User)
	} else if secret.User != "" {
		object.Annotations = map[string]string{farm.AnnotationUser: string(secret.User)}
	}
	if secret.Pod != "" {
		object.Labels[farm.LabelPod] = string(secret.Pod)
	}
	if secret.PodUID != "" {
		object.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: string(secret.Pod), UID: types.UID(secret.PodUID),
		}}
	}
	return object
}

// accountSecretOf tells whether a pod mounts the Secret with its user's password hash.
func accountSecretOf(pod *corev1.Pod) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret != nil && volume.Secret.SecretName == farm.AccountSecretName(farm.PodName(pod.Name)) {
			return true
		}
	}
	return false
}
