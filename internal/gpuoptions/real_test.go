package gpuoptions

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"config-server/internal/testkit"
)

// refusedScope is a case that no API server stores yet.
const refusedScope = "PriorityClass with an operator of the future"

// TestGPUOptionsQuotaScopesAreThoseOfTheAPIServer holds the rule against quota admission: a workspace is refused for a quota
// of zero exactly where the rule says that the quota applies.
func TestGPUOptionsQuotaScopesAreThoseOfTheAPIServer(t *testing.T) {
	t.Parallel()
	k := testkit.Cluster(t)
	admin := k.Admin(t)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}}
	if _, err := admin.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	number := 0
	for name, tc := range scopeCases() {
		number++
		namespace := fmt.Sprintf("%s-%d", k.Namespace, number)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			if _, err := admin.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			tc.spec.Hard = list("requests.nvidia.com/gpu", "0")
			err := enforce(t, admin, namespace, "scoped", tc.spec)
			if name == refusedScope {
				if !apierrors.IsInvalid(err) {
					t.Errorf("the API server takes this quota: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			// Once admission knows the second quota, it knows the first.
			if err := enforce(t, admin, namespace, "all", corev1.ResourceQuotaSpec{Hard: list("requests.amd.com/gpu", "0")}); err != nil {
				t.Fatal(err)
			}
			testkit.WaitFor(t, time.Minute, "admission to know the quotas", func(ctx context.Context) error {
				if err := ask(ctx, admin, namespace, "amd.com/gpu", tc.shape); !apierrors.IsForbidden(err) {
					return errors.New("not yet")
				}
				return nil
			})
			refusal := ask(t.Context(), admin, namespace, "nvidia.com/gpu", tc.shape)
			if refusal != nil && !apierrors.IsForbidden(refusal) {
				t.Fatal(refusal)
			}
			if got := refusal != nil; got != tc.want {
				t.Errorf("the API server refuses: %t (%v); the rule says %t", got, refusal, tc.want)
			}
		})
	}
}

// enforce makes a quota and writes its status, as the quota controller does, which is not there.
func enforce(t *testing.T, admin kubernetes.Interface, namespace, name string, spec corev1.ResourceQuotaSpec) error {
	t.Helper()
	quotas := admin.CoreV1().ResourceQuotas(namespace)
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	quota.Status.Hard, quota.Status.Used = spec.Hard, spec.Hard
	_, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
	return err
}

// ask asks for one GPU in a workspace of a shape, without making it.
func ask(ctx context.Context, admin kubernetes.Interface, namespace, gpu string, shape Shape) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "workspace"}, Spec: corev1.PodSpec{
		PriorityClassName: shape.PriorityClass,
		Containers: []corev1.Container{{
			Name: "shell", Image: "i",
			Resources: corev1.ResourceRequirements{Requests: list("cpu", "1", "memory", "1Gi", gpu, "1"), Limits: list(gpu, "1")},
		}},
	}}
	if shape.Deadline {
		minute := int64(60)
		pod.Spec.ActiveDeadlineSeconds = &minute
	}
	_, err := admin.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
