package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

// TestGPUOptionsOfPods reads pods that were made with a GPU option, as the API server has them and as the watch
// keeps them.
func TestGPUOptionsOfPods(t *testing.T) {
	t.Parallel()
	pinned := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	on := func(key string, operator corev1.NodeSelectorOperator, nodes ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: nodes}}}
	}
	asks := func(pairs ...string) []corev1.Container {
		limits := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			limits[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return []corev1.Container{{Name: farm.ContainerName, Resources: corev1.ResourceRequirements{Limits: limits}}}
	}
	running := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for name, tc := range map[string]struct {
		spec   corev1.PodSpec
		status corev1.PodStatus
		node   farm.NodeName
		gpus   int
	}{
		"made for a node, not bound": {
			corev1.PodSpec{Affinity: pinned(on("metadata.name", corev1.NodeSelectorOpIn, "farm6")), Containers: asks("nvidia.com/gpu", "2", "cpu", "4")},
			corev1.PodStatus{Phase: corev1.PodPending}, "farm6", 2,
		},
		"bound": {
			corev1.PodSpec{NodeName: "farm7", Affinity: pinned(on("metadata.name", corev1.NodeSelectorOpIn, "farm6")), Containers: asks("amd.com/gpu", "1")},
			running, "farm7", 1,
		},
		"made for a node among the terms of a template": {
			corev1.PodSpec{Affinity: pinned(corev1.NodeSelectorTerm{}, on("metadata.name", corev1.NodeSelectorOpIn, "farm6")), Containers: asks()},
			running, "farm6", 0,
		},
		"left to the scheduler": {corev1.PodSpec{Containers: asks("nvidia.com/mig-1g.10gb", "1")}, running, "", 1},
		"an affinity of pods alone": {
			corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}, Containers: asks()}, running, "", 0,
		},
		"a preference is no place":      {corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}, Containers: asks()}, running, "", 0},
		"another field, several values": {corev1.PodSpec{Affinity: pinned(on("metadata.name", corev1.NodeSelectorOpIn, "a", "b")), Containers: asks()}, running, "", 0},
		"everywhere but there":          {corev1.PodSpec{Affinity: pinned(on("metadata.name", corev1.NodeSelectorOpNotIn, "a")), Containers: asks()}, running, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{farm.AnnotationGPU: "an-option", "other": "x"}},
				Spec:       tc.spec, Status: tc.status,
			}
			for how, got := range map[string]farm.Pod{"live": podOf(pod), "watched": podOf(slimPod(pod))} {
				if got.Node != tc.node || got.GPUs != tc.gpus || got.GPUOption != "an-option" {
					t.Errorf("%s: node %q, %d GPUs, option %q, want %q, %d", how, got.Node, got.GPUs, got.GPUOption, tc.node, tc.gpus)
				}
			}
			if slim := slimPod(pod); len(slim.Annotations) != 1 {
				t.Errorf("kept annotations %v", slim.Annotations)
			}
		})
	}
}

func TestAssignmentOfPods(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "farm5"}, Status: corev1.PodStatus{Phase: corev1.PodFailed}}
	for _, name := range []string{"nfs-home", "nvidia3", "nvidia12", "nvidia0", "nvidiactl", "nvidiauvm", "nvidia255", "nvidia256", "nvidia-1", "xnvidia7"} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name})
	}
	for how, got := range map[string]farm.Pod{"live": podOf(pod), "watched": podOf(slimPod(pod))} {
		if got.GPUIndexes != farm.NewGPUSet(0, 3, 12) || !got.Ended() {
			t.Errorf("%s: GPUs %s, ended %v", how, got.GPUIndexes, got.Ended())
		}
	}
	pod.Status.Phase = corev1.PodPending
	if podOf(pod).Ended() {
		t.Error("a pod that waits has ended")
	}
}
