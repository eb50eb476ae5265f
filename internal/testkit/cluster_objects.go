package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"config-server/internal/testkit/kubelet"
)

// Tags of images that give a pod another fate than to become Ready at once. They count wherever they
// stand in the image's name, so that fates can be joined with other text.
const (
	ImageNeverReady  = "fate-pending"     // scheduled, and then nothing happens
	ImageNotReady    = "fate-unready"     // Running, never Ready
	ImageNeverPull   = "fate-neverpull"   // waiting, ErrImageNeverPull
	ImageConfigError = "fate-configerror" // waiting, CreateContainerConfigError
	ImageFails       = "fate-failed"      // phase Failed at once, exit status 1
	ImageUndeletable = "fate-undeletable" // becomes Ready; a deletion never ends
)

// AnnotationWaits is an annotation of pods whose containers wait for ever, init containers first; its
// value is the reason, as kubelet would give it.
const AnnotationWaits = "testkit/waits"

// Node is a node for AddNode.
type Node struct {
	Name     string
	NotReady bool
	Cordoned bool
	Taints   []corev1.Taint
	Labels   map[string]string
	// Resources are further resources, by name, as a device plugin's; quantities as text.
	Resources map[string]string
}

// AddNode makes a node with 64 cores and 256 GiB. On a shared cluster its name must be unique, and
// the test's end removes it.
func (c *KubeCluster) AddNode(t testing.TB, node Node) {
	t.Helper()
	if err := c.addresses.addNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if c.parts == nil {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
			defer cancel()
			if err := c.Admin(t).CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("remove node %s: %v", node.Name, err)
			}
		})
	}
}

// SetNode changes a node of an OwnCluster to what node says.
func (c *KubeCluster) SetNode(t testing.TB, node Node) {
	t.Helper()
	c.own(t, PartAPIServer)
	client := c.Admin(t).CoreV1().Nodes()
	if err := client.Delete(t.Context(), node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatalf("replace node %s: %v", node.Name, err)
	}
	if err := c.addresses.addNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

func (a clusterAddresses) addNode(ctx context.Context, node Node) error {
	client, err := kubernetes.NewForConfig(a.config(a.AdminToken))
	if err != nil {
		return fmt.Errorf("add node %s: %w", node.Name, err)
	}
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels},
		Spec:       corev1.NodeSpec{Unschedulable: node.Cordoned, Taints: node.Taints},
	}
	// The admission plugin for new nodes taints them as not ready, and nobody here would lift that.
	if object, err = client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("add node %s: %w", node.Name, err)
	}
	ready := corev1.ConditionTrue
	if node.NotReady {
		ready = corev1.ConditionFalse
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods: resource.MustParse("1000"),
	}
	for name, text := range node.Resources {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("add node %s: %s of it: %w", node.Name, name, err)
		}
		room[corev1.ResourceName(name)] = quantity
	}
	object.Status = corev1.NodeStatus{
		Phase: corev1.NodeRunning, Capacity: room, Allocatable: room,
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(a.KubeletPort)}},
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, Reason: "TestSaysSo",
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}},
	}
	if object, err = client.CoreV1().Nodes().UpdateStatus(ctx, object, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("set the status of node %s: %w", node.Name, err)
	}
	// Creation replaced the taints by its own.
	object.Spec.Taints = node.Taints
	if _, err = client.CoreV1().Nodes().Update(ctx, object, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("set the taints of node %s: %w", node.Name, err)
	}
	return nil
}

// OnExec sets how commands in pods of this namespace end, the first result that fits winning, until
// it is called again. Without results every command exits 0.
func (c *KubeCluster) OnExec(t testing.TB, results ...kubelet.Result) {
	t.Helper()
	c.tellKubelet(t, ".json", results)
}

// OnLogs sets what containers of this namespace wrote, the first log that fits winning, until it is
// called again. Without one a call for a log fails.
func (c *KubeCluster) OnLogs(t testing.TB, logs ...kubelet.Log) {
	t.Helper()
	c.tellKubelet(t, ".logs", logs)
}

func (c *KubeCluster) tellKubelet(t testing.TB, suffix string, what any) {
	t.Helper()
	text, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(c.addresses.ExecFolder, c.Namespace+suffix)
	// Renamed into place, so that no call reads half of it.
	if err := os.WriteFile(path+".draft", text, 0o644); err != nil {
		t.Fatalf("tell the kubelet: %v", err)
	}
	if err := os.Rename(path+".draft", path); err != nil {
		t.Fatalf("tell the kubelet: %v", err)
	}
}

// Execs returns the exec calls for pods of this namespace, in order of their arrival.
func (c *KubeCluster) Execs(t testing.TB) []kubelet.Call {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.addresses.ExecFolder, c.Namespace+".calls"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatalf("read exec calls: %v", err)
	}
	var calls []kubelet.Call
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var call kubelet.Call
		switch err := decoder.Decode(&call); {
		case errors.Is(err, io.EOF):
			return calls
		case err != nil:
			t.Fatalf("read exec calls: %v", err)
		}
		calls = append(calls, call)
	}
}

// newToken asks the API server for a token of the ServiceAccount, as a pod would get one.
func (c *KubeCluster) newToken(ctx context.Context, t testing.TB) string {
	t.Helper()
	hour := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}
	answer, err := c.Admin(t).CoreV1().ServiceAccounts(c.Namespace).CreateToken(ctx, ServiceAccount, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make a token of ServiceAccount %s: %v", ServiceAccount, err)
	}
	return answer.Status.Token
}

