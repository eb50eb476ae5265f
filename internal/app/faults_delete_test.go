package app

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
)

func faultsOfDeletePod(t *testing.T, f *farmOfFaults) {
	const (
		deleted  = "200 deleted"
		lookUp   = "500 DELETE_POD POD_DELETE_FAILED"
		services = "500 DELETE_NODEPORT_SERVICE NODEPORT_SERVICE_DELETE_FAILED"
		rows     = "500 RELEASE_NODEPORT NODEPORT_RELEASE_FAILED"
	)
	u := useCase{
		name: "delete-pod", method: "POST", path: "/delete-pod", body: `{"pod_name":"{pod}"}`,
		prepare: makeWorkspace, whole: []string{"old: gone"}, afterwards: []string{"old: gone"},
	}
	// The API server denies an object that is there: that is no fault that anybody could see through.
	const denied = "-"
	u.add(lockRows(ownerLock, "500 DELETE_POD DELETE_POD_FAILED")...)
	u.add(call{step: "look up the pod", match: getPod, times: 1, want: lookUp, success: deleted, detached: true,
		but: map[string]string{"404": deleted, "connection breaks": deleted, "caller goes away": deleted}}.kubernetes()...)
	u.add(call{step: "look up the pod, under the lock", match: getPod, skip: 1, times: 1, want: lookUp, success: deleted, detached: true, lock: ownerLock,
		but: map[string]string{"404": denied, "connection breaks": deleted, "caller goes away": deleted, "lock is lost meanwhile": deleted}}.kubernetes()...)
	u.add(call{step: "record", match: beginRecord, want: rows, success: deleted, detached: true,
		but: map[string]string{"1062 once": rows, "caller goes away": deleted}}.mysql()...)
	u.add(call{step: "DELETE_NODEPORT_SERVICE: list", match: listServices, want: services, success: deleted, detached: true,
		but: map[string]string{"caller goes away": deleted}}.kubernetes()...)
	u.add(call{step: "DELETE_NODEPORT_SERVICE: delete", match: deleteService, want: services, success: deleted, detached: true, lock: ownerLock,
		but: map[string]string{"done, malformed answer": deleted, "caller goes away": deleted, "lock is lost meanwhile": deleted}}.kubernetes()...)
	u.add(call{step: "DELETE_NODEPORT_SERVICE: list again", match: listServices, skip: 1, times: 1, want: services, success: deleted, detached: true, short: true,
		but: map[string]string{"connection breaks": deleted, "caller goes away": deleted}}.kubernetes()...)
	u.add(call{step: "RELEASE_NODEPORT", match: releasePorts, want: rows, success: deleted, detached: true, but: map[string]string{"caller goes away": deleted}}.mysql()...)
	u.add(call{step: "RELEASE_NODEPORT: commit", match: commit, times: 1, want: rows, success: deleted, detached: true,
		but: map[string]string{"caller goes away": deleted}}.mysql()...)
	u.add(call{step: "DELETE_POD", match: deletePod, want: lookUp, success: deleted, detached: true, lock: ownerLock,
		but: map[string]string{"404": denied, "malformed answer": "500 DELETE_POD POD_DELETE_TIMEOUT", "done, malformed answer": deleted,
			"caller goes away": deleted, "lock is lost meanwhile": deleted}}.kubernetes()...)
	u.add(goneRows("500 DELETE_POD POD_DELETE_TIMEOUT", deleted)...)
	u.add(call{step: "end of the record", match: endRecord, want: "200 deleted with 1 warning", success: deleted, detached: true,
		but: map[string]string{"caller goes away": deleted}}.mysql()...)
	u.check(t, f, 2)
}

// goneRows: the pod's end is not seen.
func goneRows(late, success string) []row {
	const step = "wait until the pod is gone"
	watch := faultproxy.HTTPFault{Match: watchPods, Status: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}
	blind := func(name, want string, more ...faultproxy.HTTPFault) row {
		return row{step: step, name: name, want: want, early: true, fault: fault{api: append(more, watch)}}
	}
	return []row{
		blind("no watch", success),
		// Two looks at the pod belong to the steps before.
		blind("no watch, one look fails", success, faultproxy.HTTPFault{Match: getPod, Skip: 2, Times: 1, Status: 500, Reason: metav1.StatusReasonInternalError}),
		blind("no watch, looks get 500", late, faultproxy.HTTPFault{Match: getPod, Skip: 2, Status: 500, Reason: metav1.StatusReasonInternalError}),
		blind("no watch, looks hang", late, faultproxy.HTTPFault{Match: getPod, Skip: 2, Hang: true}),
	}
}

func faultsOfDeletePodThatStays(t *testing.T, f *farmOfFaults) {
	u := useCase{
		name: "delete-pod of a pod whose end never comes", method: "POST", path: "/delete-pod", body: `{"pod_name":"{pod}"}`,
		whole: []string{"old: gone"}, afterwards: []string{"old: gone"},
		prepare: func(t testing.TB, s *stand) {
			makeOwner(t, s)
			s.AdminBE.SetConfig(owner, map[string]any{"image": "dguailab/" + testkit.ImageUndeletable + ":1"})
			s.pod = s.must(t, "POST", "/create-pod", `{"username":"`+owner+`"}`).text("pod_name")
			s.AdminBE.SetConfig(owner, nil)
		},
	}
	u.add(row{step: "wait until the pod is gone", name: "never", want: "500 DELETE_POD POD_DELETE_TIMEOUT", settle: func(t testing.TB, s *stand) { s.removeOldPod(t) }})
	u.check(t, f, 1)
}
