package cluster

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
	"config-server/internal/testkit"
)

func TestStorageRealOwnPod(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	f.Grant(t, "self")
	c := FromREST(f.ServiceConfig(), Options{Namespace: f.Namespace})
	made := map[string]*corev1.Pod{}
	for name, image := range map[string]string{"server": "image", "other": "image", "ended": "image:" + testkit.ImageFails} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			NodeName: "farm5", RestartPolicy: corev1.RestartPolicyNever,
			Volumes:    []corev1.Volume{{Name: "homes", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: "/homes"}}}},
			Containers: []corev1.Container{{Name: "c", Image: image, VolumeMounts: []corev1.VolumeMount{{Name: "homes", MountPath: "/home", SubPath: "a"}}}},
		}}
		if _, err := f.admin.CoreV1().Pods(f.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"server", "other", "ended"} {
		testkit.WaitFor(t, 30*time.Second, "the state of pod "+name, func(ctx context.Context) error {
			pod, err := f.admin.CoreV1().Pods(f.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && pod.Status.StartTime == nil {
				err = errors.New("it has none")
			}
			made[name] = pod
			return err
		})
	}

	pod, found, err := c.WholePod(t.Context(), "server")
	if err != nil || !found || pod.Spec.Volumes[0].NFS == nil || pod.Spec.Containers[0].VolumeMounts[0].SubPath != "a" {
		t.Errorf("found %v, error %v: %+v", found, err, pod)
	}
	if _, found, err := c.WholePod(t.Context(), "missing"); found || err != nil {
		t.Errorf("a pod that is not there: found %v, error %v", found, err)
	}

	// One that has ended shows the address that it had, and somebody else may have it by now.
	server := made["server"].Status.PodIP
	ended := made["ended"]
	ended.Status.PodIP, ended.Status.PodIPs = server, []corev1.PodIP{{IP: server}}
	if _, err := f.admin.CoreV1().Pods(f.Namespace).UpdateStatus(t.Context(), ended, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string][]string{server: {"server"}, made["other"].Status.PodIP: {"other"}, "192.0.2.7": nil} {
		pods, err := c.PodsAt(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, pod := range pods {
			got = append(got, pod.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("at %s are %q, want %q", address, got, want)
		}
	}
}

func TestStorageRealClaims(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "homes"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	if _, err := f.admin.CoreV1().PersistentVolumeClaims(f.Namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := FromREST(f.AdminConfig(), Options{Namespace: f.Namespace})
	got, found, err := c.Claim(t.Context(), "homes")
	if err != nil || !found || !slices.Contains(got.Spec.AccessModes, corev1.ReadWriteMany) {
		t.Errorf("found %v, error %v: %+v", found, err, got)
	}
	if _, found, err := c.Claim(t.Context(), "missing"); found || err != nil {
		t.Errorf("a claim that is not there: found %v, error %v", found, err)
	}
	// The rights without HOME_VOLUME=self are not enough.
	if _, found, err := FromREST(f.ServiceConfig(), Options{Namespace: f.Namespace}).Claim(t.Context(), "homes"); found || !farm.IsForbidden(err) {
		t.Errorf("found %v, error %v, want one that means a missing right", found, err)
	}
}
