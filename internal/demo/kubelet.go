package demo

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"config-server/internal/farm"
)

// Beginnings of user names by which a developer chooses how the pods of a user behave.
const (
	slowUsers    = "slow"    // Ready after Options.Slow
	neverUsers   = "never"   // stays in ContainerCreating
	failedUsers  = "failed"  // its container ends at once
	noImageUsers = "noimage" // the image is not on the node
	unsavedUsers = "unsaved" // save_image.sh fails
)

// kubelet plays the scheduler and the kubelets of all nodes: it makes pods Ready and takes deleted ones
// away.
type kubelet struct {
	store  *store
	forget func() // has the clientset forget the calls that it records, or it would grow for ever
	slow   time.Duration
	cancel context.CancelFunc
	work   sync.WaitGroup
}

func startKubelet(api *apiServer, slow time.Duration) *kubelet {
	ctx, cancel := context.WithCancel(context.Background())
	k := &kubelet{store: api.store, forget: api.client.ClearActions, slow: slow, cancel: cancel}
	// A watch from the beginning of an open store cannot be refused.
	events, _ := k.store.watch("pods", "", labels.Everything(), "")
	k.work.Go(func() {
		defer events.Stop()
		for {
			select {
			case event, open := <-events.ResultChan():
				if !open {
					return
				}
				k.handle(ctx, event)
				k.forget()
			case <-ctx.Done():
				return
			}
		}
	})
	return k
}

func (k *kubelet) close() {
	k.cancel()
	k.work.Wait()
}

func (k *kubelet) handle(ctx context.Context, event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	if pod.Spec.NodeName == "" && event.Type == watch.Added {
		pod = k.bind(pod)
	}
	if pod.Spec.NodeName == "" {
		return
	}
	switch {
	case event.Type == watch.Deleted:
	case pod.DeletionTimestamp != nil:
		// A shell ends as soon as it is told to, so nobody waits for the grace period.
		now, uid := int64(0), pod.UID
		_ = k.store.remove(placeOf(pod), metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid},
		}, 0)
	case event.Type == watch.Added:
		k.begin(ctx, pod)
	}
}

// bind does of a scheduler's work what a workspace with a GPU option needs: it goes to the node that
// its affinity names, whatever is free there. The pod of an export goes to the first node.
func (k *kubelet) bind(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	if isExport(pod) {
		pod.Spec.NodeName = "farm5"
	}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, field := range term.MatchFields {
				pod.Spec.NodeName = field.Values[0]
			}
		}
	}
	k.store.mend(placeOf(pod), pod.UID, func(o object) {
		if p, ok := o.(*corev1.Pod); ok {
			p.Spec.NodeName = pod.Spec.NodeName
		}
	})
	return pod
}

func placeOf(pod *corev1.Pod) place { return place{"pods", pod.Namespace, pod.Name} }

// begin does with a new pod what its user's name asks for.
func (k *kubelet) begin(ctx context.Context, pod *corev1.Pod) {
	user := pod.Labels[farm.LabelUser]
	switch {
	case strings.HasPrefix(user, neverUsers):
		k.report(pod, waiting("ContainerCreating", ""))
		k.warn(pod, "FailedMount", fmt.Sprintf("MountVolume.SetUp failed for volume \"nfs-home\" : mount of %s:%s timed out", nfsServer, sharePath))
	case strings.HasPrefix(user, failedUsers):
		k.report(pod, failed)
		k.warn(pod, "BackOff", "the container ended right after its start")
	case strings.HasPrefix(user, noImageUsers):
		image := imageOf(pod)
		k.report(pod, waiting("ErrImageNeverPull", fmt.Sprintf("Container image %q is not present with pull policy of Never", image)))
		k.warn(pod, "ErrImageNeverPull", fmt.Sprintf("Container image %q is not present with pull policy of Never", image))
	case strings.HasPrefix(user, slowUsers):
		k.report(pod, waiting("ContainerCreating", ""))
		k.tell(pod, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", imageOf(pod)))
		k.work.Go(func() {
			select {
			case <-time.After(k.slow):
				k.report(pod, running)
			case <-ctx.Done():
			}
		})
	default:
		k.report(pod, running)
	}
}

func imageOf(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		if c.Name == farm.ContainerName {
			return c.Image
		}
	}
	return ""
}

