package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// maxText bounds a message of kubelet inside an error, in characters.
const maxText = 500

// verdict on a pod: Ready, never Ready (with kubelet's words and the reason), or neither yet.
type verdict struct {
	ready  bool
	never  string
	reason farm.ReadyReason
}

// final are the reasons of a waiting container after which kubelet may try again but nothing
// changes by itself: an image that must be there and is not, or a configuration that it refuses.
var final = map[string]farm.ReadyReason{
	"ErrImageNeverPull":          farm.ReadyImageNeverPull,
	"InvalidImageName":           farm.ReadyImagePull,
	"CreateContainerConfigError": farm.ReadyConfigError,
	"CreateContainerError":       farm.ReadyCreateError,
	"RunContainerError":          farm.ReadyRunError,
	"PreCreateHookError":         farm.ReadyCreateError,
	"PreStartHookError":          farm.ReadyRunError,
	"PostStartHookError":         farm.ReadyRunError,
}

// pullAgain are the reasons of a waiting container whose image could not be pulled yet.
var pullAgain = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "RegistryUnavailable": true, "ImageInspectError": true, "SignatureValidationFailed": true,
}

// judgeReady tells what a pod's state means for somebody who waits for it; nil is a pod that is
// gone.
func judgeReady(pod *corev1.Pod) verdict {
	switch {
	case pod == nil:
		return verdict{never: "the pod was deleted or replaced", reason: farm.ReadyDeleted}
	case pod.DeletionTimestamp != nil:
		return verdict{never: "the pod is being deleted", reason: farm.ReadyDeleted}
	case pod.Status.Phase == corev1.PodFailed:
		return verdict{never: "the pod has failed" + whyEnded(pod), reason: failedReason(pod)}
	case pod.Status.Phase == corev1.PodSucceeded:
		return verdict{never: "the pod has ended" + whyEnded(pod), reason: farm.ReadyExited}
	case isReady(pod):
		return verdict{ready: true}
	}
	for _, status := range containerStatuses(pod) {
		if waiting := status.State.Waiting; waiting != nil && cannotStart(pod, status.Name, waiting) {
			reason := farm.ReadyImagePull
			if known, ok := final[waiting.Reason]; ok {
				reason = known
			}
			return verdict{never: fmt.Sprintf("container %s: %s", status.Name, reasoned(waiting.Reason, waiting.Message)), reason: reason}
		}
	}
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		for _, status := range containerStatuses(pod) {
			if status.State.Terminated != nil && !isDone(pod, status) && !isRestarted(pod, status) {
				return verdict{never: ended(status), reason: farm.ReadyExited}
			}
		}
	}
	return verdict{}
}

// cannotStart tells whether waiting longer is of no use. A pull that failed is tried again by
// kubelet and may succeed, unless pulling is forbidden or the registry has said that the image
// does not exist or is not for us.
func cannotStart(pod *corev1.Pod, container string, waiting *corev1.ContainerStateWaiting) bool {
	if _, known := final[waiting.Reason]; known {
		return true
	}
	if !pullAgain[waiting.Reason] {
		return false
	}
	return pullPolicy(pod, container) == corev1.PullNever || refusedByRegistry(waiting.Message)
}

// failedReason tells a pod that kubelet refused or evicted, which has a reason of its own, from one
// whose container ended.
func failedReason(pod *corev1.Pod) farm.ReadyReason {
	if pod.Status.Reason != "" {
		return farm.ReadyRejected
	}
	return farm.ReadyExited
}

// slowReason is the reason of a pod that is not Ready in time, from how far it is and from its
// warning events, the last of which counts first.
func slowReason(pod *corev1.Pod, warnings []string) farm.ReadyReason {
	if pod == nil {
		return farm.ReadyTimeout
	}
	for _, status := range containerStatuses(pod) {
		switch waiting := status.State.Waiting; {
		case waiting == nil:
		case pullAgain[waiting.Reason]:
			return farm.ReadyImagePull
		case waiting.Reason == "CrashLoopBackOff":
			return farm.ReadyExited
		}
		if status.State.Terminated != nil && !isDone(pod, status) {
			return farm.ReadyExited
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return farm.ReadyUnschedulable
		}
	}
	for _, warning := range slices.Backward(warnings) {
		reason, _, _ := strings.Cut(warning, ":")
		switch reason {
		case "FailedMount", "FailedAttachVolume", "FailedMapVolume":
			return farm.ReadyMount
		case "FailedCreatePodSandBox":
			return farm.ReadyCreateError
		}
	}
	return farm.ReadyTimeout
}

