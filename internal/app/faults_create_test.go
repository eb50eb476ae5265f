package app

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
)

const (
	owner     = "carol" // of the workspaces
	ownerLock = "user/" + owner
)

// makeOwner makes the account once a stand.
func makeOwner(t testing.TB, s *stand) {
	t.Helper()
	s.pod = ""
	if _, there := s.look(t).homes[owner]; !there {
		s.must(t, "PUT", "/accounts/users", `{"name":"`+owner+`","passwd_base64":"cGFzc3dvcmQ="}`)
	}
}

// makeWorkspace makes the owner's workspace, on farm5, which is the busiest node.
func makeWorkspace(t testing.TB, s *stand) {
	t.Helper()
	makeOwner(t, s)
	s.AdminBE.SetConfig(owner, map[string]any{"gpu_nodes": []any{map[string]any{"node_name": "farm5", "num_gpu": 0}}})
	s.pod = s.must(t, "POST", "/create-pod", `{"username":"`+owner+`"}`).text("pod_name")
	s.AdminBE.SetConfig(owner, nil)
}

// Calls to the API server and statements, as the proxies see them.
const (
	getPod        = `^GET /api/v1/namespaces/[^/]+/pods/[^/?]+$`
	postPod       = `^POST /api/v1/namespaces/[^/]+/pods$`
	deletePod     = `^DELETE /api/v1/namespaces/[^/]+/pods/[^/?]+$`
	listPods      = `^GET /api/v1/namespaces/[^/]+/pods\?labelSelector=[^&]*username`
	watchPods     = `^GET /api/v1/namespaces/[^/]+/pods\?.*(watch=true|resourceVersion=)`
	postService   = `^POST /api/v1/namespaces/[^/]+/services$`
	deleteService = `^DELETE /api/v1/namespaces/[^/]+/services/`
	listServices  = `^GET /api/v1/namespaces/[^/]+/services\?`
	anyNodes      = `^GET /api/v1/nodes`
	watchNodes    = `^GET /api/v1/nodes\?.*(watch=true|resourceVersion=)`
	query         = `/api/v1/query`

	beginRecord   = "INSERT INTO config_server_operations"
	advanceRecord = "UPDATE config_server_operations SET stage"
	endRecord     = "DELETE FROM config_server_operations"
	beginTx       = "START TRANSACTION"
	lockPorts     = "SELECT name FROM config_server_mutexes"
	readPorts     = "SELECT node_port FROM nodeport_allocations"
	insertPorts   = "INSERT INTO nodeport_allocations"
	releasePorts  = "DELETE FROM nodeport_allocations"
	commit        = "COMMIT"
	getLock       = "GET_LOCK"

	refusedByMySQL = 1142
)

// What undo begins with, failing.
var (
	undoEnd  = fault{sql: []faultproxy.SQLFault{{Match: endRecord, Errno: refusedByMySQL}}}
	undoRows = fault{sql: []faultproxy.SQLFault{{Match: releasePorts, Errno: refusedByMySQL}}}
	undoPod  = fault{api: []faultproxy.HTTPFault{
		{Match: deletePod, Status: 500, Reason: metav1.StatusReasonInternalError},
		{Match: getPod, Skip: 1, Status: 500, Reason: metav1.StatusReasonInternalError},
	}}
	// undoPodAtOnce is undoPod of a use case that has not looked at the pod before.
	undoPodAtOnce = fault{api: []faultproxy.HTTPFault{
		{Match: deletePod, Status: 500, Reason: metav1.StatusReasonInternalError}, {Match: getPod, Status: 500, Reason: metav1.StatusReasonInternalError},
	}}
	undoServices = fault{api: []faultproxy.HTTPFault{{Match: listServices, Status: 500, Reason: metav1.StatusReasonInternalError}}}
)

