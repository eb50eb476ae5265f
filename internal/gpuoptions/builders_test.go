package gpuoptions

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

// list makes a list of resources from name, amount, name, amount ...
func list(pairs ...string) corev1.ResourceList {
	all := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		all[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return all
}

func node(name string, allocatable corev1.ResourceList, labels ...string) corev1.Node {
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Status: corev1.NodeStatus{Allocatable: allocatable},
	}
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

func cordoned(n corev1.Node) corev1.Node {
	n.Spec.Unschedulable = true
	return n
}

func pod(node string, limits corev1.ResourceList) corev1.Pod {
	return corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
		Name: "shell", Resources: corev1.ResourceRequirements{Requests: limits, Limits: limits},
	}}}}
}

func template(name, driver string, change func(*corev1.PodSpec)) corev1.PodTemplate {
	t := corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{DefaultLabel: driver}},
		Template:   corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shell", Image: "unused"}}}},
	}
	if change != nil {
		change(&t.Template.Spec)
	}
	return t
}

func class(name, resource string) resourcev1.DeviceClass {
	c := resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if resource != "" {
		c.Spec.ExtendedResourceName = &resource
	}
	return c
}

// brief is an option as tests compare it: ID driver resource model source free/total.
func brief(o farm.GPUOption) string {
	return fmt.Sprintf("%s %s %s %s %s %d/%d", o.ID, o.Driver, orDash(o.Resource), orDash(o.Model), o.Source, o.Free, o.Total)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func briefs(t *testing.T, options []farm.GPUOption) []string {
	t.Helper()
	var all []string
	for _, option := range options {
		all = append(all, brief(option))
	}
	return all
}
