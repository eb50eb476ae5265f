package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"config-server/internal/testkit"
	"config-server/internal/testkit/kubelet"
)

func newPod(name, image string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: "farm5", RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "shell", Image: image}}},
	}
}

// asService is a client with the chart's rights.
func asService(t *testing.T, cluster *testkit.KubeCluster) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.ServiceConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestClusterGivesPodsTheFateThatTheirImageNames(t *testing.T) {
	t.Parallel()
	cluster := testkit.Cluster(t)
	pods := asService(t, cluster).CoreV1().Pods(cluster.Namespace)
	tests := []struct {
		fate, want string
	}{
		{"1.0", "Running ready "},
		{testkit.ImageNotReady, "Running "},
		{testkit.ImageNeverPull, "Pending ErrImageNeverPull"},
		{testkit.ImageConfigError, "Pending CreateContainerConfigError"},
		{testkit.ImageFails, "Failed "},
	}
	for i, test := range tests {
		name := fmt.Sprintf("pod%d", i)
		if _, err := pods.Create(t.Context(), newPod(name, "dguailab/decs:"+test.fate), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		testkit.WaitFor(t, 20*time.Second, test.fate, func(ctx context.Context) error {
			pod, err := pods.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := describe(pod); got != test.want {
				return fmt.Errorf("it is %q, want %q", got, test.want)
			}
			return nil
		})
		if err := pods.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		testkit.WaitFor(t, 20*time.Second, "the end of "+name, func(ctx context.Context) error {
			_, err := pods.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("still there"), err)
		})
	}
}

func describe(pod *corev1.Pod) string {
	text := string(pod.Status.Phase) + " "
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			text += "ready "
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting != nil {
			text += status.State.Waiting.Reason
		}
	}
	return text
}

func TestClusterGrantsTheChartsRightsAndNoMore(t *testing.T) {
	t.Parallel()
	cluster := testkit.Cluster(t)
	client := asService(t, cluster)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) < 4 {
		t.Errorf("%d nodes, want farm5 to farm8", len(nodes.Items))
	}
	// Pods of other namespaces may be listed, because they use GPUs too; nothing more.
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete a pod of another namespace: %v, want forbidden", err)
	}
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("Secrets of another namespace: %v, want forbidden", err)
	}
	if _, err := client.CoreV1().Secrets(cluster.Namespace).Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("update a Secret: %v, want forbidden", err)
	}
	cluster.Grant(t, "everything")
	if _, err := client.CoreV1().Secrets(cluster.Namespace).Update(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("update a Secret with all features on: %v, want not found", err)
	}
}

// lockedText takes both streams of a command, which arrive at once and may outlive the call.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestClusterAnswersExecThroughTheAPIServer(t *testing.T) {
	t.Parallel()
	cluster := testkit.Cluster(t)
	client := asService(t, cluster)
	pods := client.CoreV1().Pods(cluster.Namespace)
	if _, err := pods.Create(t.Context(), newPod("a", "image"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, 20*time.Second, "the pod", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "a", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			return errors.New("not running")
		}
		return err
	})
	cluster.OnExec(t,
		kubelet.Result{Contains: "save", Exit: 3, Stdout: "said", Stderr: "complained"},
		kubelet.Result{Contains: "hang", Hang: true})
	do := func(ctx context.Context, command string) (string, error) {
		request := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(cluster.Namespace).Name("a").SubResource("exec").
			VersionedParams(&corev1.PodExecOptions{Container: "shell", Command: []string{command}, Stdout: true, Stderr: true}, scheme.ParameterCodec)
		executor, err := remotecommand.NewWebSocketExecutor(cluster.ServiceConfig(), "GET", request.URL().String())
		if err != nil {
			t.Fatal(err)
		}
		var out lockedText
		err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &out})
		return out.String(), err
	}
	out, err := do(t.Context(), "save")
	var exit utilexec.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 3 {
		t.Errorf("exit status of save: %v, want 3", err)
	}
	if !strings.Contains(out, "said") || !strings.Contains(out, "complained") {
		t.Errorf("save says %q", out)
	}
	if _, err := do(t.Context(), "other"); err != nil {
		t.Errorf("a command without a result: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := do(ctx, "hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a hanging command: %v, want the deadline", err)
	}
	var commands []string
	for _, call := range cluster.Execs(t) {
		commands = append(commands, call.Pod+" "+call.Container+" "+strings.Join(call.Command, " "))
	}
	if want := []string{"a shell save", "a shell other", "a shell hang"}; !slices.Equal(commands, want) {
		t.Errorf("calls noted: %q, want %q", commands, want)
	}
}

func TestOwnClusterNodesAndOutages(t *testing.T) {
	t.Parallel()
	cluster := testkit.OwnCluster(t)
	client := cluster.Admin(t)
	cluster.AddNode(t, testkit.Node{Name: "farm9", NotReady: true, Cordoned: true,
		Taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}})
	cluster.SetNode(t, testkit.Node{Name: "farm8", NotReady: true})
	cluster.Kill(t, testkit.PartAPIServer)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("a killed API server answers")
	}
	cluster.Start(t, testkit.PartAPIServer)
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, node := range nodes.Items {
		ready := node.Status.Conditions[0].Status
		got = append(got, fmt.Sprintf("%s ready=%s cordoned=%v taints=%d", node.Name, ready, node.Spec.Unschedulable, len(node.Spec.Taints)))
	}
	want := []string{
		"farm5 ready=True cordoned=false taints=0", "farm6 ready=True cordoned=false taints=0", "farm7 ready=True cordoned=false taints=0",
		"farm8 ready=False cordoned=false taints=0", "farm9 ready=False cordoned=true taints=1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("nodes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
