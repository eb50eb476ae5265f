package podspec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/podspec"
)

func TestAccountSecretIsMountedAsAFileOfThePodsOwnSecret(t *testing.T) {
	t.Parallel()
	pod, err := podspec.Build(recorded(func(in *podspec.Input) { in.Settings.AccountSecret = true }))
	if err != nil {
		t.Fatal(err)
	}
	mode, required := int32(0o400), false
	wantVolume := corev1.Volume{Name: "account", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: "ailab-user2100-0123abcd-account", DefaultMode: &mode, Optional: &required,
		Items: []corev1.KeyToPath{{Key: "shadow", Path: "shadow"}},
	}}}
	wantMount := corev1.VolumeMount{Name: "account", MountPath: "/run/ailab/account", ReadOnly: true}
	plain, err := podspec.Build(recorded())
	if err != nil {
		t.Fatal(err)
	}
	// It stands behind the home, and nothing else changes.
	plain.Spec.Volumes = append(plain.Spec.Volumes[:1], append([]corev1.Volume{wantVolume}, plain.Spec.Volumes[1:]...)...)
	mounts := &plain.Spec.Containers[0].VolumeMounts
	*mounts = append((*mounts)[:1], append([]corev1.VolumeMount{wantMount}, (*mounts)[1:]...)...)
	if diff := cmp.Diff(plain, pod); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}
