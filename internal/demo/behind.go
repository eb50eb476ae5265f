package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"config-server/internal/farm"
)

// Behind tells what is there of a user outside the service, one line a thing: the lines of passwd,
// shadow (without its hash) and group, the sudoers file, the home on the NAS, pods and Services. A
// user of whom nothing is left gives no line.
func (s *Surroundings) Behind(user string) []string {
	lines := s.inShare(user)
	if home, found := s.nas.homes.describe(user); found {
		lines = append(lines, "NAS       "+home)
	}
	of := labels.SelectorFromSet(labels.Set{farm.LabelUser: user})
	pods, _ := s.api.store.list("pods", namespace, of)
	for _, kept := range pods {
		if pod, ok := kept.(*corev1.Pod); ok {
			lines = append(lines, fmt.Sprintf("pod       %s on %s, %s, image %s", pod.Name, pod.Spec.NodeName, stateOf(pod), imageOf(pod)))
		}
	}
	services, _ := s.api.store.list("services", namespace, of)
	for _, kept := range services {
		if service, ok := kept.(*corev1.Service); ok {
			for _, port := range service.Spec.Ports {
				lines = append(lines, fmt.Sprintf("Service   %s: port %d of the pod is port %d of every node", service.Name, port.TargetPort.IntValue(), port.NodePort))
			}
		}
	}
	return lines
}

func stateOf(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return "Ready"
		}
	}
	return string(pod.Status.Phase)
}

// inShare reads the files as a pod would.
func (s *Surroundings) inShare(user string) []string {
	var lines []string
	for _, file := range []string{"passwd", "shadow", "group"} {
		text, err := os.ReadFile(s.path(filepath.Join("etc", file)))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Split(strings.TrimSuffix(line, "\n"), ":")
			if fields[0] != user && (file != "group" || !slices.Contains(strings.Split(fields[len(fields)-1], ","), user)) {
				continue
			}
			if file == "shadow" && len(fields) > 1 && fields[1] != "*" {
				fields[1] = "<hash>"
			}
			lines = append(lines, fmt.Sprintf("%-9s %s", file, strings.Join(fields, ":")))
		}
	}
	if text, err := os.ReadFile(s.path(filepath.Join("etc", "sudoers.d", user))); err == nil {
		lines = append(lines, "sudoers   "+strings.TrimSpace(string(text)))
	}
	return lines
}