// Grant gives the ServiceAccount of this namespace the rights that the chart gives it with the values
// of that name (deploy/helm/testdata/golden; "least" at first, "everything" has all features on).
func (c *KubeCluster) Grant(t testing.TB, values string) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := os.ReadFile(filepath.Join(root, "deploy", "helm", "testdata", "golden", values+".yaml"))
	if err != nil {
		t.Fatalf("read the chart's rights: %v", err)
	}
	granted := 0
	for document := range strings.SplitSeq("\n"+string(manifests), "\n---") {
		granted += c.apply(t, document)
	}
	if granted == 0 {
		t.Fatalf("the chart with values %s grants nothing", values)
	}
}

// apply writes a manifest of rights into this namespace and returns 1; others it leaves, returning 0.
func (c *KubeCluster) apply(t testing.TB, document string) int {
	t.Helper()
	var kind struct{ Kind string }
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		t.Fatalf("read the chart's rights: %v", err)
	}
	ctx, rbac := t.Context(), c.Admin(t).RbacV1()
	var err error
	switch kind.Kind {
	case "ServiceAccount":
		object := decode[corev1.ServiceAccount](t, document)
		object.Namespace = c.Namespace
		_, err = c.Admin(t).CoreV1().ServiceAccounts(c.Namespace).Create(ctx, object, metav1.CreateOptions{})
		err = ignoreExisting(err)
	case "Role":
		object := decode[rbacv1.Role](t, document)
		object.Namespace = c.Namespace
		if _, err = rbac.Roles(c.Namespace).Create(ctx, object, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			_, err = rbac.Roles(c.Namespace).Update(ctx, object, metav1.UpdateOptions{})
		}
	case "RoleBinding":
		object := decode[rbacv1.RoleBinding](t, document)
		object.Namespace, object.Subjects = c.Namespace, c.subjects(object.Subjects)
		_, err = rbac.RoleBindings(c.Namespace).Create(ctx, object, metav1.CreateOptions{})
		err = ignoreExisting(err)
	case "ClusterRole":
		object := decode[rbacv1.ClusterRole](t, document)
		object.Name += "-" + c.Namespace
		if _, err = rbac.ClusterRoles().Create(ctx, object, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
			_, err = rbac.ClusterRoles().Update(ctx, object, metav1.UpdateOptions{})
		}
	case "ClusterRoleBinding":
		object := decode[rbacv1.ClusterRoleBinding](t, document)
		object.Name, object.Subjects = object.Name+"-"+c.Namespace, c.subjects(object.Subjects)
		object.RoleRef.Name += "-" + c.Namespace
		_, err = rbac.ClusterRoleBindings().Create(ctx, object, metav1.CreateOptions{})
		err = ignoreExisting(err)
	default:
		return 0
	}
	if err != nil {
		t.Fatalf("grant the chart's rights: %s: %v", kind.Kind, err)
	}
	return 1
}

func (c *KubeCluster) subjects(subjects []rbacv1.Subject) []rbacv1.Subject {
	for i := range subjects {
		subjects[i].Namespace = c.Namespace
	}
	return subjects
}

func decode[T any](t testing.TB, document string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
		t.Fatalf("read the chart's rights: %v", err)
	}
	return object
}

func ignoreExisting(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Revoke takes a verb on a resource from the ServiceAccount: in all namespaces, or in this one. A resource has its
// API group behind it, if that is not the core's. Grant gives everything back.
func (c *KubeCluster) Revoke(t testing.TB, verb, resource string, everywhere bool) {
	t.Helper()
	name, group, _ := strings.Cut(resource, ".")
	taken := 0
	take := func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		var kept []rbacv1.PolicyRule
		for _, rule := range rules {
			if slices.Contains(rule.Resources, name) && slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Verbs, verb) {
				taken++
				rule.Verbs = slices.DeleteFunc(slices.Clone(rule.Verbs), func(v string) bool { return v == verb })
			}
			if len(rule.Verbs) > 0 {
				kept = append(kept, rule)
			}
		}
		return kept
	}
	ctx, rbac := t.Context(), c.Admin(t).RbacV1()
	if everywhere {
		list, err := rbac.ClusterRoles().List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatalf("take the right to %s %s: %v", verb, resource, err)
		}
		for _, role := range list.Items {
			if !strings.HasSuffix(role.Name, "-"+c.Namespace) {
				continue
			}
			role.Rules = take(role.Rules)
			if _, err := rbac.ClusterRoles().Update(ctx, &role, metav1.UpdateOptions{}); err != nil {
				t.Fatalf("take the right to %s %s: %v", verb, resource, err)
			}
		}
	} else {
		list, err := rbac.Roles(c.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatalf("take the right to %s %s: %v", verb, resource, err)
		}
		for _, role := range list.Items {
			role.Rules = take(role.Rules)
			if _, err := rbac.Roles(c.Namespace).Update(ctx, &role, metav1.UpdateOptions{}); err != nil {
				t.Fatalf("take the right to %s %s: %v", verb, resource, err)
			}
		}
	}
	if taken == 0 {
		t.Fatalf("take the right to %s %s: nobody has it", verb, resource)
	}
}
