package app_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/testkit"
	"config-server/internal/testkit/world"
)

// boundClaim makes a claim for one node and the volume that it is bound to, as the controller does that does not run here.
func (f shapedFarm) boundClaim(t *testing.T, name string) {
	t.Helper()
	f.claim(t, name, corev1.ReadWriteOnce)
	core := f.Cluster.Admin(t).CoreV1()
	claims := core.PersistentVolumeClaims(f.Cluster.Namespace)
	claim, err := claims.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: claim.Spec.AccessModes,
		ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "192.0.2.31", IQN: "iqn.2026-01.org.example:homes"}},
	}}
	if _, err := core.PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
	claim.Spec.VolumeName = name
	if claim, err = claims.Update(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim.Status.Phase = corev1.ClaimBound
	if _, err := claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestStorageIsBoundByTheScheduler: a workspace with a GPU option goes where the service's pod is, and a scheduler that
// finds no such pod there lets it go nowhere.
func TestStorageIsBoundByTheScheduler(t *testing.T) {
	t.Parallel()
	k := testkit.OwnCluster(t)
	for _, name := range []string{"farm5", "farm6"} {
		k.SetNode(t, testkit.Node{Name: name, Labels: map[string]string{corev1.LabelHostname: name}, Resources: map[string]string{nvidiaGPU: "4"}})
	}
	k.Scheduler(t)
	k.Grant(t, "self")
	f := shapedFarm{world.New(t, world.Options{Cluster: k, Env: map[string]string{
		"HOME_VOLUME": "self", "POD_NAME": ownPodName, "POD_IP": "192.0.2.7", "GPU_RUNTIME_CLASS": "none", "POD_UNSCHEDULABLE_TIMEOUT": "3s",
	}})}
	f.boundClaim(t, "homes")
	f.ownPod(t, ownPodName, homesOnAClaim)
	service := f.Service(t, nil)
	f.user(t, service.URL, "kim", "")
	f.onNodes(t, "kim", "farm5", "farm6")

	made := f.podNamed(t, world.Call(t, service.URL, "POST", "/create-pod", createBody("kim", nvidiaGPU), 201).Text("pod_name"))
	if made.Spec.NodeName != "farm6" || pinned(made) == "" || homeOf(made, "/home") != `claim homes, folder "", read-only false` {
		t.Errorf("on %q beside %q, /home is %s", made.Spec.NodeName, pinned(made), homeOf(made, "/home"))
	}

	// The process lives on when its pod is taken away: no other pod of the test is like it.
	now := int64(0)
	if err := k.Admin(t).CoreV1().Pods(k.Namespace).Delete(t.Context(), ownPodName, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	f.user(t, service.URL, "lee", "")
	f.onNodes(t, "lee", "farm6")
	answer := f.refuseBody(t, service.URL, createBody("lee", nvidiaGPU), "lee", 500, "WAIT_POD_READY", "POD_READY_TIMEOUT")
	if !strings.Contains(answer.Text("detail"), "didn't match pod affinity rules") {
		t.Errorf("detail %q", answer.Text("detail"))
	}
}