func faultsOfCreatePod(t *testing.T, f *farmOfFaults) {
	const (
		created  = "201 created farm6"
		build    = "500 BUILD_POD_SPEC POD_SPEC_BUILD_FAILED"
		services = "500 CREATE_NODEPORT_SERVICE NODEPORT_SERVICE_CREATE_FAILED"
		other    = "500 CREATE_POD CREATE_POD_FAILED"
	)
	u := useCase{
		name: "create-pod", method: "POST", path: "/create-pod", body: `{"username":"` + owner + `"}`,
		prepare: makeOwner, whole: []string{"new: pod, 2 Services, 2 rows"},
	}
	lost := map[string]string{"lock is lost meanwhile": other}
	u.add(lockRows("user/"+owner, other)...)
	u.add(configRows("502 FETCH_USER_CONFIG USER_CONFIG_FETCH_FAILED", "404 FETCH_USER_CONFIG USER_CONFIG_NOT_FOUND")...)
	u.add(call{step: "CHECK_EXISTING_POD", match: getPod, want: "500 CHECK_EXISTING_POD POD_CHECK_FAILED", success: created, lock: ownerLock,
		but: map[string]string{"404": created, "lock is lost meanwhile": other}}.kubernetes()...)
	u.add(nodeRows("500 LIST_NODES NODE_LIST_FAILED", created)...)
	u.add(loadRows("SELECT_NODE", "201 created farm5", "500 SELECT_NODE NODE_SELECTION_FAILED")...)
	u.add(accountRows("BUILD_POD_SPEC: account", build)...)
	u.add(imageRows("BUILD_POD_SPEC: image", "201 created farm6 with 1 warning")...)
	u.add(call{step: "BUILD_POD_SPEC: record", match: beginRecord, want: build, success: created, undo: undoEnd, lock: ownerLock,
		but: map[string]string{"1062 once": build, "lock is lost meanwhile": other}}.mysql()...)
	u.add(call{step: "BUILD_POD_SPEC: begin ports", match: beginTx, times: 1, want: build, success: created, undo: undoRows, short: true}.mysql()...)
	u.add(call{step: "BUILD_POD_SPEC: lock ports", match: lockPorts, want: build, success: created, undo: undoRows, short: true}.mysql()...)
	u.add(call{step: "BUILD_POD_SPEC: read ports", match: readPorts, want: build, success: created, undo: undoRows, short: true}.mysql()...)
	u.add(call{step: "BUILD_POD_SPEC: write ports", match: insertPorts, want: build, success: created, undo: undoRows, lock: ownerLock, but: lost}.mysql()...)
	u.add(call{step: "BUILD_POD_SPEC: commit ports", match: commit, times: 1, want: build, success: created, undo: undoRows}.mysql()...)
	u.add(row{step: "BUILD_POD_SPEC: ports", name: "none is free", env: map[string]string{"NODEPORT_MIN": "32000", "NODEPORT_MAX": "32000"},
		want: "400 BUILD_POD_SPEC POD_SPEC_BUILD_FAILED", undo: undoEnd})
	u.add(call{step: "CREATE_POD", match: postPod, want: "500 CREATE_POD POD_CREATE_FAILED", success: created, undo: undoPod, lock: ownerLock,
		but: map[string]string{"409 exists": "409 CHECK_EXISTING_POD POD_ALREADY_EXISTS", "lock is lost meanwhile": other}}.kubernetes()...)
	u.add(readyRows("500 WAIT_POD_READY POD_READY_TIMEOUT", "500 WAIT_POD_READY POD_READY_CHECK_FAILED", created, 1)...)
	u.add(call{step: "CREATE_NODEPORT_SERVICE", match: postService, want: services, success: created, undo: undoServices, lock: ownerLock, but: lost}.kubernetes()...)
	u.add(call{step: "CREATE_NODEPORT_SERVICE, second port", match: postService, skip: 1, want: services, success: created, undo: undoServices, short: true}.kubernetes()...)
	u.add(takenRow("CREATE_NODEPORT_SERVICE", created, fault{}))
	for _, name := range []string{"refused (1142)", "hangs"} {
		exchange := fault{sql: []faultproxy.SQLFault{{Match: "UPDATE nodeport_allocations", Errno: refusedByMySQL, Hang: false}}}
		if name == "hangs" {
			exchange.sql[0] = faultproxy.SQLFault{Match: "UPDATE nodeport_allocations", Hang: true}
		}
		r := takenRow("CREATE_NODEPORT_SERVICE", services, exchange)
		r.name, r.undo = "422 port taken, and the exchange: "+name, undoServices
		u.add(r)
	}
	u.add(call{step: "end of the record", match: endRecord, times: 1, want: other, success: created, undo: undoServices, lock: ownerLock,
		but: map[string]string{"1062 once": other, "lock is lost meanwhile": created}}.mysql()...)
	u.check(t, f, 3)
}

