package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeResources lists the cluster's nodes, as the API server has them, cut down to name, labels, spec
// and allocatable.
func (c *Cluster) NodeResources(ctx context.Context) ([]corev1.Node, error) {
	list := func(ctx context.Context, opts metav1.ListOptions) ([]corev1.Node, string, error) {
		page, err := c.client.CoreV1().Nodes().List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Continue, nil
	}
	cut := func(node *corev1.Node) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels},
			Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints},
			Status:     corev1.NodeStatus{Allocatable: node.Status.Allocatable},
		}
	}
	return listAll(ctx, c, "list nodes with their resources", metav1.ListOptions{}, list, cut)
}

// ResourceQuotas lists the quotas of the namespace.
func (c *Cluster) ResourceQuotas(ctx context.Context) ([]corev1.ResourceQuota, error) {
	list := func(ctx context.Context, opts metav1.ListOptions) ([]corev1.ResourceQuota, string, error) {
		page, err := c.client.CoreV1().ResourceQuotas(c.namespace).List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Continue, nil
	}
	asTheyAre := func(quota *corev1.ResourceQuota) corev1.ResourceQuota { return *quota }
	return listAll(ctx, c, "list ResourceQuotas", metav1.ListOptions{}, list, asTheyAre)
}

// DeviceClasses lists DRA's classes of devices; none on an API server that does not know that kind.
func (c *Cluster) DeviceClasses(ctx context.Context) ([]resourcev1.DeviceClass, error) {
	list := func(ctx context.Context, opts metav1.ListOptions) ([]resourcev1.DeviceClass, string, error) {
		page, err := c.client.ResourceV1().DeviceClasses().List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Continue, nil
	}
	asTheyAre := func(class *resourcev1.DeviceClass) resourcev1.DeviceClass { return *class }
	classes, err := listAll(ctx, c, "list DeviceClasses", metav1.ListOptions{}, list, asTheyAre)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return classes, err
}

// boundPods selects the pods that hold resources of a node.
const boundPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// BoundPods lists the pods that have a node and have not ended, cut down to what they ask for: those of
// all namespaces, or of the namespace alone.
func (c *Cluster) BoundPods(ctx context.Context, everywhere bool) ([]corev1.Pod, error) {
	namespace, operation := c.namespace, "list bound pods of namespace "+c.namespace
	if everywhere {
		namespace, operation = metav1.NamespaceAll, "list bound pods of all namespaces"
	}
	list := func(ctx context.Context, opts metav1.ListOptions) ([]corev1.Pod, string, error) {
		page, err := c.client.CoreV1().Pods(namespace).List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Continue, nil
	}
	return listAll(ctx, c, operation, metav1.ListOptions{FieldSelector: boundPods}, list, resourcesOf)
}

// resourcesOf cuts a pod down to its node and to what its containers ask for.
func resourcesOf(pod *corev1.Pod) corev1.Pod {
	cut := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase},
	}
	for _, container := range pod.Spec.Containers {
		cut.Spec.Containers = append(cut.Spec.Containers, corev1.Container{Name: container.Name, Resources: container.Resources})
	}
	for _, container := range pod.Spec.InitContainers {
		cut.Spec.InitContainers = append(cut.Spec.InitContainers,
			corev1.Container{Name: container.Name, Resources: container.Resources, RestartPolicy: container.RestartPolicy})
	}
	return cut
}