func refusedByRegistry(message string) bool {
	message = strings.ToLower(message)
	for _, words := range []string{
		"not found", "manifest unknown", "name unknown", "pull access denied",
		"unauthorized", "authorization failed", "insufficient_scope", "403 forbidden",
	} {
		if strings.Contains(message, words) {
			return true
		}
	}
	return false
}

func pullPolicy(pod *corev1.Pod, container string) corev1.PullPolicy {
	found, _ := containerOf(pod, container)
	return found.ImagePullPolicy
}

// containerOf finds a container and tells whether it is an init container.
func containerOf(pod *corev1.Pod, name string) (found corev1.Container, initial bool) {
	for _, c := range pod.Spec.InitContainers {
		if c.Name == name {
			return c, true
		}
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == name {
			return c, false
		}
	}
	return corev1.Container{}, false
}

// isDone tells an init container that has done its work.
func isDone(pod *corev1.Pod, status corev1.ContainerStatus) bool {
	_, initial := containerOf(pod, status.Name)
	return initial && status.State.Terminated.ExitCode == 0
}

// isRestarted tells a container that kubelet starts again whatever the pod says, as sidecars among
// the init containers.
func isRestarted(pod *corev1.Pod, status corev1.ContainerStatus) bool {
	found, _ := containerOf(pod, status.Name)
	return found.RestartPolicy != nil && *found.RestartPolicy != corev1.ContainerRestartPolicyNever || len(found.RestartPolicyRules) > 0
}

func containerStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
}

// whyEnded is the pod's own reason and the ends of its containers.
func whyEnded(pod *corev1.Pod) string {
	var parts []string
	if pod.Status.Reason != "" || pod.Status.Message != "" {
		parts = append(parts, reasoned(pod.Status.Reason, pod.Status.Message))
	}
	for _, status := range containerStatuses(pod) {
		if status.State.Terminated != nil {
			parts = append(parts, ended(status))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, "; ")
}

func ended(status corev1.ContainerStatus) string {
	t := status.State.Terminated
	text := fmt.Sprintf("container %s ended with status %d", status.Name, t.ExitCode)
	if t.Signal != 0 {
		text += fmt.Sprintf(" (signal %d)", t.Signal)
	}
	if t.Reason != "" || t.Message != "" {
		text += ": " + reasoned(t.Reason, t.Message)
	}
	return text
}

// describe tells how far a pod is, for a wait that ends without a verdict.
func describe(pod *corev1.Pod) string {
	if pod == nil {
		return "nothing was seen of the pod"
	}
	parts := []string{"phase " + string(pod.Status.Phase)}
	if pod.DeletionTimestamp != nil {
		parts = append(parts, "being deleted")
	}
	if pod.Status.Reason != "" || pod.Status.Message != "" {
		parts = append(parts, reasoned(pod.Status.Reason, pod.Status.Message))
	}
	waiting := false
	for _, status := range containerStatuses(pod) {
		if w := status.State.Waiting; w != nil {
			waiting = true
			parts = append(parts, fmt.Sprintf("container %s waits: %s", status.Name, reasoned(w.Reason, w.Message)))
		}
	}
	for _, condition := range pod.Status.Conditions {
		// While a container waits, the conditions only repeat that it is not ready.
		if condition.Status == corev1.ConditionTrue || waiting && condition.Type != corev1.PodScheduled {
			continue
		}
		if condition.Reason != "" || condition.Message != "" {
			parts = append(parts, fmt.Sprintf("not %s: %s", condition.Type, reasoned(condition.Reason, condition.Message)))
		}
	}
	return strings.Join(parts, "; ")
}

// reasoned joins kubelet's reason and message on one bounded line.
func reasoned(reason, message string) string {
	message = farm.CutText(strings.Join(strings.Fields(message), " "), maxText)
	switch {
	case reason == "":
		return message
	case message == "":
		return reason
	default:
		return reason + ": " + message
	}
}
