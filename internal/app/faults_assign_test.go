package app

import (
	"testing"

	"config-server/internal/testkit/faultproxy"
)

// faultsOfAssigningCreatePod are the statements that create-pod makes beside its others where GPUs are
// assigned.
func faultsOfAssigningCreatePod(t *testing.T, f *farmOfFaults) {
	const (
		created = "201 created farm6"
		build   = "500 BUILD_POD_SPEC POD_SPEC_BUILD_FAILED"
		other   = "500 CREATE_POD CREATE_POD_FAILED"

		readGPUs    = "SELECT id, username, pod_name, node_name, gpu_index"
		insertGPUs  = "INSERT INTO config_server_gpus"
		releaseGPUs = "DELETE FROM config_server_gpus"
	)
	undoGPUs := fault{sql: []faultproxy.SQLFault{{Match: releaseGPUs, Errno: refusedByMySQL}}}
	u := useCase{
		name: "create-pod with assigned GPUs", method: "POST", path: "/create-pod", body: `{"username":"` + owner + `"}`,
		prepare: makeOwner, whole: []string{"new: pod, 2 Services, 2 rows, 2 GPUs"},
	}
	u.add(call{step: "BUILD_POD_SPEC: read GPUs", match: readGPUs, want: build, success: created, undo: undoGPUs, short: true}.mysql()...)
	u.add(call{step: "BUILD_POD_SPEC: write GPUs", match: insertGPUs, want: build, success: created, undo: undoGPUs, lock: ownerLock,
		but: map[string]string{"lock is lost meanwhile": other}}.mysql()...)
	u.add(call{step: "BUILD_POD_SPEC: commit GPUs", match: commit, times: 1, want: build, success: created, undo: undoGPUs, short: true}.mysql()...)
	for i := range u.rows {
		u.rows[i].env = map[string]string{"GPU_ASSIGNMENT": "exclusive"}
		u.rows[i].recovers = u.rows[i].env
	}
	u.check(t, f, 1)
}
