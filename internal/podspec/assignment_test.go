package podspec_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/podspec"
)

func TestAssignmentPod(t *testing.T) {
	t.Parallel()
	assigned := func(indexes ...int) func(*podspec.Input) {
		return func(in *podspec.Input) { in.Assigned = farm.NewGPUSet(indexes...) }
	}
	// In the order of the recorded pod: the GPUs, then what controls them.
	files := func(gpus ...string) []string {
		return append(gpus, "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
	}
	for name, tc := range map[string]struct {
		change  func(*podspec.Input)
		devices []string
		visible string // empty = the variable is not there
	}{
		"none assigned: the first num_gpu": {func(*podspec.Input) {}, files("/dev/nvidia0", "/dev/nvidia1"), ""},
		"assigned, the lowest first":       {assigned(3, 1), files("/dev/nvidia1", "/dev/nvidia3"), "1,3"},
		"one":                              {assigned(12), files("/dev/nvidia12"), "12"},
		"beside an option":                 {func(in *podspec.Input) { assigned(2)(in); in.GPU = detectedGPU("nvidia", "nvidia.com/gpu", "", "") }, nil, ""},
		"no GPU":                           {func(in *podspec.Input) { in.Config.Nodes = nil }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, err := podspec.Build(recorded(tc.change))
			if err != nil {
				t.Fatal(err)
			}
			var devices []string
			for _, volume := range pod.Spec.Volumes {
				if volume.HostPath != nil && *volume.HostPath.Type == corev1.HostPathCharDev {
					devices = append(devices, volume.HostPath.Path)
				}
			}
			var mounts []string
			for _, mount := range pod.Spec.Containers[0].VolumeMounts {
				if slices.Contains(devices, mount.MountPath) {
					mounts = append(mounts, mount.MountPath)
				}
			}
			if diff := cmp.Diff(tc.devices, devices) + cmp.Diff(tc.devices, mounts); diff != "" {
				t.Errorf("device files, and where they are mounted (-want +got)\n%s", diff)
			}
			visible := ""
			for _, v := range pod.Spec.Containers[0].Env {
				if v.Name == "NVIDIA_VISIBLE_DEVICES" {
					visible = v.Value
				}
			}
			if visible != tc.visible {
				t.Errorf("NVIDIA_VISIBLE_DEVICES=%q, want %q", visible, tc.visible)
			}
		})
	}
}

// With GPUs assigned nothing else of the pod is another.
func TestAssignmentChangesNothingElse(t *testing.T) {
	t.Parallel()
	usual, err := podspec.Build(recorded())
	if err != nil {
		t.Fatal(err)
	}
	pod, err := podspec.Build(recorded(func(in *podspec.Input) { in.Assigned = farm.NewGPUSet(0, 1) }))
	if err != nil {
		t.Fatal(err)
	}
	shell := &pod.Spec.Containers[0]
	last := len(shell.Env) - 1
	if shell.Env[last] != (corev1.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: "0,1"}) {
		t.Errorf("the last variable is %+v", shell.Env[last])
	}
	shell.Env = shell.Env[:last]
	if diff := cmp.Diff(usual, pod); diff != "" {
		t.Errorf("pod (-usual +assigned)\n%s", diff)
	}
}
