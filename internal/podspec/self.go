package podspec

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/selfvolumes"
)

// selfMounts are the folders that workspaces have of the service's own volumes, the homes first. A volume that
// several of them lie on is there once: kubelet mounts none twice for one pod.
func selfMounts(set *selfvolumes.Set) ([]mount, error) {
	if set == nil || len(set.Mounts) == 0 {
		return nil, errors.New("HOME_VOLUME=self: what the service's own volumes have is not known")
	}
	var mounts []mount
	for i, own := range set.Mounts {
		m := mount{volume: homeName, path: own.At, source: *own.Volume.VolumeSource.DeepCopy(), subPath: own.SubPath, readOnly: own.ReadOnly}
		if i > 0 {
			m.volume = fmt.Sprintf("ailab-own-%d", i)
		}
		same := slices.IndexFunc(mounts, func(before mount) bool { return equality.Semantic.DeepEqual(before.source, m.source) })
		if same >= 0 {
			m.volume = mounts[same].volume
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// bindToService demands of the scheduler the node on which the service's own pod runs, if the volumes are to be
// had there only. A pod with spec.nodeName goes past the scheduler; the service itself then takes no other node.
func bindToService(pod *corev1.Pod, set *selfvolumes.Set) {
	// Without labels nobody can tell that pod from others.
	if set == nil || set.Bound == "" || len(set.Labels) == 0 {
		return
	}
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	pod.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: set.Labels},
		Namespaces:    []string{set.Namespace},
		TopologyKey:   corev1.LabelHostname,
	}}}
}
