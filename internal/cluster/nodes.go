package cluster

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"config-server/internal/farm"
)

func watchNodes(client kubernetes.Interface, log *slog.Logger) *watched {
	from := source{
		list: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Nodes().List(ctx, opts)
		},
		watch: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Nodes().Watch(ctx, opts)
		},
	}
	slim := func(object any) (any, error) {
		if node, ok := object.(*corev1.Node); ok {
			return slimNode(node), nil
		}
		return object, nil
	}
	return newWatched("nodes", client, log, &corev1.Node{}, from, slim, nil)
}

// slimNode keeps what nodeOf reads. Kubelet sends a node's whole status every few minutes.
func slimNode(node *corev1.Node) *corev1.Node {
	kept := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, ResourceVersion: node.ResourceVersion},
		Spec:       corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints},
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			kept.Status.Conditions = append(kept.Status.Conditions, corev1.NodeCondition{Type: condition.Type, Status: condition.Status})
		}
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			kept.Status.Addresses = append(kept.Status.Addresses, address)
		}
	}
	return kept
}

// Nodes lists the cluster's nodes by name. They come from the watch; while that is broken or not
// yet there, from the API server.
func (c *Cluster) Nodes(ctx context.Context) ([]farm.Node, error) {
	if c.setupErr == nil && c.nodes.fresh() {
		objects := c.nodes.informer.GetStore().List()
		nodes := make([]farm.Node, 0, len(objects))
		for _, object := range objects {
			nodes = append(nodes, nodeOf(object.(*corev1.Node)))
		}
		return byName(nodes), nil
	}
	list := func(ctx context.Context, opts metav1.ListOptions) ([]corev1.Node, string, error) {
		page, err := c.client.CoreV1().Nodes().List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Continue, nil
	}
	nodes, err := listAll(ctx, c, "list nodes", metav1.ListOptions{}, list, nodeOf)
	return byName(nodes), err
}

func byName(nodes []farm.Node) []farm.Node {
	slices.SortFunc(nodes, func(a, b farm.Node) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return nodes
}

func nodeOf(node *corev1.Node) farm.Node {
	n := farm.Node{Name: farm.NodeName(node.Name), Cordoned: node.Spec.Unschedulable}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			n.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP && n.InternalIP == "" {
			n.InternalIP = address.Address
		}
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoSchedule && isControlPlane(taint.Key) {
			n.ControlPlane = true
		}
	}
	return n
}

// isControlPlane knows the taint's present name and the one before Kubernetes 1.24.
func isControlPlane(key string) bool {
	return key == "node-role.kubernetes.io/control-plane" || key == "node-role.kubernetes.io/master"
}
