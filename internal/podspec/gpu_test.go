package podspec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/podspec"
)

// detectedGPU is an option of nodes with one model.
func detectedGPU(driver, resource, label, model string) *farm.GPUOption {
	option := &farm.GPUOption{ID: resource, Driver: driver, Resource: resource, Source: farm.GPUFromNodes}
	if model != "" {
		option.ID, option.ModelLabel, option.Model = resource+"/"+model, label, model
	}
	return option
}

// withGPU builds the recorded pod with an option on a node, with the default runtime class.
func withGPU(t *testing.T, option *farm.GPUOption, changes ...func(*podspec.Input)) *corev1.Pod {
	t.Helper()
	in := recorded(append([]func(*podspec.Input){func(in *podspec.Input) {
		in.GPU, in.Settings.RuntimeClass = option, "nvidia"
	}}, changes...)...)
	pod, err := podspec.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestGPUOptionsPod(t *testing.T) {
	t.Parallel()
	const model = "nvidia.com/gpu.product"
	byTemplate := &farm.GPUOption{ID: "l40s", Driver: "nvidia", Resource: "nvidia.com/gpu", Model: "L40S", ModelLabel: model, Template: "l40s"}
	pinned := []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"farm6"}}}
	for name, tc := range map[string]struct {
		option       *farm.GPUOption
		change       func(*podspec.Input)
		limits       map[string]string // of GPUs
		tolerations  []string
		placement    []corev1.NodeSelectorTerm
		capabilities string
		runtimeClass string
	}{
		"NVIDIA, a model": {
			option: detectedGPU("nvidia", "nvidia.com/gpu", model, "L40S"),
			limits: map[string]string{"nvidia.com/gpu": "2"}, tolerations: []string{"nvidia.com/gpu"},
			placement: []corev1.NodeSelectorTerm{{
				MatchFields:      pinned,
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: model, Operator: corev1.NodeSelectorOpIn, Values: []string{"L40S"}}},
			}},
			capabilities: "all", runtimeClass: "nvidia",
		},
		"NVIDIA, a slice": {
			option: detectedGPU("nvidia", "nvidia.com/mig-1g.10gb", "", ""),
			limits: map[string]string{"nvidia.com/mig-1g.10gb": "2"}, tolerations: []string{"nvidia.com/mig-1g.10gb", "nvidia.com/gpu"},
			placement: []corev1.NodeSelectorTerm{{MatchFields: pinned}}, capabilities: "all", runtimeClass: "nvidia",
		},
		"NVIDIA without a runtime class": {
			option: detectedGPU("nvidia", "nvidia.com/gpu", "", ""), change: func(in *podspec.Input) { in.Settings.RuntimeClass = "" },
			limits: map[string]string{"nvidia.com/gpu": "2"}, tolerations: []string{"nvidia.com/gpu"},
			placement: []corev1.NodeSelectorTerm{{MatchFields: pinned}}, capabilities: "all",
		},
		"AMD": {
			option: detectedGPU("amdgpu", "amd.com/gpu", "", ""),
			limits: map[string]string{"amd.com/gpu": "2"}, tolerations: []string{"amd.com/gpu"},
			placement: []corev1.NodeSelectorTerm{{MatchFields: pinned}},
		},
		"num_gpu 0 asks for one": {
			option: detectedGPU("xe", "gpu.intel.com/xe", "", ""), change: func(in *podspec.Input) { in.Config.Nodes[1].NumGPU = 0 },
			limits: map[string]string{"gpu.intel.com/xe": "1"}, tolerations: []string{"gpu.intel.com/xe"},
			placement: []corev1.NodeSelectorTerm{{MatchFields: pinned}},
		},
		"a node without an entry asks for one": {
			option: detectedGPU("xe", "gpu.intel.com/xe", "", ""), change: func(in *podspec.Input) { in.Config.Nodes = nil },
			limits: map[string]string{"gpu.intel.com/xe": "1"}, tolerations: []string{"gpu.intel.com/xe"},
			placement: []corev1.NodeSelectorTerm{{MatchFields: pinned}},
		},
		"a template adds nothing but NVIDIA's own": {
			option: byTemplate, placement: []corev1.NodeSelectorTerm{{MatchFields: pinned}}, capabilities: "all", runtimeClass: "nvidia",
		},
		"a template of another driver adds nothing": {
			option:    &farm.GPUOption{ID: "claim", Driver: "gpu", Template: "claim"},
			placement: []corev1.NodeSelectorTerm{{MatchFields: pinned}},
		},
		"no node known": {
			option: &farm.GPUOption{ID: "claim", Driver: "gpu", Template: "claim"}, change: func(in *podspec.Input) { in.Node = "" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.change == nil {
				tc.change = func(*podspec.Input) {}
			}
			pod := withGPU(t, tc.option, tc.change)
			if pod.Spec.NodeName != "" {
				t.Errorf("spec.nodeName is %q: the scheduler would not see the pod", pod.Spec.NodeName)
			}
			if got := pod.Annotations[farm.AnnotationGPU]; got != tc.option.ID {
				t.Errorf("annotation %q, want %q", got, tc.option.ID)
			}
			for _, volume := range pod.Spec.Volumes {
				if volume.HostPath != nil && strings.HasPrefix(volume.HostPath.Path, "/dev/") {
					t.Errorf("it mounts %s beside the option", volume.HostPath.Path)
				}
			}
			shell := pod.Spec.Containers[0]
			limits := map[string]string{}
			for resource, quantity := range shell.Resources.Limits {
				if farm.GPUDriver(string(resource)) != "" {
					limits[string(resource)] = quantity.String()
				}
			}
			if diff := cmp.Diff(orEmpty(tc.limits), limits); diff != "" {
				t.Errorf("limits (-want +got)\n%s", diff)
			}
			var keys []string
			for _, toleration := range pod.Spec.Tolerations {
				if toleration.Operator != corev1.TolerationOpExists || toleration.Effect != "" || toleration.Value != "" {
					t.Errorf("toleration %+v, want one of the key alone", toleration)
				}
				keys = append(keys, toleration.Key)
			}
			if diff := cmp.Diff(tc.tolerations, keys); diff != "" {
				t.Errorf("tolerations (-want +got)\n%s", diff)
			}
			var placement []corev1.NodeSelectorTerm
			if affinity := pod.Spec.Affinity; affinity != nil {
				placement = affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			}
			if diff := cmp.Diff(tc.placement, placement); diff != "" {
				t.Errorf("placement (-want +got)\n%s", diff)
			}
			capabilities := ""
			for _, variable := range shell.Env {
				if variable.Name == "NVIDIA_DRIVER_CAPABILITIES" {
					capabilities = variable.Value
				}
			}
			if capabilities != tc.capabilities {
				t.Errorf("NVIDIA_DRIVER_CAPABILITIES %q, want %q", capabilities, tc.capabilities)
			}
			class := ""
			if pod.Spec.RuntimeClassName != nil {
				class = *pod.Spec.RuntimeClassName
			}
			if class != tc.runtimeClass {
				t.Errorf("runtimeClassName %q, want %q", class, tc.runtimeClass)
			}
		})
	}
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func TestGPUOptionsPodIsTheUsualOneOtherwise(t *testing.T) {
	t.Parallel()
	usual, err := podspec.Build(recorded(func(in *podspec.Input) {
		for i := range in.Config.Nodes {
			in.Config.Nodes[i].NumGPU = 0
		}
		in.Settings.RuntimeClass = "nvidia"
	}))
	if err != nil {
		t.Fatal(err)
	}
	if usual.Spec.RuntimeClassName != nil || usual.Spec.Affinity != nil || usual.Annotations != nil {
		t.Errorf("a pod without an option has something of one: %+v", usual)
	}
	// Without what an option adds, the pod is the usual one.
	pod := withGPU(t, detectedGPU("nvidia", "nvidia.com/gpu", "", ""))
	shell := &pod.Spec.Containers[0]
	delete(shell.Resources.Limits, "nvidia.com/gpu")
	shell.Env = shell.Env[:len(shell.Env)-1]
	pod.Annotations, pod.Spec.Affinity, pod.Spec.Tolerations, pod.Spec.RuntimeClassName = nil, nil, nil, nil
	pod.Spec.NodeName = "farm6"
	if diff := cmp.Diff(usual, pod); diff != "" {
		t.Errorf("(-without +with an option)\n%s", diff)
	}
}
