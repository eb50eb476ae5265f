package raise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"config-server/deploy/lab/internal/daemon"
	"config-server/deploy/lab/internal/site"
)

// Admin is a client that may do everything in the lab's cluster.
func (l *Lab) Admin() (kubernetes.Interface, *rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.Site.Kubeconfig("admin"))
	if err != nil {
		return nil, nil, fmt.Errorf("reach the cluster: %w", err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return client, config, nil
}

// makeObjects makes the namespace, the service's rights as its chart has them, and the nodes that
// kwok plays.
func (l *Lab) makeObjects(ctx context.Context) error {
	client, config, err := l.Admin()
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: site.Namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s: %w", site.Namespace, err)
	}
	if err := l.applyRights(ctx, config); err != nil {
		return err
	}
	for _, name := range l.Site.Kwok {
		if err := makeKwokNode(ctx, client, name); err != nil {
			return err
		}
	}
	return l.serviceToken(ctx, client)
}

// applyRights renders the chart's RBAC with the lab's features on, and applies it.
func (l *Lab) applyRights(ctx context.Context, config *rest.Config) error {
	helm, err := l.Built("helm")
	if err != nil {
		return err
	}
	chart := filepath.Join(l.Checkout, "deploy", "helm", "config-server")
	cmd := exec.CommandContext(ctx, helm, "template", "containerssh-config-server", chart, "--namespace", site.Namespace, "--show-only", "templates/rbac.yaml",
		"--set", "config.namespace="+site.Namespace, "--set", "nfs.server=192.0.2.30", "--set", "nfs.kubeSharePath=/volume1/kube_share", "--set", "nas.ssh.host=127.0.0.1", "--set", "nas.ssh.user=nas",
		"--set", "krb5.realm="+site.Domain, "--set", "krb5.kdcHost=127.0.0.1", "--set", "farm.ssh.user="+site.FarmUser, "--set", "farm.ssh.nodes[0].name=farm1,farm.ssh.nodes[0].host=127.0.0.1", "--set-string", "env.ACCOUNT_SECRET=true")
	text, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return fmt.Errorf("render the chart: %w: %s", err, exit.Stderr)
		}
		return fmt.Errorf("render the chart: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reach the cluster: %w", err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(string(text)), 4096)
	for {
		object := new(unstructured.Unstructured)
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the chart's rights: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := apply(ctx, client, object); err != nil {
			return err
		}
	}
}

// apply makes or changes one object of a kind whose plural has an s.
func apply(ctx context.Context, client dynamic.Interface, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	objects := client.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"})
	options := metav1.ApplyOptions{FieldManager: "lab", Force: true}
	var err error
	if object.GetNamespace() == "" {
		_, err = objects.Apply(ctx, object.GetName(), object, options)
	} else {
		_, err = objects.Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object, options)
	}
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", kind.Kind, object.GetName(), err)
	}
	return nil
}

func makeKwokNode(ctx context.Context, client kubernetes.Interface, name string) error {
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{kwokAnnotation: "fake"},
			Labels: map[string]string{corev1.LabelHostname: name, "type": "kwok"},
		},
		Status: corev1.NodeStatus{Capacity: size, Allocatable: size},
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make node %s: %w", name, err)
	}
	return nil
}

// tokenLife is how long the service's token is good. lab up makes a new one.
const tokenLife = 30 * 24 * time.Hour

// serviceToken writes the token of the chart's ServiceAccount and the service's kubeconfig.
func (l *Lab) serviceToken(ctx context.Context, client kubernetes.Interface) error {
	seconds := int64(tokenLife.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := client.CoreV1().ServiceAccounts(site.Namespace).CreateToken(ctx, "config-server", request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask for the service's token: %w", err)
	}
	if err := l.write(l.kube("service.token"), answer.Status.Token, 0o600); err != nil {
		return err
	}
	return l.kubeconfig("service", "", l.kube("service.token"), site.Namespace)
}

// waitForNodes waits until all nodes are Ready and pods can be made.
func (l *Lab) waitForNodes(ctx context.Context) error {
	client, _, err := l.Admin()
	if err != nil {
		return err
	}
	for _, node := range l.Site.Nodes {
		// What a former end of the lab's programs left cordoned or marked.
		_, _ = client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, []byte(`{"spec":{"unschedulable":null}}`), metav1.PatchOptions{})
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err = daemon.Wait(ctx, func(ctx context.Context) error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if want := len(l.Site.Nodes) + len(l.Site.Kwok); len(nodes.Items) != want {
			return fmt.Errorf("%d nodes, want %d", len(nodes.Items), want)
		}
		for _, node := range nodes.Items {
			if why := notReady(node); why != "" {
				return fmt.Errorf("node %s is not ready: %s", node.Name, why)
			}
		}
		if _, err := client.CoreV1().ServiceAccounts(site.Namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for the nodes: %w", err)
	}
	return nil
}

// notReady is the reason why a node cannot take pods, "" if it can.
func notReady(node corev1.Node) string {
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute {
			return "taint " + taint.Key
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status == corev1.ConditionTrue {
				return ""
			}
			return condition.Reason + ": " + condition.Message
		}
	}
	return "it has not said anything yet"
}
