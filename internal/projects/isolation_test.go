package projects_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/projects"
)

func TestCheckIsolationOfNodes(t *testing.T) {
	t.Parallel()
	keys := projects.DefaultKeys()
	foreign := corev1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}
	neighbour := corev1.Taint{Key: "project-name.aipub.ten1010.io.x/vision", Effect: corev1.TaintEffectNoExecute}
	of := func(project string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: keys.OfNode(project), Effect: effect}
	}
	one := map[string]string{keys.OfNode("vision"): "", "other": "x"}
	two := map[string]string{keys.OfNode("vision"): "", keys.OfNode("audio"): ""}
	for name, tc := range map[string]struct {
		has    []corev1.Taint
		labels map[string]string
		mode   projects.Isolation
		want   []corev1.Taint
	}{
		"off":     {[]corev1.Taint{foreign}, one, projects.IsolationOff, []corev1.Taint{foreign}},
		"label":   {nil, one, projects.IsolationLabel, nil},
		"lenient": {[]corev1.Taint{foreign}, one, projects.IsolationLenient, []corev1.Taint{foreign, of("vision", corev1.TaintEffectNoSchedule)}},
		"strict": {nil, one, projects.IsolationStrict,
			[]corev1.Taint{of("vision", corev1.TaintEffectNoSchedule), of("vision", corev1.TaintEffectNoExecute)}},
		"strict, two projects: nobody's workspaces end": {nil, two, projects.IsolationStrict,
			[]corev1.Taint{of("audio", corev1.TaintEffectNoSchedule), of("vision", corev1.TaintEffectNoSchedule)}},
		"strict, no project": {[]corev1.Taint{of("vision", corev1.TaintEffectNoExecute), neighbour}, map[string]string{"other": "x"}, projects.IsolationStrict,
			[]corev1.Taint{neighbour}},
		"switched off again": {[]corev1.Taint{of("vision", corev1.TaintEffectNoExecute), foreign}, one, projects.IsolationOff, []corev1.Taint{foreign}},
		"another project now": {[]corev1.Taint{of("audio", corev1.TaintEffectNoSchedule)}, one, projects.IsolationLenient,
			[]corev1.Taint{of("vision", corev1.TaintEffectNoSchedule)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := projects.Taints(tc.has, tc.labels, tc.mode, keys)
			if diff := cmp.Diff(tc.want, got); diff != "" && len(tc.want)+len(got) > 0 {
				t.Errorf("taints (-want +got)\n%s", diff)
			}
			if again := projects.Taints(got, tc.labels, tc.mode, keys); !projects.SameTaints(again, got) {
				t.Errorf("a second time: %v", again)
			}
		})
	}
}

func TestCheckIsolationTolerations(t *testing.T) {
	t.Parallel()
	keys := projects.DefaultKeys()
	tolerates := func(project string) corev1.Toleration {
		return corev1.Toleration{Key: keys.OfNode(project), Operator: corev1.TolerationOpExists}
	}
	for mode, want := range map[projects.Isolation][]corev1.Toleration{
		projects.IsolationOff: nil, projects.IsolationLabel: nil,
		projects.IsolationLenient: {tolerates("audio"), tolerates("vision")}, projects.IsolationStrict: {tolerates("audio"), tolerates("vision")},
	} {
		if diff := cmp.Diff(want, projects.Tolerations([]string{"vision", "audio", "vision"}, mode, keys)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", mode, diff)
		}
	}
}

func TestCheckIsolationSameTaints(t *testing.T) {
	t.Parallel()
	a, b := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoExecute}, corev1.Taint{Key: "b", Value: "x", Effect: corev1.TaintEffectNoSchedule}
	other := b
	other.Value = "y"
	if !projects.SameTaints([]corev1.Taint{a, b}, []corev1.Taint{b, a}) {
		t.Error("another order is another list")
	}
	if projects.SameTaints([]corev1.Taint{a, b}, []corev1.Taint{a, other}) || projects.SameTaints([]corev1.Taint{a}, []corev1.Taint{a, a}) {
		t.Error("different taints are the same")
	}
}
