package templates_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"config-server/internal/templates"
)

// Templates drawn per property; their seeds are their numbers, so that a failure can be repeated.
const drawn = 50

// differ is the difference of two values, if it means anything: nil and empty are the same.
func differ(a, b any) string {
	if equality.Semantic.DeepEqual(a, b) {
		return ""
	}
	return cmp.Diff(a, b)
}

func mergeAll(t *testing.T, lower corev1.PodTemplateSpec, upper ...corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t.Helper()
	for _, template := range upper {
		merged, err := templates.Merge(lower, template)
		if err != nil {
			t.Fatal(err)
		}
		lower = merged
	}
	return lower
}

// TestTemplatesMergingIsAssociative: it does not matter which layers are merged first, as long as no
// layer replaces one kind of volume, mount or handler by another. Then it matters: only the layer
// above knows what it replaces.
func TestTemplatesMergingIsAssociative(t *testing.T) {
	t.Parallel()
	for seed := range uint64(drawn) {
		g := newGenerator(seed, true)
		a, b, c := templates.Prepare(g.template()), templates.Prepare(g.template()), templates.Prepare(g.template())
		left, right := mergeAll(t, a, b, c), mergeAll(t, a, mergeAll(t, b, c))
		if diff := differ(left, right); diff != "" {
			t.Fatalf("seed %d: (-(a+b)+c +a+(b+c)):\n%s", seed, diff)
		}
	}
}

// TestTemplatesMergingHasANeutralLayer: a layer that says nothing changes nothing, above or below,
// and neither does the same layer twice.
func TestTemplatesMergingHasANeutralLayer(t *testing.T) {
	t.Parallel()
	for seed := range uint64(drawn) {
		a := templates.Prepare(newGenerator(seed, false).template())
		for name, merged := range map[string]corev1.PodTemplateSpec{
			"nothing above": mergeAll(t, a, corev1.PodTemplateSpec{}), "nothing below": mergeAll(t, corev1.PodTemplateSpec{}, a), "itself above": mergeAll(t, a, a),
		} {
			if diff := differ(a, merged); diff != "" {
				t.Fatalf("seed %d: %s (-alone +merged):\n%s", seed, name, diff)
			}
		}
	}
}

// TestTemplatesNothingIsDoubled looks at what the API server refuses, or takes and means otherwise.
func TestTemplatesNothingIsDoubled(t *testing.T) {
	t.Parallel()
	for seed := range uint64(drawn) {
		g := newGenerator(seed, false)
		layers := []templates.Layer{{Template: g.template()}, {Template: g.template()}, {Template: g.template()}}
		pod := apply(t, workspace(t), layers...)
		seen := map[string]bool{}
		once := func(name string) {
			if seen[name] {
				t.Fatalf("seed %d: %s is there twice", seed, name)
			}
			seen[name] = true
		}
		for _, v := range pod.Spec.Volumes {
			once("volume " + v.Name)
		}
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			once("container " + c.Name)
			for _, v := range c.Env {
				once(c.Name + " env " + v.Name)
			}
			for _, m := range c.VolumeMounts {
				once(c.Name + " mount " + m.MountPath)
			}
		}
		ours := workspace(t)
		if diff := cmp.Diff(ours.Spec.Containers[0].Env, shell(t, pod).Env[:len(ours.Spec.Containers[0].Env)]); diff != "" {
			t.Fatalf("seed %d: the service's variables (-want +got):\n%s", seed, diff)
		}
		if diff := cmp.Diff(ours.Spec.Volumes, pod.Spec.Volumes[:len(ours.Spec.Volumes)]); diff != "" {
			t.Fatalf("seed %d: the service's volumes (-want +got):\n%s", seed, diff)
		}
	}
}
