package podspec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/podspec"
	"config-server/internal/selfvolumes"
)

// ownSet is what the service's own pod on farm6 has: homes on a claim, data sets on the same one and on NFS.
func ownSet(bound string) *selfvolumes.Set {
	claim := corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
	}}
	share := corev1.Volume{Name: "sets", VolumeSource: corev1.VolumeSource{
		NFS: &corev1.NFSVolumeSource{Server: "192.0.2.31", Path: "/sets", ReadOnly: true},
	}}
	at := func(path string) selfvolumes.Path { return selfvolumes.Path{Own: path, At: path} }
	return &selfvolumes.Set{
		Pod: "config-server-0", Namespace: "ailab-infra", Labels: map[string]string{"app": "config-server"}, Node: "farm6", Bound: bound,
		Mounts: []selfvolumes.Mount{
			{Path: at("/home"), Volume: claim, SubPath: "user"},
			{Path: at("/datasets"), Volume: share, ReadOnly: true},
			{Path: at("/courses"), Volume: claim, SubPath: "courses"},
		},
	}
}

func withOwn(set *selfvolumes.Set) func(*podspec.Input) {
	return func(in *podspec.Input) { in.Settings.HomeVolume, in.Self = podspec.HomeSelf, set }
}

func TestStoragePod(t *testing.T) {
	t.Parallel()
	plain := build(t, recorded())
	pod := build(t, recorded(withOwn(ownSet(""))))
	var volumes, mounts []string
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			volumes = append(volumes, v.Name+" claim "+v.PersistentVolumeClaim.ClaimName)
		case v.NFS != nil:
			volumes = append(volumes, fmt.Sprintf("%s nfs %s:%s read-only %v", v.Name, v.NFS.Server, v.NFS.Path, v.NFS.ReadOnly))
		}
	}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		mounts = append(mounts, strings.TrimSpace(fmt.Sprintf("%s %s read-only %v %s", m.MountPath, m.Name, m.ReadOnly, m.SubPath)))
	}
	if diff := cmp.Diff([]string{"nfs-home claim data", "ailab-own-1 nfs 192.0.2.31:/sets read-only true"}, volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		"/home nfs-home read-only false user", "/datasets ailab-own-1 read-only true", "/courses nfs-home read-only false courses",
	}, mounts[:3]); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	// Everything else is as always, the pod's place too: the volumes are to be had everywhere.
	pod.Spec.Volumes = append(plain.Spec.Volumes[:1:1], pod.Spec.Volumes[2:]...)
	pod.Spec.Containers[0].VolumeMounts = append(plain.Spec.Containers[0].VolumeMounts[:1:1], pod.Spec.Containers[0].VolumeMounts[3:]...)
	if diff := cmp.Diff(plain, pod); diff != "" {
		t.Errorf("beside the volumes (-nfs +self):\n%s", diff)
	}
}

func TestStoragePodThatIsBound(t *testing.T) {
	t.Parallel()
	want := &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "config-server"}},
		Namespaces:    []string{"ailab-infra"}, TopologyKey: "kubernetes.io/hostname",
	}}}
	pod := build(t, recorded(withOwn(ownSet("why"))))
	if diff := cmp.Diff(&corev1.Affinity{PodAffinity: want}, pod.Spec.Affinity); diff != "" || pod.Spec.NodeName != "farm6" {
		t.Errorf("on %s, affinity (-want +got):\n%s", pod.Spec.NodeName, diff)
	}
	// With a GPU option the scheduler has both to hold.
	pod = withGPU(t, detectedGPU("xe", "gpu.intel.com/xe", "", ""), withOwn(ownSet("why")))
	if diff := cmp.Diff(want, pod.Spec.Affinity.PodAffinity); diff != "" || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.NodeName != "" {
		t.Errorf("with a GPU option: node %q, affinity %+v (-want +got):\n%s", pod.Spec.NodeName, pod.Spec.Affinity, diff)
	}
	// A pod without labels cannot be told from others.
	nameless := ownSet("why")
	nameless.Labels = nil
	if pod = build(t, recorded(withOwn(nameless))); pod.Spec.Affinity != nil {
		t.Errorf("affinity to any pod: %+v", pod.Spec.Affinity)
	}
}

func TestStorageUnknownVolumesMakeNoPod(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]*selfvolumes.Set{"none": nil, "empty": {}} {
		if _, err := podspec.Build(recorded(withOwn(set))); err == nil || !strings.Contains(err.Error(), "HOME_VOLUME=self") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
