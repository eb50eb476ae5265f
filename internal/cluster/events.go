package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"config-server/internal/farm"
)

// maxWarnings is how many events are told of a pod.
const maxWarnings = 5

// LastWarnings are the pod's last warning events, oldest first, as "reason: message" with the
// number of repetitions. They are best effort: the right to read events may be missing.
func (c *Cluster) LastWarnings(ctx context.Context, pod farm.Pod) ([]string, error) {
	events, err := c.eventsOf(ctx, pod, corev1.EventTypeWarning, c.call)
	if err != nil {
		return nil, err
	}
	var told []string
	for _, event := range events[max(0, len(events)-maxWarnings):] {
		text := reasoned(event.Reason, event.Message)
		if count := repeated(event); count > 1 {
			text += fmt.Sprintf(" (%d times)", count)
		}
		told = append(told, text)
	}
	return told, nil
}

// caller is call or callNow.
type caller func(ctx context.Context, operation string, f func(ctx context.Context) error) error

// eventsOf lists a pod's events of a type (empty = of all), oldest first.
func (c *Cluster) eventsOf(ctx context.Context, pod farm.Pod, kind string, call caller) ([]corev1.Event, error) {
	selector := fields.Set{"involvedObject.name": string(pod.Name), "involvedObject.uid": pod.UID}
	if kind != "" {
		selector["type"] = kind
	}
	var events []corev1.Event
	err := call(ctx, fmt.Sprintf("list events of pod %s", pod.Name), func(ctx context.Context) error {
		list, err := c.client.CoreV1().Events(c.namespace).List(ctx, metav1.ListOptions{FieldSelector: selector.String()})
		if err != nil {
			return err
		}
		events = list.Items
		return nil
	})
	// Their names end in the time of their making, so those of one second stay in their order.
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return happened(a).Compare(happened(b)) })
	return events, err
}

// happened is an event's last time: the two generations of the API keep it in different fields.
func happened(event corev1.Event) time.Time {
	switch {
	case event.Series != nil:
		return event.Series.LastObservedTime.Time
	case !event.LastTimestamp.IsZero():
		return event.LastTimestamp.Time
	case !event.EventTime.IsZero():
		return event.EventTime.Time
	default:
		return event.CreationTimestamp.Time
	}
}

func repeated(event corev1.Event) int32 {
	if event.Series != nil {
		return event.Series.Count
	}
	return event.Count
}
