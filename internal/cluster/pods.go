package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"config-server/internal/farm"
)

// guests selects the pods that this service made.
var guests = labels.Set{farm.LabelApp: farm.AppGuest}

var onePod = metav1.ListOptions{Limit: 1}

func watchPods(client kubernetes.Interface, namespace string, log *slog.Logger) *watched {
	selected := func(opts metav1.ListOptions) metav1.ListOptions {
		opts.LabelSelector = guests.String()
		return opts
	}
	from := source{
		list: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Pods(namespace).List(ctx, selected(opts))
		},
		watch: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods(namespace).Watch(ctx, selected(opts))
		},
	}
	slim := func(object any) (any, error) {
		if pod, ok := object.(*corev1.Pod); ok {
			return slimPod(pod), nil
		}
		return object, nil
	}
	return newWatched("pods", client, log, &corev1.Pod{}, from, slim, nil)
}

// slimPod keeps what waits judge and tell, and what KnownPods lists. A pod that is Ready and stays has only that to say, and
// most pods of a farm are so.
func slimPod(pod *corev1.Pod) *corev1.Pod {
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
			Labels: map[string]string{farm.LabelUser: string(userOf(pod))},
		},
		Spec:   corev1.PodSpec{RestartPolicy: pod.Spec.RestartPolicy, NodeName: pod.Spec.NodeName},
		Status: pod.Status,
	}
	for _, volume := range pod.Spec.Volumes {
		if _, is := gpuIndex(volume); is {
			kept.Spec.Volumes = append(kept.Spec.Volumes, corev1.Volume{Name: volume.Name})
		}
	}
	for _, key := range []string{farm.AnnotationGPU, farm.AnnotationImage} {
		if value := pod.Annotations[key]; value != "" {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	if kept.Annotations[farm.AnnotationGPU] != "" {
		kept.Spec.Affinity = pod.Spec.Affinity
	}
	if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && isReady(pod) {
		kept.Status = corev1.PodStatus{Phase: pod.Status.Phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		for _, c := range pod.Spec.Containers {
			if limits := gpuLimits(c); limits != nil || c.Name == farm.ContainerName {
				kept.Spec.Containers = append(kept.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image, Resources: corev1.ResourceRequirements{Limits: limits}})
			}
		}
		return kept
	}
	kept.Spec.InitContainers, kept.Spec.Containers = slimContainers(pod.Spec.InitContainers), slimContainers(pod.Spec.Containers)
	return kept
}

// slimContainers keeps what tells a container that waits or has ended from one that never runs, and the
// GPUs that it asks for.
func slimContainers(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for _, c := range containers {
		kept = append(kept, corev1.Container{
			Name: c.Name, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules,
			Resources: corev1.ResourceRequirements{Limits: gpuLimits(c)},
		})
	}
	return kept
}

// Pod looks a pod up on the API server, whoever made it. The second result is false if there is
// none.
func (c *Cluster) Pod(ctx context.Context, name farm.PodName) (farm.Pod, bool, error) {
	pod, err := c.getPod(ctx, name)
	if apierrors.IsNotFound(err) {
		return farm.Pod{}, false, nil
	}
	if err != nil {
		return farm.Pod{}, false, err
	}
	return podOf(pod), true, nil
}

func (c *Cluster) getPod(ctx context.Context, name farm.PodName) (pod *corev1.Pod, err error) {
	err = c.call(ctx, fmt.Sprintf("get pod %s", name), func(ctx context.Context) error {
		pod, err = c.client.CoreV1().Pods(c.namespace).Get(ctx, string(name), metav1.GetOptions{})
		return err
	})
	return pod, err
}

// PodsOf lists the workspace pods of a user, as the API server has them.
func (c *Cluster) PodsOf(ctx context.Context, user farm.UserName) ([]farm.Pod, error) {
	selector := labels.Set{farm.LabelApp: farm.AppGuest, farm.LabelUser: string(user)}
	return c.listPods(ctx, fmt.Sprintf("list pods of user %s", user), selector)
}

// Pods lists the workspace pods of the namespace, as the API server has them.
func (c *Cluster) Pods(ctx context.Context) ([]farm.Pod, error) {
	return c.listPods(ctx, "list pods", guests)
}

// KnownPods lists the workspace pods of the namespace as the watch has them, in no order and without
// AccountSecret. While the watch is broken or not yet there they come from the API server.
func (c *Cluster) KnownPods(ctx context.Context) ([]farm.Pod, error) {
	if c.setupErr != nil || !c.pods.fresh() {
		return c.Pods(ctx)
	}
	objects := c.pods.informer.GetStore().List()
	pods := make([]farm.Pod, 0, len(objects))
	for _, object := range objects {
		pod := podOf(object.(*corev1.Pod))
		pod.Guest = true // nothing else is watched
		pods = append(pods, pod)
	}
	return pods, nil
}

func (c *Cluster) listPods(ctx context.Context, operation string, selector labels.Set) ([]farm.Pod, error) {
	list := func(ctx context.Context, opts metav1.ListOptions) ([]corev1.Pod, string, error) {
		page, err := c.client.CoreV1().Pods(c.namespace).List(ctx, opts)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.Continue, nil
	}
	return listAll(ctx, c, operation, metav1.ListOptions{LabelSelector: selector.String()}, list, podOf)
}

// CreatePod sends a pod. The error wraps farm.ErrExists if there is one of that name. After any
// other error, a time-out above all, the pod may exist all the same: whoever called looks it up by
// name and label and deletes it by UID.
func (c *Cluster) CreatePod(ctx context.Context, pod *corev1.Pod) (farm.Pod, error) {
	var created farm.Pod
	err := c.call(ctx, "create pod "+pod.Name, func(ctx context.Context) error {
		answer, err := c.client.CoreV1().Pods(c.namespace).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%w: %w", farm.ErrExists, apiError(err))
		}
		if err != nil {
			return err
		}
		created = podOf(answer)
		return nil
	})
	return created, err
}

