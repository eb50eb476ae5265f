package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// CompareObjects compares pods and Services, as the API server has them, with recorded ones and
// returns one line for each difference. Fields that the API server fills in do not count as long as
// they have its defaults.
func CompareObjects(path string, pods []corev1.Pod, services []corev1.Service) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read recorded objects: %w", err)
	}
	var want any
	if err := json.Unmarshal(text, &want); err != nil {
		return nil, fmt.Errorf("read recorded objects %s: %w", path, err)
	}
	got, err := recordedForm(pods, services)
	if err != nil {
		return nil, err
	}
	return Differences("", want, got), nil
}

// recordedForm gives objects the form of the recording: pods by user, Services by name.
func recordedForm(pods []corev1.Pod, services []corev1.Service) (any, error) {
	byUser := make(map[string]any)
	for _, pod := range pods {
		user := pod.Labels["username"]
		if _, double := byUser[user]; double {
			return nil, fmt.Errorf("two pods of user %q", user)
		}
		byUser[user] = map[string]any{
			"metadata": map[string]any{"name": pod.Name, "namespace": pod.Namespace, "labels": pod.Labels},
			"spec":     pod.Spec,
		}
	}
	services = slices.Clone(services)
	slices.SortFunc(services, func(a, b corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	list := []any{}
	for _, service := range services {
		list = append(list, map[string]any{"name": service.Name, "labels": service.Labels, "spec": service.Spec})
	}
	// Through JSON, so that both sides have the same types.
	text, err := json.Marshal(map[string]any{"pods": byUser, "services": list})
	if err != nil {
		return nil, fmt.Errorf("encode objects: %w", err)
	}
	var form map[string]any
	if err := json.Unmarshal(text, &form); err != nil {
		return nil, fmt.Errorf("decode objects: %w", err)
	}
	for _, pod := range form["pods"].(map[string]any) {
		spec := pod.(map[string]any)["spec"].(map[string]any)
		dropDefaults(spec, podDefaults)
		for _, container := range spec["containers"].([]any) {
			dropDefaults(container.(map[string]any), containerDefaults)
		}
	}
	for _, service := range form["services"].([]any) {
		spec := service.(map[string]any)["spec"].(map[string]any)
		dropDefaults(spec, serviceDefaults)
		for _, key := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} {
			delete(spec, key) // the cluster's own choice
		}
	}
	return form, nil
}

// What the API server fills in.
var (
	podDefaults = map[string]any{
		"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": map[string]any{},
		"terminationGracePeriodSeconds": 30.0, "enableServiceLinks": true, "priority": 0.0,
		"preemptionPolicy": "PreemptLowerPriority",
		"tolerations": []any{
			map[string]any{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300.0},
			map[string]any{"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300.0},
		},
	}
	containerDefaults = map[string]any{"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
	serviceDefaults   = map[string]any{"sessionAffinity": "None", "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster"}
)

// dropDefaults removes keys that have their default.
func dropDefaults(object, defaults map[string]any) {
	for key, value := range defaults {
		if reflect.DeepEqual(object[key], value) {
			delete(object, key)
		}
	}
}
