package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

func TestRealPodTemplates(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	for name, labels := range map[string]map[string]string{
		"with-value": {"ailab/gpu": "nvidia"}, "without-value": {"ailab/gpu": ""}, "of-another-key": {"other/gpu": "nvidia"}, "without-labels": nil,
	} {
		template := &corev1.PodTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Template:   corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shell", Image: "unused"}}}},
		}
		if _, err := f.admin.CoreV1().PodTemplates(f.Namespace).Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c := FromREST(f.AdminConfig(), Options{Namespace: f.Namespace})

	templates, err := c.PodTemplates(t.Context(), "ailab/gpu")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, template := range templates {
		got[template.Name] = template.Labels["ailab/gpu"]
	}
	if diff := cmp.Diff(map[string]string{"with-value": "nvidia", "without-value": ""}, got); diff != "" {
		t.Errorf("templates with the label (-want +got):\n%s", diff)
	}

	template, found, err := c.PodTemplate(t.Context(), "without-labels")
	if err != nil || !found {
		t.Fatalf("found %t, error %v", found, err)
	}
	if template.Template.Spec.DNSPolicy != corev1.DNSClusterFirst {
		t.Errorf("dnsPolicy is %q: it is not what the API server has stored", template.Template.Spec.DNSPolicy)
	}
	if _, found, err := c.PodTemplate(t.Context(), "missing"); found || err != nil {
		t.Errorf("a missing template: found %t, error %v", found, err)
	}
}

func TestRealPodTemplatesWithoutTheRight(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	nobody := f.AdminConfig()
	nobody.Impersonate.UserName = "nobody"
	c := FromREST(nobody, Options{Namespace: f.Namespace})
	if _, err := c.PodTemplates(t.Context(), "ailab/gpu"); !farm.IsForbidden(err) {
		t.Errorf("list: %v, want one that means a missing right", err)
	}
	if _, _, err := c.PodTemplate(t.Context(), "missing"); !farm.IsForbidden(err) {
		t.Errorf("get: %v, want one that means a missing right", err)
	}
}