// DeletePod asks for the deletion of the pod with this name and UID, which the API server compares: a
// pod that has the name by now stays. Without a UID nothing is asked and there is an error. It
// reports whether there was one: false if it is gone already or the name belongs to another pod.
// The pod ends on its own time; WaitGone waits for that.
func (c *Cluster) DeletePod(ctx context.Context, name farm.PodName, uid string) (bool, error) {
	existed := false
	if uid == "" {
		return false, fmt.Errorf("delete pod %s: its UID is not known", name)
	}
	err := c.call(ctx, fmt.Sprintf("delete pod %s", name), func(ctx context.Context) error {
		pods := c.client.CoreV1().Pods(c.namespace)
		err := pods.Delete(ctx, string(name), onlyUID(uid))
		if apierrors.IsConflict(err) {
			err = notOurs(err, uid, func() (metav1.Object, error) {
				return pods.Get(ctx, string(name), metav1.GetOptions{})
			})
			if err == nil {
				return nil
			}
		}
		existed = err == nil
		return ignoreNotFound(err)
	})
	return existed, err
}

// onlyUID makes a deletion reach the object that was seen and no later one of the same name.
func onlyUID(uid string) metav1.DeleteOptions {
	if uid == "" {
		return metav1.DeleteOptions{}
	}
	id := types.UID(uid)
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &id}}
}

// notOurs returns nil if the conflict of a deletion means that the name belongs to another object
// by now, and the conflict if it means something else.
func notOurs(conflict error, uid string, get func() (metav1.Object, error)) error {
	object, err := get()
	if err != nil {
		return ignoreNotFound(err)
	}
	if string(object.GetUID()) != uid {
		return nil
	}
	return conflict
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func podOf(pod *corev1.Pod) farm.Pod {
	p := farm.Pod{
		Name:        farm.PodName(pod.Name),
		UID:         string(pod.UID),
		User:        userOf(pod),
		Node:        placedOn(pod),
		Guest:       pod.Labels[farm.LabelApp] == farm.AppGuest,
		Phase:       string(pod.Status.Phase),
		Ready:       isReady(pod),
		Terminating: pod.DeletionTimestamp != nil,
		CreatedAt:   pod.CreationTimestamp.Time,

		AccountSecret: accountSecretOf(pod),
		GPUOption:     pod.Annotations[farm.AnnotationGPU],
		PinnedImage:   pod.Annotations[farm.AnnotationImage],
	}
	var indexes []int
	for _, volume := range pod.Spec.Volumes {
		if index, is := gpuIndex(volume); is {
			indexes = append(indexes, index)
			p.GPUs++
		}
	}
	p.GPUIndexes = farm.NewGPUSet(indexes...)
	for _, container := range pod.Spec.Containers {
		for _, n := range gpuLimits(container) {
			p.GPUs += int(n.Value())
		}
		if container.Name == farm.ContainerName {
			p.Image = container.Image
		}
	}
	return p
}

// gpuIndex knows the volume of one GPU's device file, nvidia0 and so on, from those of the driver's
// control files, and tells the GPU's index.
func gpuIndex(volume corev1.Volume) (int, bool) {
	number, found := strings.CutPrefix(volume.Name, "nvidia")
	index, err := strconv.ParseUint(number, 10, 8)
	return int(index), found && err == nil
}

// gpuLimits are the GPUs that a container asks for as resources; nil = none.
func gpuLimits(container corev1.Container) corev1.ResourceList {
	var gpus corev1.ResourceList
	for name, quantity := range container.Resources.Limits {
		if farm.GPUDriver(string(name)) == "" {
			continue
		}
		if gpus == nil {
			gpus = corev1.ResourceList{}
		}
		gpus[name] = quantity
	}
	return gpus
}

// placedOn is the node of a pod: the one that it is bound to, or while the scheduler has not bound it
// yet the one that it is made for.
func placedOn(pod *corev1.Pod) farm.NodeName {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return farm.NodeName(pod.Spec.NodeName)
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return farm.NodeName(field.Values[0])
			}
		}
	}
	return ""
}

// userOf reads whose object it is: never from its name, which has lost the user's '_'.
func userOf(object metav1.Object) farm.UserName {
	if user := object.GetLabels()[farm.LabelUser]; user != "" {
		return farm.UserName(user)
	}
	return farm.UserName(object.GetAnnotations()[farm.AnnotationUser])
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