// configRows: admin_be fails in each way.
func configRows(failed, unknown string) []row {
	on := func(name, want string, a testkit.AdminBEAnswer) row {
		return row{step: "FETCH_USER_CONFIG", name: "admin_be: " + name, want: want, fault: fault{do: func(_ testing.TB, s *stand) func() {
			s.AdminBE.Set(owner, a)
			return func() { s.AdminBE.SetConfig(owner, nil) }
		}}}
	}
	config := testkit.GoldenUserConfig(owner)
	noImage, badPort := testkit.GoldenUserConfig(owner), testkit.GoldenUserConfig(owner)
	delete(noImage, "image")
	badPort["additional_ports"] = []any{map[string]any{"internal_port": "many"}}
	leaves := on("hangs, caller goes away", failed, testkit.AdminBEAnswer{Hang: true})
	set := leaves.fault.do
	leaves.fault.do = func(t testing.TB, s *stand) func() {
		asked := len(s.AdminBE.Asked())
		mend := set(t, s)
		wait := soon(t, "admin_be is asked", func(context.Context) bool { return len(s.AdminBE.Asked()) > asked }, s.leave)
		return func() { wait(); mend() }
	}
	return []row{
		{step: "FETCH_USER_CONFIG", name: "admin_be: down", want: failed, env: map[string]string{"WAS_URL_TEMPLATE": "http://127.0.0.1:9/{username}"}},
		on("404", unknown, testkit.AdminBEAnswer{Status: 404, Body: map[string]any{"status": 404}}),
		on("200 with status 404", unknown, testkit.AdminBEAnswer{Body: map[string]any{"status": 404}}),
		on("500", failed, testkit.AdminBEAnswer{Status: 500, Body: config}),
		on("403", failed, testkit.AdminBEAnswer{Status: 403, Body: config}),
		on("HTML", failed, testkit.AdminBEAnswer{Body: "<html>", Type: "text/html"}),
		on("a list", failed, testkit.AdminBEAnswer{Body: []any{config}}),
		on("half an object", failed, testkit.AdminBEAnswer{Body: `{"image":"dguailab`}),
		on("no image", failed, testkit.AdminBEAnswer{Body: noImage}),
		on("a port that is no number", failed, testkit.AdminBEAnswer{Body: badPort}),
		on("connection breaks", failed, testkit.AdminBEAnswer{Reset: true}),
		on("hangs", failed, testkit.AdminBEAnswer{Hang: true}),
		leaves,
	}
}

// nodeRows: the service has just started, and its watch of nodes does not come up.
func nodeRows(failed, success string) []row {
	on := func(name, want string, f faultproxy.HTTPFault) row {
		if f.Match == "" {
			f.Match = anyNodes
		}
		return row{step: "LIST_NODES", name: name, want: want, early: true, fault: fault{api: []faultproxy.HTTPFault{f}}}
	}
	return []row{
		on("403", failed, faultproxy.HTTPFault{Status: 403, Reason: metav1.StatusReasonForbidden}),
		on("500", failed, faultproxy.HTTPFault{Status: 500, Reason: metav1.StatusReasonInternalError}),
		on("429, always", failed, faultproxy.HTTPFault{Status: 429, Reason: metav1.StatusReasonTooManyRequests, RetryAfter: "1"}),
		on("malformed answer", failed, faultproxy.HTTPFault{Body: "{"}),
		on("connection breaks", failed, faultproxy.HTTPFault{Reset: true}),
		on("hangs", failed, faultproxy.HTTPFault{Hang: true}),
		on("the watch alone: 500", success, faultproxy.HTTPFault{Match: watchNodes, Status: 500, Reason: metav1.StatusReasonInternalError}),
	}
}

// loadRows: Prometheus fails in each way; without scores unscored is the answer.
func loadRows(step, unscored, left string) []row {
	on := func(name string, f faultproxy.HTTPFault) row {
		f.Match = query
		return row{step: step, name: "Prometheus: " + name, want: unscored, fault: fault{prom: []faultproxy.HTTPFault{f}}}
	}
	leaves := on("hangs, caller goes away", faultproxy.HTTPFault{Hang: true})
	leaves.want, leaves.fault.hook = left, func(s *stand) { s.leave() }
	return []row{
		{step: step, name: "Prometheus: down", want: unscored, env: map[string]string{"PROM_URL": "http://127.0.0.1:9"}},
		on("500", faultproxy.HTTPFault{Status: 500, Body: "oh"}),
		on("503", faultproxy.HTTPFault{Status: 503, Body: `{"status":"error","errorType":"unavailable","error":"starting"}`}),
		on("garbage", faultproxy.HTTPFault{Body: "<html>"}),
		on("another kind of result", faultproxy.HTTPFault{Body: `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`}),
		on("no series", faultproxy.HTTPFault{Body: `{"status":"success","data":{"resultType":"vector","result":[]}}`}),
		on("connection breaks", faultproxy.HTTPFault{Reset: true}),
		on("hangs", faultproxy.HTTPFault{Hang: true}),
		leaves,
	}
}

// accountRows: the share cannot be read.
func accountRows(step, failed string) []row {
	return []row{
		{step: step, name: "passwd is gone", fault: hide("passwd"), want: failed},
		{step: step, name: "group is gone", fault: hide("group"), want: failed},
	}
}

// hide takes a file of the share away.
func hide(file string) fault {
	return fault{do: func(t testing.TB, s *stand) func() {
		path, away := filepath.Join(s.Share, file), filepath.Join(s.disk, "hidden")
		if err := os.Rename(path, away); err != nil {
			t.Error(err)
		}
		return func() {
			if err := os.Rename(away, path); err != nil {
				t.Error(err)
			}
		}
	}}
}

