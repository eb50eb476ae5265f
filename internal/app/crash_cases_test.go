package app_test

import (
	"fmt"
	"net/http"
	"testing"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/kubelet"
	"config-server/internal/testkit/world"
)

// The surroundings of every case: a shared group with a member that stays.
const (
	crashTeam    = "team"
	crashTeamGID = 20005
	crashKeeper  = "keeper"
	// crashRefused is a port's purpose whose Service the cluster refuses.
	crashRefused = "refused"
	crashKorean  = "텐서보드 실습"
)

// crashGroup is the group that belongs to a name.
func crashGroup(name string) string { return "g-" + name }

// putUser asks for a user with one group that exists and one that is new.
func (f *crashFarm) putUser(name string) crashCall {
	return crashCall{"PUT", "/accounts/users", fmt.Sprintf(
		`{"name":%q,"passwd_base64":"cGFzc3dvcmQ=","supplementary_groups":[{"name":%q,"gid":%d},{"name":%q,"gid":%d}]}`,
		name, crashTeam, crashTeamGID, crashGroup(name), f.gidOf(name))}
}

// must makes a call of a preparation.
func (f *crashFarm) must(t *testing.T, call crashCall, status int) world.Answer {
	t.Helper()
	return world.Call(t, f.service.URL, call.method, call.path, call.body, status)
}

func accountCrashes() []crashCase {
	putUser := func(_ *testing.T, f *crashFarm, name string) crashCall { return f.putUser(name) }
	failing := func(contains string) func(*testing.T, *crashFarm, string) {
		return func(t *testing.T, f *crashFarm, _ string) {
			f.world.NAS.Fail(t, testkit.SSHFault{Contains: contains, Exit: 1, Stderr: "disk is read-only"})
		}
	}
	well := func(t *testing.T, f *crashFarm, _ string) { f.world.NAS.Fail(t) }
	return []crashCase{
		{name: "PUT user", arrange: putUser, status: 201, fresh: 201, done: 409,
			recovery: []string{"create-user/CREATE_HOME_DIRECTORY/after#1", "record#1"}, outage: "nas chown after#1"},
		{name: "PUT user, chmod fails", arrange: putUser, fault: failing("chmod"), heal: well, status: 500, fresh: 201,
			recovery: []string{"create-user/CREATE_HOME_DIRECTORY/before-undo#1"}},
		{name: "DELETE user", arrange: func(t *testing.T, f *crashFarm, name string) crashCall {
			f.must(t, f.putUser(name), 201)
			return crashCall{"DELETE", "/accounts/users/" + name, ""}
		}, status: 200, fresh: 200, done: 404,
			recovery: []string{"delete-user/WRITE_LEDGER/after#1", "record#1"}, outage: "nas rm before#1"},
		{name: "PUT group", arrange: func(_ *testing.T, _ *crashFarm, name string) crashCall {
			return crashCall{"PUT", "/accounts/groups", fmt.Sprintf(`{"name":%q,"members":[%q]}`, crashGroup(name), crashKeeper)}
		}, status: 201, fresh: 201, done: 409},
		{name: "DELETE group", arrange: func(t *testing.T, f *crashFarm, name string) crashCall {
			f.must(t, crashCall{"PUT", "/accounts/groups", fmt.Sprintf(`{"name":%q}`, crashGroup(name))}, 201)
			return crashCall{"DELETE", "/accounts/groups/" + crashGroup(name), ""}
		}, status: 200, fresh: 200, done: 404, recovery: []string{"record#1"}},
		{name: "PUT user's groups", arrange: func(t *testing.T, f *crashFarm, name string) crashCall {
			f.must(t, crashCall{"PUT", "/accounts/users", world.UserBody(name)}, 201)
			f.must(t, crashCall{"PUT", "/accounts/groups", fmt.Sprintf(`{"name":%q,"members":[%q]}`, crashGroup(name), crashKeeper)}, 201)
			return crashCall{"PUT", "/accounts/users/" + name + "/groups", fmt.Sprintf(`{"groups":[%q,%q]}`, crashTeam, crashGroup(name))}
		}, status: 200, fresh: 200, done: 200},
	}
}

// config changes the user's configuration: its ports, image and nodes.
func (f *crashFarm) config(name, image string, nodes []string, purposes ...string) {
	fields := map[string]any{}
	if image != "" {
		fields["image"] = "dguailab/decs:" + image
	}
	if nodes != nil {
		var list []any
		for _, node := range nodes {
			list = append(list, map[string]any{"node_name": node})
		}
		fields["gpu_nodes"] = list
	}
	var ports []any
	for i, purpose := range purposes {
		ports = append(ports, map[string]any{"internal_port": 6006 + i, "usage_purpose": purpose})
	}
	fields["additional_ports"] = ports
	f.world.AdminBE.SetConfig(name, fields)
}

