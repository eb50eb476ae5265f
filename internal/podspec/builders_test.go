package podspec_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/podspec"
)

// recorded is the input of the pod that the golden recording has for user2100; each change makes a
// case of it.
func recorded(changes ...func(*podspec.Input)) podspec.Input {
	in := podspec.Input{
		Settings: podspec.Settings{
			Namespace:  "ailab-infra",
			CPURequest: "1000m", CPULimit: "1000m",
			MemRequest: "1024Mi", MemLimit: "1024Mi",
			ImagePullPolicy: "Never",
			HomeVolume:      podspec.HomeNFS,
			NFSServer:       "192.0.2.30",
			NFSPath:         "/volume1/share/user",
		},
		Pod: "ailab-user2100-0123abcd",
		Account: farm.Account{
			Name: "user2100", UID: 20000, GID: 20000,
			Gecos: "GPU User", Home: "/home/user2100", Shell: "/bin/bash",
		},
		PrimaryGroup: "user2100",
		Groups:       []farm.GroupRef{{Name: "ailab", GID: 20005}},
		Config: farm.UserConfig{
			Image:    "dguailab/decs:1.0",
			GroupIDs: []farm.ID{20005},
			Nodes: []farm.GPUNode{
				{Name: "FARM5", NumGPU: 2, CPULimit: "4000m", MemoryLimit: "8192Mi"},
				{Name: "farm6", NumGPU: 2, CPULimit: "4000m", MemoryLimit: "8192Mi"},
				{Name: "farm7", NumGPU: 2, CPULimit: "4000m", MemoryLimit: "8192Mi"},
			},
		},
		Node: "farm6",
		Ports: []farm.Port{
			{Internal: 22, External: 30000, Purpose: "ssh"},
			{Internal: 8888, External: 30001, Purpose: "jupyter"},
		},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// forPortuser is the second pod of the recording.
func forPortuser(in *podspec.Input) {
	in.Pod = "ailab-portuser-4567cdef"
	in.Account = farm.Account{Name: "portuser", UID: 20001, GID: 20001, Home: "/home/portuser", Shell: "/bin/bash"}
	in.PrimaryGroup = "portuser"
	in.Config.Ports = []farm.PortWant{{Internal: 6006, Purpose: "tensorboard"}}
	in.Ports = []farm.Port{
		{Internal: 22, External: 30002, Purpose: "ssh"},
		{Internal: 8888, External: 30003, Purpose: "jupyter"},
		{Internal: 6006, External: 30004, Purpose: "tensorboard"},
	}
}

// withEntry replaces the chosen node's entry in the user configuration.
func withEntry(entry farm.GPUNode) func(*podspec.Input) {
	return func(in *podspec.Input) {
		entry.Name = in.Node
		in.Config.Nodes = []farm.GPUNode{entry}
	}
}

func withPorts(ports ...farm.PortWant) func(*podspec.Input) {
	return func(in *podspec.Input) { in.Config.Ports = ports }
}

func build(t *testing.T, in podspec.Input) *corev1.Pod {
	t.Helper()
	pod, err := podspec.Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// env is the environment of container shell as NAME=value, in order.
func env(pod *corev1.Pod) []string {
	var all []string
	for _, variable := range pod.Spec.Containers[0].Env {
		all = append(all, variable.Name+"="+variable.Value)
	}
	return all
}

func valueOf(pod *corev1.Pod, name string) (string, bool) {
	for _, variable := range pod.Spec.Containers[0].Env {
		if variable.Name == name {
			return variable.Value, true
		}
	}
	return "", false
}