// imageRows: a saved image cannot be loaded; the base image is taken then.
func imageRows(step, warned string) []row {
	on := func(name, script string) row {
		return row{step: step, name: "docker load: " + name, want: warned, fault: fault{do: func(t testing.TB, s *stand) func() {
			tar, program := filepath.Join(s.Images, "user-"+owner+".tar"), filepath.Join(s.Images, "docker")
			for path, text := range map[string]string{tar: "tar", program: "#!/bin/sh\n" + script + "\n"} {
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Error(err)
				}
			}
			return func() {
				removeFile(t, tar)
				removeFile(t, program)
			}
		}}}
	}
	rows := []row{
		on("exit 1", "echo no space left on device >&2; exit 1"), on("killed", "kill -9 $$"), on("hangs", "sleep 60"),
		on("another image", "echo 'Loaded image: other:latest'"), on("cannot be run", "exec /nowhere"),
	}
	return rows
}

// readyRows: the pod does not become Ready. looks is how often the use case has looked at it before.
func readyRows(never, unknown, success string, looks int) []row {
	const step = "WAIT_POD_READY"
	fate := func(name, image string) row {
		return row{step: step, name: name, want: never, undo: undoPod, fault: fault{do: func(_ testing.TB, s *stand) func() {
			s.AdminBE.SetConfig(owner, map[string]any{"image": "dguailab/" + image + ":1"})
			return func() { s.AdminBE.SetConfig(owner, nil) }
		}}}
	}
	// while it waits, something happens to the pod.
	while := func(name, want string, f fault, then func(t testing.TB, s *stand)) row {
		r := fate(name, testkit.ImageNeverReady)
		set := r.fault.do
		f.do = func(t testing.TB, s *stand) func() {
			mend := set(t, s)
			had := s.pods(t)
			wait := soon(t, "the pod is made", func(context.Context) bool { return s.pods(t) > had }, func() { then(t, s) })
			return func() { wait(); mend() }
		}
		r.fault, r.want = f, want
		return r
	}
	stays := fate("stays, and its end never comes", testkit.ImageNeverReady+"-"+testkit.ImageUndeletable)
	stays.undo, stays.settle = fault{}, func(t testing.TB, s *stand) { s.removeNewPods(t) }
	blind := func(name, want string, faults ...faultproxy.HTTPFault) row {
		watch := faultproxy.HTTPFault{Match: watchPods, Status: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}
		return row{step: step, name: name, want: want, early: true, undo: undoPod, fault: fault{api: append(faults, watch)}}
	}
	// A look at the pod proves that the service waits.
	leaves := blind("caller goes away", unknown, faultproxy.HTTPFault{Match: getPod, Skip: looks, Times: 1, Hang: true})
	leaves.fault.hook = func(s *stand) { s.leave() }
	return []row{
		fate("ErrImageNeverPull", testkit.ImageNeverPull), fate("CreateContainerConfigError", testkit.ImageConfigError),
		fate("phase Failed", testkit.ImageFails), fate("stays Pending", testkit.ImageNeverReady), fate("runs, not Ready", testkit.ImageNotReady),
		stays,
		while("somebody deletes the pod", never, fault{}, func(t testing.TB, s *stand) { s.removeNewPods(t) }),
		leaves,
		while("the watch breaks", never, fault{}, func(_ testing.TB, s *stand) { s.api.BreakOpen() }),
		blind("no watch", success),
		blind("no watch, one look fails", success, faultproxy.HTTPFault{Match: getPod, Skip: looks, Times: 1, Status: 500, Reason: metav1.StatusReasonInternalError}),
		blind("no watch, looks get 500", unknown, faultproxy.HTTPFault{Match: getPod, Skip: looks, Status: 500, Reason: metav1.StatusReasonInternalError}),
		blind("no watch, looks get 403", unknown, faultproxy.HTTPFault{Match: getPod, Skip: looks, Status: 403, Reason: metav1.StatusReasonForbidden}),
	}
}

// takenRow: the first NodePort turns out to be somebody else's.
func takenRow(step, want string, more fault) row {
	more.api = append(more.api, faultproxy.HTTPFault{Match: postService, Times: 1, Status: 422, Body: `{"kind":"Status","apiVersion":"v1","status":"Failure",
		"reason":"Invalid","code":422,"message":"is invalid","details":{"causes":[{"reason":"FieldValueInvalid","field":"spec.ports[0].nodePort",
		"message":"Invalid value: 30500: provided port is already allocated"}]}}`})
	return row{step: step, name: "422 port taken", want: want, fault: more}
}
