package gpuoptions

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"config-server/internal/farm"
)

// Shape is what quotas ask of a workspace's pod.
type Shape struct {
	// PriorityClass is the pod's priorityClassName; empty = none.
	PriorityClass string
	// Deadline says that the pod has activeDeadlineSeconds.
	Deadline bool
}

// ShapeOf reads the shape of a pod, or of a template's share in one.
func ShapeOf(spec corev1.PodSpec) Shape {
	return Shape{PriorityClass: spec.PriorityClassName, Deadline: spec.ActiveDeadlineSeconds != nil}
}

// under lays a template over a shape, as the template's layer lies over the session's.
func (s Shape) under(spec corev1.PodSpec) Shape {
	over := ShapeOf(spec)
	if over.PriorityClass == "" {
		over.PriorityClass = s.PriorityClass
	}
	over.Deadline = over.Deadline || s.Deadline
	return over
}

// applies tells whether a quota counts pods of this shape: each of its scopes has to match.
func applies(quota *corev1.ResourceQuota, shape Shape) bool {
	for _, scope := range quota.Spec.Scopes {
		if !matches(corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}, shape) {
			return false
		}
	}
	if selector := quota.Spec.ScopeSelector; selector != nil {
		for _, requirement := range selector.MatchExpressions {
			if !matches(requirement, shape) {
				return false
			}
		}
	}
	return true
}

// matches judges one scope. A workspace always has requests, so that it is no best effort. Only
// PriorityClass has operators; the other scopes are there or not. A scope that is not named here
// is one of other things than workspaces.
func matches(requirement corev1.ScopedResourceSelectorRequirement, shape Shape) bool {
	switch requirement.ScopeName {
	case corev1.ResourceQuotaScopeNotBestEffort:
		return true
	case corev1.ResourceQuotaScopeTerminating:
		return shape.Deadline
	case corev1.ResourceQuotaScopeNotTerminating:
		return !shape.Deadline
	case corev1.ResourceQuotaScopePriorityClass:
		return matchesPriority(requirement, shape.PriorityClass)
	}
	return false
}

// matchesPriority reads the operators as label selectors do: a class that is not there is in no list
// of values.
func matchesPriority(requirement corev1.ScopedResourceSelectorRequirement, class string) bool {
	switch requirement.Operator {
	case corev1.ScopeSelectorOpExists:
		return class != ""
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	case corev1.ScopeSelectorOpIn:
		return class != "" && slices.Contains(requirement.Values, class)
	case corev1.ScopeSelectorOpNotIn:
		return class == "" || !slices.Contains(requirement.Values, class)
	}
	return false
}

// hardOf is what a quota enforces, or what it is to enforce while nobody has taken note of it yet.
func hardOf(quota *corev1.ResourceQuota) corev1.ResourceList {
	if len(quota.Status.Hard) > 0 {
		return quota.Status.Hard
	}
	return quota.Spec.Hard
}

// quotaKey strips what a quota puts before a resource's name.
func quotaKey(name corev1.ResourceName) string {
	for _, prefix := range []string{"requests.", "limits."} {
		if bare, ok := strings.CutPrefix(string(name), prefix); ok {
			return bare
		}
	}
	return string(name)
}

// allowance is what the quotas that apply to a shape leave of each GPU resource that they name: the
// smallest of their values.
func allowance(quotas []corev1.ResourceQuota, shape Shape) map[string]farm.GPURoom {
	left := map[string]farm.GPURoom{}
	for i := range quotas {
		quota := &quotas[i]
		if !applies(quota, shape) {
			continue
		}
		for name, hard := range hardOf(quota) {
			resource := quotaKey(name)
			if _, gpu := familyOf(resource); !gpu {
				continue
			}
			here := farm.GPURoom{Total: wholes(hard), Free: max(0, wholes(hard)-wholes(quota.Status.Used[name]))}
			if there, named := left[resource]; named {
				here = farm.GPURoom{Total: min(here.Total, there.Total), Free: min(here.Free, there.Free)}
			}
			left[resource] = here
		}
	}
	return left
}

// wholes is the number of whole devices in a quantity, none if it is negative. Nobody can have a part
// of one.
func wholes(quantity resource.Quantity) int64 {
	whole := quantity.Value()
	if quantity.Cmp(*resource.NewQuantity(whole, resource.DecimalSI)) < 0 {
		whole-- // Value rounds up
	}
	return max(0, whole)
}

// capped tells that a quota lets nobody have any of the resource.
func capped(left map[string]farm.GPURoom, resource string) bool {
	there, named := left[resource]
	return named && there.Total == 0
}

// cappedAny tells that a quota lets nobody have any of one of the resources.
func cappedAny(left map[string]farm.GPURoom, asked amounts) bool {
	for resource := range asked {
		if capped(left, resource) {
			return true
		}
	}
	return false
}

// quotaOptions are the GPU resources that the quotas name with a value above zero.
func quotaOptions(left map[string]farm.GPURoom) []farm.GPUOption {
	var options []farm.GPUOption
	for resource, there := range left {
		if there.Total == 0 {
			continue
		}
		option := detected(resource, "", "", farm.GPUFromQuota)
		option.Free, option.Total = there.Free, there.Total
		options = append(options, option)
	}
	return sorted(options)
}
