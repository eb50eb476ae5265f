package app

import (
	"testing"

	"config-server/internal/testkit/kubelet"
)

func faultsOfMigrate(t *testing.T, f *farmOfFaults) {
	const (
		migrated = "200 migrated farm6"
		warned   = "200 migrated farm6 with 1 warning"
		reserve  = "500 reserve 2 NodePorts"
		record   = "500 begin operation migrate of carol"
		start    = "500 new pod failed to start"
		services = "500 service creation failed"
		failed   = "500 migration failed"
		save     = "500 image_commit_failed"
		whole    = "old: gone; new: pod, 2 Services, 2 rows"
	)
	u := useCase{
		name: "migrate", method: "POST", path: "/migrate", body: `{"username":"` + owner + `","nodes":["farm5","farm6","farm7"]}`,
		prepare: makeWorkspace, whole: []string{whole, unchanged}, afterwards: []string{whole},
	}
	lost := map[string]string{"lock is lost meanwhile": failed}
	u.add(lockRows(ownerLock, failed)...)
	u.add(nodeRows("500 failed to list nodes", migrated)...)
	u.add(call{step: "look up the pod", match: listPods, want: "500 failed to look up the running pod", success: migrated}.kubernetes()...)
	u.add(loadRows("score", "200 skipped no_significant_improvement", failed)...)
	u.add(configRows("502 ", "404 user 'carol' not found in WAS")...)
	u.add(accountRows("account", "500 ")...)
	u.add(call{step: "record", match: beginRecord, want: record, success: migrated, undo: undoEnd, lock: ownerLock,
		but: map[string]string{"1062 once": record, "lock is lost meanwhile": failed}}.mysql()...)
	u.add(call{step: "ports", match: insertPorts, want: reserve, success: migrated, undo: undoRows}.mysql()...)
	u.add(call{step: "ports: commit", match: commit, times: 1, want: reserve, success: migrated, undo: undoRows, short: true}.mysql()...)
	u.add(saveRows("SAVE_IMAGE", save)...)
	u.add(call{step: "SAVE_IMAGE", match: "/pods/[^/]+/exec", want: save, undo: undoRows, lock: ownerLock, short: true,
		but: map[string]string{"429 once, retry after 1 s": migrated, "done, answer lost": "-", "done, caller goes away": "-", "lock is lost meanwhile": failed}}.kubernetes()...)
	u.add(imageRows("saved image", warned)...)
	u.add(call{step: "CREATE_POD", match: postPod, want: start, success: migrated, undo: undoPodAtOnce, lock: ownerLock, but: lost}.kubernetes()...)
	u.add(readyRows(start, start, migrated, 0)...)
	u.add(call{step: "CREATE_NODEPORT_SERVICE", match: postService, want: services, success: migrated, undo: undoServices, lock: ownerLock, but: lost}.kubernetes()...)
	u.add(takenRow("CREATE_NODEPORT_SERVICE", migrated, fault{}))
	u.add(call{step: "TOUCH_OLD_POD", match: advanceRecord, times: 1, want: failed, success: migrated, undo: undoServices, lock: ownerLock,
		but: map[string]string{"1062 once": failed, "lock is lost meanwhile": migrated}}.mysql()...)
	u.add(call{step: "TOUCH_OLD_POD, and taking it back", match: advanceRecord, want: failed, success: migrated, undo: fault{}, short: true,
		but: map[string]string{"1213 once": "-", "connection lost once": "-", "done, answer lost": "-", "caller goes away": "-", "done, caller goes away": "-"}}.mysql()...)
	// From here on the migration is finished, by recovery if need be.
	u.add(call{step: "old Services", match: listServices, want: warned, success: migrated, detached: true, short: true,
		but: map[string]string{"caller goes away": migrated}}.kubernetes()...)
	u.add(call{step: "old Services: delete", match: deleteService, want: warned, success: migrated, detached: true, lock: ownerLock,
		but: map[string]string{"done, malformed answer": migrated, "caller goes away": migrated, "lock is lost meanwhile": migrated}}.kubernetes()...)
	u.add(call{step: "old rows", match: releasePorts, want: warned, success: migrated, detached: true, short: true,
		but: map[string]string{"caller goes away": migrated}}.mysql()...)
	u.add(call{step: "old pod", match: deletePod, want: warned, success: migrated, detached: true,
		but: map[string]string{"404": "-", "done, malformed answer": migrated, "caller goes away": migrated}}.kubernetes()...)
	u.add(call{step: "end of the record", match: endRecord, want: warned, success: migrated, detached: true, short: true,
		but: map[string]string{"caller goes away": migrated}}.mysql()...)
	u.check(t, f, 3)
}

// saveRows: the save script fails, hangs, or its end is lost.
func saveRows(step, failed string) []row {
	on := func(name string, result kubelet.Result) row {
		return row{step: step, name: "script: " + name, want: failed, undo: undoRows, fault: fault{do: func(t testing.TB, s *stand) func() {
			s.Cluster.OnExec(t, result)
			return func() { s.Cluster.OnExec(t) }
		}}}
	}
	return []row{
		on("exit 1", kubelet.Result{Exit: 1, Stderr: "no space left on device"}),
		on("exit 137", kubelet.Result{Exit: 137}),
		on("hangs", kubelet.Result{Hang: true}),
		on("stream breaks", kubelet.Result{Break: true}),
	}
}