// createPod prepares a user with an additional port.
func createPod(t *testing.T, f *crashFarm, name string) crashCall {
	t.Helper()
	f.must(t, f.putUser(name), 201)
	f.config(name, "", nil, crashKorean)
	return crashCall{"POST", "/create-pod", fmt.Sprintf(`{"username":%q}`, name)}
}

// migrate prepares a user with a workspace on the busiest node.
func migrate(t *testing.T, f *crashFarm, name string) crashCall {
	t.Helper()
	call := createPod(t, f, name)
	f.config(name, "", []string{"farm5"}, crashKorean)
	f.must(t, call, 201)
	f.config(name, "", nil, crashKorean)
	return crashCall{"POST", "/migrate", fmt.Sprintf(`{"username":%q,"nodes":["farm5","farm6"]}`, name)}
}

// The faults of making a workspace, and their end.
func healConfig(_ *testing.T, f *crashFarm, name string) { f.config(name, "", nil, crashKorean) }

func refuseService(_ *testing.T, f *crashFarm, name string) {
	f.config(name, "", nil, crashKorean, crashRefused)
}

func fate(image string) func(*testing.T, *crashFarm, string) {
	return func(_ *testing.T, f *crashFarm, name string) { f.config(name, image, nil, crashKorean) }
}

func workspaceCrashes() []crashCase {
	return []crashCase{
		{name: "create-pod", arrange: createPod, status: 201, fresh: 201, done: 201, again: true,
			recovery: []string{"create-pod/CREATE_NODEPORT_SERVICE/after#1"}, outage: "POST pods after#1"},
		{name: "create-pod, never Ready", arrange: createPod, fault: fate(testkit.ImageNeverPull), heal: healConfig, status: 500, fresh: 201},
		{name: "create-pod, Service refused", arrange: createPod, fault: refuseService, heal: healConfig, status: 500, fresh: 201,
			recovery: []string{"create-pod/CREATE_POD/before-undo#2"}},
		{name: "delete-pod", arrange: func(t *testing.T, f *crashFarm, name string) crashCall {
			pod := f.must(t, createPod(t, f, name), 201).Text("pod_name")
			return crashCall{"POST", "/delete-pod", fmt.Sprintf(`{"pod_name":%q}`, pod)}
		}, status: 200, fresh: 200, done: 200,
			recovery: []string{"delete-pod/RECORD/after#1"}, outage: "delete-pod/RELEASE_NODEPORT/before#1"},
	}
}

func migrationCrashes() []crashCase {
	return []crashCase{
		{name: "migrate", arrange: migrate, status: 200, fresh: 200, done: 200,
			recovery: []string{"migrate/CREATE_NODEPORT_SERVICE/after#1", "migrate/TOUCH_OLD_POD/after#1"}, outage: "migrate/TOUCH_OLD_POD/after#1"},
		{name: "migrate, save script fails", arrange: migrate, status: 500, fresh: 200,
			fault: func(t *testing.T, f *crashFarm, _ string) {
				f.world.Cluster.OnExec(t, kubelet.Result{Contains: "save_image", Exit: 3, Stderr: "no space left"})
			},
			heal: func(t *testing.T, f *crashFarm, _ string) { f.world.Cluster.OnExec(t) }},
		{name: "migrate, new pod fails", arrange: migrate, fault: fate(testkit.ImageFails), heal: healConfig, status: 500, fresh: 200},
		{name: "migrate, Service refused", arrange: migrate, fault: refuseService, heal: healConfig, status: 500, fresh: 200},
	}
}

// clean takes away what a point made, by the API, and checks that nothing is left of it.
func (f *crashFarm) clean(t *testing.T, what, name string) {
	t.Helper()
	for _, pod := range f.world.Pods(t) {
		if pod.Labels[farm.LabelUser] == name {
			f.expect(t, what+", cleaning", crashCall{"POST", "/delete-pod", fmt.Sprintf(`{"pod_name":%q}`, pod.Name)}, http.StatusOK)
		}
	}
	for _, path := range []string{"/accounts/users/" + name, "/accounts/groups/" + crashGroup(name)} {
		answer, err := f.send(t, crashCall{"DELETE", path, ""})
		if err != nil || answer.Status != http.StatusOK && answer.Status != http.StatusNotFound {
			t.Errorf("%s, cleaning: DELETE %s: %v, status %d: %s", what, path, err, answer.Status, answer.Body)
		}
	}
	if left := f.settle(t, what+", cleaning", name); len(left) > 0 {
		f.leftovers += len(left)
		t.Errorf("%s: left after everything was deleted: %q", what, left)
	}
}
