package workspaces

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// limited is a launch with the default limits, whose pod is made of these containers.
func limited(containers ...corev1.Container) *launch {
	return &launch{
		Service: New(Options{ReadyLimit: 60 * time.Second, PendingLimit: 240 * time.Second, UnschedulableLimit: 120 * time.Second, PullGrace: 90 * time.Second}),
		spec:    &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}},
	}
}

func pulled(policy corev1.PullPolicy) corev1.Container {
	return corev1.Container{ImagePullPolicy: policy}
}

func TestBudgetsByPolicy(t *testing.T) {
	t.Parallel()
	never := pulled(corev1.PullNever)
	withInit := limited(never)
	withInit.spec.Spec.InitContainers = []corev1.Container{pulled(corev1.PullIfNotPresent)}
	withVolume := limited(never)
	withVolume.spec.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "data"}}}}
	withOwnVolume := limited(never)
	withOwnVolume.spec.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "data", PullPolicy: corev1.PullNever}}}, {Name: "other"}}
	for name, test := range map[string]struct {
		launch *launch
		want   time.Duration
	}{
		"Never":                             {limited(never), 60 * time.Second},
		"IfNotPresent":                      {limited(pulled(corev1.PullIfNotPresent)), 240 * time.Second},
		"Always":                            {limited(pulled(corev1.PullAlways)), 240 * time.Second},
		"Never, and a sidecar that pulls":   {limited(never, pulled(corev1.PullAlways)), 240 * time.Second},
		"Never, and a sidecar's default":    {limited(never, pulled("")), 240 * time.Second},
		"Never, and an init container":      {withInit, 240 * time.Second},
		"Never, and a volume of an image":   {withVolume, 240 * time.Second},
		"Never, and a volume that is there": {withOwnVolume, 60 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := farm.ReadyLimits{Total: test.want, Unschedulable: 120 * time.Second, PullGrace: 90 * time.Second}
			if diff := cmp.Diff(want, test.launch.readyLimits(t.Context())); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBudgetsAreCappedByTheRequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		left time.Duration // of the request
		want time.Duration
	}{
		"more than enough":          {600 * time.Second, 240 * time.Second},
		"as long as the wait":       {240 * time.Second, 237 * time.Second},
		"less":                      {100 * time.Second, 97 * time.Second},
		"so little that it matters": {10 * time.Second, 9 * time.Second},
		"nothing":                   {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.left)
				defer cancel()
				if got := limited(pulled(corev1.PullAlways)).readyLimits(ctx).Total; got != test.want {
					t.Errorf("with %s left the wait has %s, want %s", test.left, got, test.want)
				}
			})
		})
	}
}
