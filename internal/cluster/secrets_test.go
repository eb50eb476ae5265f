package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/cluster"
	"config-server/internal/farm"
	"config-server/internal/testkit"
)

func TestSecretsArePutReadAndDeletedWithTheChartsRights(t *testing.T) {
	t.Parallel()
	kube := testkit.Cluster(t)
	kube.Grant(t, "everything")
	c := cluster.FromREST(kube.ServiceConfig(), cluster.Options{Namespace: kube.Namespace})
	ctx := t.Context()
	if _, found, err := c.Secret(ctx, "one"); found || err != nil {
		t.Fatalf("before: found %v, %v", found, err)
	}
	// One that somebody else made keeps what is not ours.
	secrets := kube.Admin(t).CoreV1().Secrets(kube.Namespace)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"theirs": "yes"}}, Data: map[string][]byte{"old": []byte("x")}}
	if _, err := secrets.Create(ctx, foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		want := farm.Secret{Name: "one", User: "kim_1", Pod: "ailab-kim-1-00000000", Data: map[string][]byte{"key": []byte(text)}}
		put := want
		put.PodUID = "11111111-2222-3333-4444-555555555555"
		if err := c.PutSecret(ctx, put); err != nil {
			t.Fatal(err)
		}
		got, found, err := c.Secret(ctx, "one")
		if err != nil || !found || cmp.Diff(want, got, cmp.Transformer("fields", func(s farm.Secret) map[string]any {
			return map[string]any{"name": s.Name, "user": s.User, "pod": s.Pod, "data": s.Data}
		})) != "" {
			t.Errorf("%s: found %v, %v, user %s, pod %s, data %q", text, found, err, got.User, got.Pod, got.Data)
		}
	}
	object, err := secrets.Get(ctx, "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantLabels := map[string]string{"theirs": "yes", "managed-by": "ailab-infra", "username": "kim_1", "pod_name": "ailab-kim-1-00000000"}
	wantOwner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "ailab-kim-1-00000000", UID: "11111111-2222-3333-4444-555555555555"}}
	if diff := cmp.Diff(wantLabels, object.Labels) + cmp.Diff(wantOwner, object.OwnerReferences); diff != "" {
		t.Errorf("labels and owner (-want +got):\n%s", diff)
	}
	for _, want := range []bool{true, false} {
		if existed, err := c.DeleteSecret(ctx, "one"); existed != want || err != nil {
			t.Errorf("delete: existed %v, %v; want %v", existed, err, want)
		}
	}
}

func TestASecretShowsItsContentInNoText(t *testing.T) {
	t.Parallel()
	const content = "marker-5up3r"
	secret := farm.Secret{Name: "Not_A_Name", Data: map[string][]byte{"key": []byte(content)}}
	kube := testkit.Cluster(t)
	c := cluster.FromREST(kube.ServiceConfig(), cluster.Options{Namespace: kube.Namespace})
	err := c.PutSecret(t.Context(), secret)
	if err == nil || !strings.Contains(err.Error(), "create Secret Not_A_Name") {
		t.Fatalf("error %v", err)
	}
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%v %+v %#v", secret, secret, secret), secret.LogValue().String()} {
		if strings.Contains(text, content) || strings.Contains(text, fmt.Sprint([]byte(content))) {
			t.Errorf("it shows: %s", text)
		}
	}
}
