package templates_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"config-server/internal/farm"
	"config-server/internal/podspec"
	"config-server/internal/templates"
)

// workspace is a pod as podspec writes it.
func workspace(t *testing.T, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod, err := podspec.Build(podspec.Input{
		Settings: podspec.Settings{
			Namespace: "ailab-infra", CPURequest: "1", CPULimit: "2", MemRequest: "1Gi", MemLimit: "2Gi",
			ImagePullPolicy: "Never", HomeVolume: podspec.HomeNFS, NFSServer: "192.0.2.30", NFSPath: "/volume1/share/user",
		},
		Pod:     "ailab-kim-01020304",
		Account: farm.Account{Name: "kim", UID: 20000, GID: 20000, Home: "/home/kim", Shell: "/bin/bash"}, PrimaryGroup: "kim",
		Config: farm.UserConfig{Image: "dguailab/decs:1.0"}, Node: "farm6",
		Ports: []farm.Port{{Internal: 22, External: 30000, Purpose: "ssh"}, {Internal: 8888, External: 30001, Purpose: "jupyter"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// layer reads the template of a layer. It has no tabs, so that tests may be indented with them.
func layer(t *testing.T, text string) templates.Layer {
	t.Helper()
	return templates.Layer{Name: "a-template", Template: read[corev1.PodTemplateSpec](t, text)}
}

// read decodes indented YAML strictly.
func read[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := yaml.UnmarshalStrict([]byte(unindented(text)), &value); err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	return value
}

// unindented takes the first line's indentation from every line.
func unindented(text string) string {
	text = strings.TrimLeft(text, "\n")
	indent := text[:len(text)-len(strings.TrimLeft(text, "\t"))]
	return strings.TrimRight(strings.ReplaceAll("\n"+text, "\n"+indent, "\n"), "\t")
}

// apply lays layers, the lowest first, under a pod.
func apply(t *testing.T, pod *corev1.Pod, layers ...templates.Layer) *corev1.Pod {
	t.Helper()
	shaped, err := templates.Apply(pod, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return shaped
}

// shell is the pod's first container, which must be the workspace's.
func shell(t *testing.T, pod *corev1.Pod) corev1.Container {
	t.Helper()
	if len(pod.Spec.Containers) == 0 || pod.Spec.Containers[0].Name != farm.ContainerName {
		t.Fatalf("the first container is not %s: %v", farm.ContainerName, pod.Spec.Containers)
	}
	return pod.Spec.Containers[0]
}

func toleration(key string) corev1.Toleration {
	return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists}
}

// onNode binds a pod through the scheduler instead of by its node's name.
func onNode(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName = ""
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}},
		}}
	}
}
