package helm_test

import (
	"testing"

	"config-server/internal/selfvolumes"
	"config-server/internal/testkit"
	"config-server/internal/testkit/world"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// With HOME_VOLUME=self the service finds its own pod by what the chart says, and there its volumes.
func TestStorageOfTheChart(t *testing.T) {
	t.Parallel()
	fields := func(args ...string) map[string]string {
		list := objects(t, render(t, "self", args...))
		got := map[string]string{}
		for _, variable := range container(t, list).Env {
			if variable.Name == "POD_NAME" || variable.Name == "POD_IP" {
				got[variable.Name] = variable.Value
				if variable.ValueFrom != nil {
					got[variable.Name] = variable.ValueFrom.FieldRef.FieldPath
				}
			}
		}
		return got
	}
	if diff := cmp.Diff(map[string]string{"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}, fields()); diff != "" {
		t.Errorf("how the pod knows itself (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"POD_NAME": "metadata.name", "POD_IP": "192.0.2.7"}, fields("--set", "env.POD_IP=192.0.2.7")); diff != "" {
		t.Errorf("where one of them is said (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{}, fields("--set", "env.HOME_VOLUME=nfs")); diff != "" {
		t.Errorf("without HOME_VOLUME=self (-want +got):\n%s", diff)
	}

	list := objects(t, render(t, "self"))
	service, look := podOf(t, list), the[*corev1.Pod](t, list)
	if service.Spec.Containers[0].Name != selfvolumes.ContainerName {
		t.Errorf("the service looks for container %s, the chart has %s", selfvolumes.ContainerName, service.Spec.Containers[0].Name)
	}
	// helm test's pod is another one with the same mounts, so that its look tells the same.
	for name, pod := range map[string]*corev1.Pod{"the service": service, "helm test": look} {
		got := map[string]string{}
		for _, path := range []string{"/home", "/datasets/lab"} {
			mount, err := selfvolumes.Resolve(pod, selfvolumes.Path{Own: path})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got[path] = mount.Volume.Name + ":" + mount.SubPath
		}
		if diff := cmp.Diff(map[string]string{"/home": "homes:user", "/datasets/lab": "datasets:lab"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if look.Spec.Affinity == nil || look.Spec.Affinity.PodAffinity == nil {
		t.Error("helm test's pod may start on a node that cannot mount the homes")
	}
}

// The whole day of a service with homes on a claim of its own pod: each right that the chart grants is asked for, and
// nothing that is asked for is denied.
func TestStorageEveryRightIsNeededAndNoneIsMissing(t *testing.T) {
	t.Parallel()
	audited := testkit.Audited(t)
	audited.Grant(t, "self")
	withGPU(t, audited)
	core := audited.Admin(t).CoreV1()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "homes"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	must(core.PersistentVolumeClaims(audited.Namespace).Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	own := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "config-server-0"}, Spec: corev1.PodSpec{
		NodeName: "farm7",
		Volumes: []corev1.Volume{{Name: "homes", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}}},
		Containers: []corev1.Container{{Name: selfvolumes.ContainerName, Image: "image", VolumeMounts: []corev1.VolumeMount{{Name: "homes", MountPath: "/home"}}}},
	}}
	must(core.Pods(audited.Namespace).Create(t.Context(), own, metav1.CreateOptions{}))(t)
	w := world.New(t, world.Options{Cluster: audited.KubeCluster, Env: map[string]string{
		"LEDGER_LOCK": "mysql", "HOME_VOLUME": "self", "POD_NAME": own.Name, "POD_IP": "192.0.2.7",
	}})
	walk(t, w, w.Service(t, nil), "amy")
	compareRights(t, "self", audited, nil)
}

// podOf is a pod as the Deployment would make it.
func podOf(t *testing.T, list []metav1.Object) *corev1.Pod {
	t.Helper()
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "service"}, Spec: the[*appsv1.Deployment](t, list).Spec.Template.Spec}
}
