package app

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The templates of the shaped use case: every session's, and the owner's own.
const (
	shapeOfAll = "session"
	ownShape   = "own"
)

// makeShapedOwner makes the owner and its template, which its user configuration names.
func makeShapedOwner(t testing.TB, s *stand) {
	t.Helper()
	makeOwner(t, s)
	s.AdminBE.SetConfig(owner, map[string]any{"pod_template": ownShape})
	for _, name := range []string{shapeOfAll, ownShape} {
		template := &corev1.PodTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Template:   corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shell", Image: "unused"}}}},
		}
		_, err := s.kube.CoreV1().PodTemplates(s.Cluster.Namespace).Create(t.Context(), template, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// faultsOfShapedCreatePod are the calls that create-pod makes beside its others for a workspace with
// templates.
func faultsOfShapedCreatePod(t *testing.T, f *farmOfFaults) {
	const (
		created = "201 created farm6"
		build   = "500 BUILD_POD_SPEC POD_SPEC_BUILD_FAILED"
		missing = "400 BUILD_POD_SPEC POD_SPEC_BUILD_FAILED"
		other   = "500 CREATE_POD CREATE_POD_FAILED"
	)
	u := useCase{
		name: "create-pod shaped by templates", method: "POST", path: "/create-pod", body: `{"username":"` + owner + `"}`,
		prepare: makeShapedOwner, whole: []string{"new: pod, 2 Services, 2 rows"},
	}
	get := func(name string) string { return `^GET /api/v1/namespaces/[^/]+/podtemplates/` + name + `$` }
	u.add(call{step: "BUILD_POD_SPEC: template of the user", match: get(ownShape), want: build, success: created, lock: ownerLock,
		but: map[string]string{"404": missing, "lock is lost meanwhile": other}}.kubernetes()...)
	session := call{step: "BUILD_POD_SPEC: template of sessions", match: get(shapeOfAll), want: build, success: created, lock: ownerLock,
		but: map[string]string{"403": created, "404": created, "lock is lost meanwhile": other}}.kubernetes()
	for i := range session {
		session[i].env = map[string]string{"POD_TEMPLATE": shapeOfAll}
	}
	u.add(session...)
	u.check(t, f, 1)
}
