package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"config-server/deploy/lab/internal/site"
)

// afterVerdict is how long a call may go on after kubelet has said that its pod cannot start.
const afterVerdict = 5 * time.Second

func refusalChecks() []check {
	return []check{
		{"an image that is missing ends the call with kubelet's words, and nothing is left", imageMissing},
		{"a command that exits ends the call with its status and its last words, and nothing is left", commandExits},
		{"a full node ends the call with kubelet's words, and nothing is left", nodeFull},
		{"a GPU that the node does not have is told while it is waited for, ends the call in time, and nothing is left", gpuMissing},
	}
}

// failing makes a workspace that cannot start and compares the answer.
func (w *walk) failing(ctx context.Context, fields map[string]any, words ...string) error {
	if err := w.configure(ctx, bob, fields); err != nil {
		return err
	}
	verdict := w.verdicts(ctx, bob)
	a, err := w.refused(ctx, bob)
	done := time.Now()
	if err = errors.Join(err, w.configure(ctx, bob, nil)); err != nil {
		return err
	}
	if a.text("step") != "WAIT_POD_READY" || a.text("error") != "POD_READY_TIMEOUT" {
		return fmt.Errorf("it says %s", a.raw)
	}
	for _, word := range words {
		if !strings.Contains(a.text("detail"), word) {
			return fmt.Errorf("the detail lacks %q: %s", word, a.text("detail"))
		}
	}
	select {
	case said := <-verdict:
		// The undo waits until kubelet has taken the pod away, which is not the verdict's time.
		if took := done.Sub(said); took > afterVerdict {
			return fmt.Errorf("the call ended %v after kubelet's verdict", took)
		}
	default:
		if a.took > 20*time.Second {
			return fmt.Errorf("the call took %v, and kubelet's verdict was not seen", a.took)
		}
	}
	if err := w.nothingOf(ctx, bob); err != nil {
		return err
	}
	return w.stillTold(ctx, bob, a)
}

// stillTold compares what is told of a user's failed workspace afterwards with what the call answered.
func (w *walk) stillTold(ctx context.Context, user string, answered answer) error {
	status, err := w.want(ctx, http.StatusOK, http.MethodGet, "/pods/"+user+"/status", nil)
	if err != nil {
		return err
	}
	if status.text("stage") != "failed" || status.text("code") != answered.text("error") || status.text("detail") != answered.text("detail") {
		return fmt.Errorf("the status tells otherwise: %s", status.raw)
	}
	return nil
}

// watch asks for a user's status again and again, until the function that it returns is called. That
// one reports whether a message of the stage waiting_ready had the word in it.
func (w *walk) watch(ctx context.Context, user, word string) (stop func() bool) {
	ctx, cancel := context.WithCancel(ctx)
	found := make(chan bool, 1)
	go func() {
		found <- until(ctx, checkLimit, func(ctx context.Context) error {
			status, err := w.want(ctx, http.StatusOK, http.MethodGet, "/pods/"+user+"/status", nil)
			if err == nil && (status.text("stage") != "waiting_ready" || !strings.Contains(status.text("message"), word)) {
				err = fmt.Errorf("the status is %s", status.raw)
			}
			return err
		}) == nil
	}()
	return func() bool {
		cancel()
		return <-found
	}
}

// refused asks for a workspace and wants a 500. Whatever is made all the same is removed, so that
// later checks find what they expect.
func (w *walk) refused(ctx context.Context, user string) (answer, error) {
	a, err := w.call(ctx, http.MethodPost, "/create-pod", map[string]any{"username": user})
	if err != nil || a.status == http.StatusInternalServerError {
		return a, err
	}
	if a.status == http.StatusCreated {
		_, err = w.call(ctx, http.MethodPost, "/delete-pod", map[string]any{"pod_name": a.text("pod_name")})
	}
	return a, errors.Join(fmt.Errorf("%w: status %d, want 500: %s", errAnswered, a.status, a.raw), err)
}

// errAnswered says that a workspace was made that could not last.
var errAnswered = errors.New("POST /create-pod")

// verdicts tells when kubelet first says that a pod of the user cannot start.
func (w *walk) verdicts(ctx context.Context, user string) <-chan time.Time {
	said := make(chan time.Time, 1)
	watcher, err := w.admin.CoreV1().Pods(site.Namespace).Watch(ctx, metav1.ListOptions{LabelSelector: "username=" + user})
	if err != nil {
		return said
	}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			pod, isPod := event.Object.(*corev1.Pod)
			if isPod && event.Type == watch.Modified && cannotStart(pod) {
				said <- time.Now()
				return
			}
		}
	}()
	return said
}

func cannotStart(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting != nil && strings.HasPrefix(status.State.Waiting.Reason, "Err") || status.State.Terminated != nil {
			return true
		}
	}
	return false
}

func imageMissing(ctx context.Context, w *walk) error {
	return w.failing(ctx, map[string]any{"image": site.MissingImage}, "ErrImageNeverPull", site.MissingImage)
}

func commandExits(ctx context.Context, w *walk) error {
	// Kubelet calls a container without a readiness probe ready as soon as it runs. If it looks in the
	// moment before the command's end, the pod was Ready, and the answer is right; so that is tried again.
	const attempts = 4
	var err error
	for range attempts {
		err = w.failing(ctx, map[string]any{"image": site.ExitingImage}, "ended with status 3", "log of container shell:\nno workspace here")
		if !errors.Is(err, errAnswered) {
			return err
		}
	}
	return err
}

func nodeFull(ctx context.Context, w *walk) error {
	node, err := w.admin.CoreV1().Nodes().Get(ctx, "farm2", metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := w.admin.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=farm2"})
	if err != nil {
		return err
	}
	free := node.Status.Allocatable.Cpu().MilliValue()
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		for _, container := range pod.Spec.Containers {
			free -= container.Resources.Requests.Cpu().MilliValue()
		}
	}
	filler := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: prefix + "filler"},
		Spec: corev1.PodSpec{
			NodeName: "farm2", TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "filler", Image: site.PauseImage, ImagePullPolicy: corev1.PullNever,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(free-50, resource.DecimalSI)}},
			}},
		},
	}
	fillers := w.admin.CoreV1().Pods(site.Namespace)
	if _, err := fillers.Create(ctx, filler, metav1.CreateOptions{}); err != nil {
		return err
	}
	err = until(ctx, 60*time.Second, func(ctx context.Context) error {
		pod, err := fillers.Get(ctx, filler.Name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("the filler is %s: %s", pod.Status.Phase, pod.Status.Message)
		}
		return err
	})
	if err == nil {
		err = w.failing(ctx, onNode("farm2", 0), "OutOfcpu")
	}
	return errors.Join(err, fillers.Delete(context.WithoutCancel(ctx), filler.Name, metav1.DeleteOptions{}))
}

func gpuMissing(ctx context.Context, w *walk) error {
	// Kubelet tries such a mount again and again; the service's own limit ends the wait.
	if err := w.configure(ctx, bob, onNode("farm1", 5)); err != nil {
		return err
	}
	const device = "nvidia"
	stop := w.watch(ctx, bob, device)
	a, err := w.refused(ctx, bob)
	told := stop()
	if err = errors.Join(err, w.configure(ctx, bob, nil)); err != nil {
		return err
	}
	if !strings.Contains(a.text("detail"), device) {
		return fmt.Errorf("the detail does not name the device: %s", a.raw)
	}
	if !told {
		return errors.New("while the pod was waited for its status did not name the device")
	}
	if err := w.nothingOf(ctx, bob); err != nil {
		return err
	}
	return w.stillTold(ctx, bob, a)
}