// report writes a new status, unless the pod is gone by now.
func (k *kubelet) report(pod *corev1.Pod, become func(*corev1.Pod)) {
	k.store.mend(placeOf(pod), pod.UID, func(o object) {
		p, ok := o.(*corev1.Pod)
		if !ok || p.DeletionTimestamp != nil {
			return
		}
		now := metav1.NewTime(time.Now().Truncate(time.Second))
		p.Status.HostIP = nodeIP(int(p.Spec.NodeName[len(p.Spec.NodeName)-1] - '0'))
		p.Status.StartTime = &now
		become(p)
	})
}

func running(pod *corev1.Pod) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP = podIP(pod.UID)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	setConditions(pod, corev1.ConditionTrue, "")
	setContainers(pod, true, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}})
}

func waiting(reason, message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodPending
		setConditions(pod, corev1.ConditionFalse, "ContainersNotReady")
		setContainers(pod, false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
	}
}

func failed(pod *corev1.Pod) {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	pod.Status.Phase = corev1.PodFailed
	setConditions(pod, corev1.ConditionFalse, "PodFailed")
	setContainers(pod, false, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "Error", Message: "entrypoint: no user of this uid", StartedAt: now, FinishedAt: now,
	}})
}

func setConditions(pod *corev1.Pod, ready corev1.ConditionStatus, reason string) {
	pod.Status.Conditions = nil
	for _, c := range []struct {
		kind   corev1.PodConditionType
		status corev1.ConditionStatus
		reason string
	}{
		{corev1.PodScheduled, corev1.ConditionTrue, ""},
		{corev1.PodInitialized, corev1.ConditionTrue, ""},
		{corev1.ContainersReady, ready, reason},
		{corev1.PodReady, ready, reason},
	} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: c.kind, Status: c.status, Reason: c.reason, LastTransitionTime: metav1.Now(),
		})
	}
}

func setContainers(pod *corev1.Pod, ready bool, state corev1.ContainerState) {
	pod.Status.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: ready, Started: &ready, State: state,
		})
	}
}

// podIP is an address of the pod network, the same for the same pod.
func podIP(uid types.UID) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(uid))
	n := sum.Sum32()
	return fmt.Sprintf("10.244.%d.%d", n>>8%4, 2+n%250)
}

// warn writes a warning event on the pod.
func (k *kubelet) warn(pod *corev1.Pod, reason, message string) {
	k.tell(pod, corev1.EventTypeWarning, reason, message)
}

// tell writes an event on the pod.
func (k *kubelet) tell(pod *corev1.Pod, kind, reason, message string) {
	_, _ = k.store.create("events", &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + "." + strings.ToLower(reason)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Type:           kind, Reason: reason, Message: message, Count: 1,
		FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
		Source: corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName},
	}, nothingToCheck)
}

// exec answers a command in a container: it succeeds, as the save script does, unless the pod is
// not running or its user's name asks for a failure.
func (k *kubelet) exec(_ context.Context, name farm.PodName, container string, command []string) (farm.ExecResult, error) {
	kept, err := k.store.get(place{"pods", namespace, string(name)})
	if err != nil {
		return farm.ExecResult{}, err
	}
	pod, ok := kept.(*corev1.Pod)
	if !ok || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
		return farm.ExecResult{}, fmt.Errorf("container %s of pod %s is not running", container, name)
	}
	if strings.HasPrefix(pod.Labels[farm.LabelUser], unsavedUsers) {
		return farm.ExecResult{ExitCode: 1, Stderr: strings.Join(command, " ") + ": no space left on device\n"}, nil
	}
	return farm.ExecResult{Stdout: "saved\n"}, nil
}

// logs are what containers wrote: only those that end at once have something to say, and exports.
func (k *kubelet) logs(_ context.Context, name farm.PodName, _ string, _ bool, _ int64) (io.ReadCloser, error) {
	kept, err := k.store.get(place{"pods", namespace, string(name)})
	if err != nil {
		return nil, err
	}
	if pod, ok := kept.(*corev1.Pod); ok && isExport(pod) {
		text, err := exported(pod)
		return io.NopCloser(strings.NewReader(text)), err
	}
	text := ""
	if strings.HasPrefix(kept.GetLabels()[farm.LabelUser], failedUsers) {
		text = "entrypoint: looking for the user of this workspace\nentrypoint: no user of this uid\n"
	}
	return io.NopCloser(strings.NewReader(text)), nil
}
