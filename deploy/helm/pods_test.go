package helm_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func labelsOf(object metav1.Object) labels.Set { return object.GetLabels() }

// Readiness is as operators of the original know it. A process is started anew only long after it was taken from the
// Service, and a start on a busy node has its time.
func TestProbes(t *testing.T) {
	t.Parallel()
	got := container(t, objects(t, render(t, "farm")))
	for name, probe := range map[string]*corev1.Probe{"startup": got.StartupProbe, "readiness": got.ReadinessProbe, "liveness": got.LivenessProbe} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != "/health" || probe.HTTPGet.Port.String() != got.Ports[0].Name {
			t.Fatalf("the %s probe is %+v, want one that asks /health", name, probe)
		}
	}
	ready := got.ReadinessProbe
	if ready.InitialDelaySeconds != 15 || ready.PeriodSeconds != 10 || ready.TimeoutSeconds != 5 || ready.FailureThreshold != 3 {
		t.Errorf("readiness is %+v, want delay 15 s, period 10 s, timeout 5 s, 3 failures", ready)
	}
	patience := func(p *corev1.Probe) time.Duration {
		return time.Duration(p.PeriodSeconds*p.FailureThreshold) * time.Second
	}
	if patience(got.LivenessProbe) < 3*patience(ready) {
		t.Errorf("it is killed after %s, and taken from the Service only after %s", patience(got.LivenessProbe), patience(ready))
	}
	if patience(got.StartupProbe) < time.Minute {
		t.Errorf("a start has %s", patience(got.StartupProbe))
	}
	want := corev1.ResourceRequirements{
		Requests: quantities("100m", "128Mi"),
		Limits:   quantities("200m", "256Mi"),
	}
	if diff := cmp.Diff(text(t, want), text(t, got.Resources)); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

// What selects the service's pods finds them, and not the pod of helm test.
func TestSelectorsFindTheServiceOnly(t *testing.T) {
	t.Parallel()
	list := objects(t, render(t, "everything"))
	deployment, service := the[*appsv1.Deployment](t, list), the[*corev1.Service](t, list)
	policy, budget := the[*networkingv1.NetworkPolicy](t, list), the[*policyv1.PodDisruptionBudget](t, list)
	served := labels.Set(deployment.Spec.Template.Labels)
	tested := labelsOf(the[*corev1.Pod](t, list))
	for name, selector := range map[string]*metav1.LabelSelector{
		"Deployment": deployment.Spec.Selector, "Service": {MatchLabels: service.Spec.Selector},
		"NetworkPolicy": &policy.Spec.PodSelector, "PodDisruptionBudget": budget.Spec.Selector,
	} {
		selects := must(metav1.LabelSelectorAsSelector(selector))(t)
		if !selects.Matches(served) {
			t.Errorf("the selector of the %s does not find the service's pods", name)
		}
		if selects.Matches(tested) {
			t.Errorf("the selector of the %s finds the pod of helm test", name)
		}
	}
	if got := policy.Spec.Ingress[0].Ports[0].Port.IntValue(); got != service.Spec.Ports[0].TargetPort.IntValue() {
		t.Errorf("the NetworkPolicy lets callers reach port %d, the Service's is %s", got, service.Spec.Ports[0].TargetPort.String())
	}
}

// Several replicas go to several nodes where that can be; one that says otherwise is obeyed.
func TestReplicasSpread(t *testing.T) {
	t.Parallel()
	spread := func(args ...string) []corev1.TopologySpreadConstraint {
		return the[*appsv1.Deployment](t, objects(t, render(t, "farm", args...))).Spec.Template.Spec.TopologySpreadConstraints
	}
	if got := spread(); got != nil {
		t.Errorf("one replica spreads: %+v", got)
	}
	got := spread("--set", "ledgerLock=mysql,replicaCount=2")
	if len(got) != 1 || got[0].TopologyKey != corev1.LabelHostname || got[0].WhenUnsatisfiable != corev1.ScheduleAnyway {
		t.Errorf("two replicas: %+v", got)
	}
	got = spread("--set", "ledgerLock=mysql,replicaCount=2,topologySpreadConstraints[0].topologyKey=zone")
	if len(got) != 1 || got[0].TopologyKey != "zone" {
		t.Errorf("two replicas by zone: %+v", got)
	}
}

// helm test looks from a pod that is like the service's: the same account, identity, mounts and image.
func TestHelmTestLooksFromAPodLikeTheServices(t *testing.T) {
	t.Parallel()
	for _, name := range valuesNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := objects(t, render(t, name))
			service, look := the[*appsv1.Deployment](t, list).Spec.Template.Spec, the[*corev1.Pod](t, list).Spec
			if got := look.Containers[0].Args; len(got) != 1 || got[0] != "check" {
				t.Errorf("it runs %q, want check", got)
			}
			type alike struct {
				Account                       string
				Pod, Container, Image, Mounts string
			}
			of := func(pod corev1.PodSpec) alike {
				c := pod.Containers[0]
				return alike{pod.ServiceAccountName, text(t, pod.SecurityContext), text(t, c.SecurityContext), c.Image, text(t, pod.Volumes) + text(t, c.VolumeMounts)}
			}
			if diff := cmp.Diff(of(service), of(look)); diff != "" {
				t.Errorf("the pods differ (-service +test):\n%s", diff)
			}
		})
	}
}

func quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}
