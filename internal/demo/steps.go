package demo

import (
	"fmt"
	"net/http"
)

// chapter is a part of the journey.
type chapter struct {
	title string
	steps []step
}

// password is what the journey's user logs in with: "demo-password".
const password = `"passwd_base64": "ZGVtby1wYXNzd29yZA=="`

func chapters() []chapter {
	return []chapter{
		{"An account", accountSteps()},
		{"A workspace", workspaceSteps()},
		{"Moving it to a less busy node", migrateSteps()},
		{"What is refused, and how", refusalSteps()},
		{"The end", endSteps()},
	}
}

func accountSteps() []step {
	return []step{
		{
			title:  "Is the service up?",
			behind: "It asks nothing of anybody, so it answers whatever hangs elsewhere.",
			method: http.MethodGet, path: "/health", status: http.StatusOK, says: []string{"OK"},
		},
		{
			title:  "Make the group of a laboratory",
			behind: "A line in the group file on the share, which every workspace mounts. The gid is the caller's here; without one the service chooses.",
			method: http.MethodPut, path: "/accounts/groups", body: `{"name": "ailab", "gid": 20005}`,
			status: http.StatusCreated, says: []string{`"name":"ailab"`, `"gid":20005`},
		},
		{
			title: "Make a user",
			behind: "Lines in passwd, shadow and group and a sudoers file on the share, written as one, and a home on the NAS by SSH. " +
				"If any of it fails, all of it is undone.",
			method: http.MethodPut, path: "/accounts/users",
			body:   `{"name": "kim", ` + password + `, "gecos": "김민수, 석사과정", "supplementary_groups": [{"name": "ailab", "gid": 20005}]}`,
			status: http.StatusCreated, says: []string{`"status":"created"`, `"uid":20000`},
			look: "kim", traces: []string{
				"kim:x:20000:20000:김민수, 석사과정:/home/kim:/bin/bash", "kim:<hash>:", "ailab:x:20005:kim", "kim:x:20000:",
				"/usr/bin/apt", "drwx------ 20000:20000 /volume1/share/user/kim",
			},
		},
		{
			title:  "Make a second group, with a member",
			method: http.MethodPut, path: "/accounts/groups", body: `{"name": "developers", "members": ["kim"]}`,
			status: http.StatusCreated, says: []string{`"gid":20006`},
		},
		{
			title:  "Look at the user",
			method: http.MethodGet, path: "/accounts/users/kim", status: http.StatusOK,
			says: []string{`"uid":20000`, `"ailab"`, `"developers"`, `"primary"`, `"supplementary"`},
		},
		{
			title:  "Look at all users",
			behind: "The base accounts of Debian are in the file too: the share was fresh and has been seeded.",
			method: http.MethodGet, path: "/accounts/users", status: http.StatusOK, says: []string{`"root"`, `"kim"`},
		},
		{
			title:  "Look at all groups",
			method: http.MethodGet, path: "/accounts/groups", status: http.StatusOK,
			says: []string{`{"name":"ailab","gid":20005,"members":["kim"]}`, `"name":"developers"`},
		},
		{
			title:  "Join a group",
			behind: "Only adds: memberships that are not named stay.",
			method: http.MethodPut, path: "/accounts/users/kim/groups", body: `{"groups": ["developers", "ailab"]}`,
			status: http.StatusOK, says: []string{`"groups":["ailab","developers"]`},
		},
	}
}

func workspaceSteps() []step {
	return []step{
		{
			title:  "See which GPUs can be asked for",
			behind: "No PodTemplate offers any, so the nodes are scanned: two models. create-pod takes one as gpu_option; without it, the pod mounts device files.",
			method: http.MethodGet, path: "/gpu-options", status: http.StatusOK,
			says: []string{`"id":"nvidia.com/gpu/NVIDIA-L40S"`, `"id":"nvidia.com/gpu/NVIDIA-RTX-A5000"`, `"free":4,"total":4`},
		},
		{
			title: "Give the user a workspace",
			behind: "admin_be is asked what the user may have, Prometheus how busy the candidate nodes are; farm6 is the least busy. " +
				"NodePorts are reserved, lowest free first: 30002 belongs to somebody else's Service and is skipped. " +
				"Then the pod, the wait until it is Ready, and one Service a port. Purposes in Korean get names that Kubernetes accepts.",
			method: http.MethodPost, path: "/create-pod", body: `{"username": "kim"}`,
			status: http.StatusCreated,
			says:   []string{`"node":"farm6"`, `"external_port":30000`, `"external_port":30001`, `"external_port":30003`, `"usage_purpose":"학습 결과 웹 화면"`},
			look:   "kim", traces: append(kimAccount(),
				"on farm6, Ready", "port 8888 of the pod is port 30001", "port 8080 of the pod is port 30004",
				"port 22 of the pod is port 30000", "port 6006 of the pod is port 30003"),
		},
		{
			title:  "How is it?",
			behind: "While it was being made the same call told how far it was; with Accept: text/event-stream it would go on telling.",
			method: http.MethodGet, path: "/pods/kim/status", status: http.StatusOK, says: []string{`"stage":"ready"`, `"pod_name":"{pod}"`, `"operation":"create"`},
		},
		{
			title:  "What was done for it?",
			behind: "Every step with its time, of every replica. Of a failure also the undo, what kubelet said and the end of the container's log.",
			method: http.MethodGet, path: "/operations", status: http.StatusOK, says: []string{`"step":"WAIT_POD_READY","result":"ok"`, `"done":true`},
		},
		{
			title:  "Which workspaces are there?",
			method: http.MethodGet, path: "/workspaces", status: http.StatusOK, says: []string{`"pod_name":"{pod}"`, `"node_port":30000`},
		},
		{
			title:  "Which images do they run?",
			behind: "None is pinned yet: each runs by its name, as its node has it.",
			method: http.MethodGet, path: "/images", status: http.StatusOK, says: []string{`"digest":null`, `"pod_name":"{pod}"`},
		},
		{
			title:  "Hold the image to what its registry has now",
			behind: "Workspaces that are made from now on run dguailab/decs@sha256:..., whatever the name stands for tomorrow.",
			method: http.MethodPost, path: "/images/pin", body: `{"image": "dguailab/decs:1.0"}`, status: http.StatusOK,
			says: []string{`"status":"pinned"`, `"digest":"sha256:`},
		},
		{
			title:  "Let it go again",
			method: http.MethodDelete, path: "/images/pin?image=dguailab/decs:1.0", status: http.StatusOK, says: []string{`"status":"unpinned"`},
		},
		{
			title:  "Look into it",
			behind: "A pod of the image writes the path to its log as a tar, and goes. Here it is played, and so is the file.",
			method: http.MethodPost, path: "/images/export", body: `{"image": "dguailab/decs:1.0", "path": "/usr/sbin/sshd"}`, status: http.StatusOK,
			says: []string{"usr/sbin/sshd"},
		},
		{
			title:  "How busy are the nodes, and how many ports are left?",
			method: http.MethodGet, path: "/nodes", status: http.StatusOK, says: []string{`"name":"farm6"`, `"free":`},
		},
		{
			title:  "Is anything left over?",
			behind: "What the last audit of account files, homes, ports and cluster found, each with the command that mends it.",
			method: http.MethodGet, path: "/findings", status: http.StatusOK, says: []string{`"findings":[]`},
		},
		{
			title:  "Which teams are there?",
			behind: "A project is a team with nodes and a quota; its nodes are those of the node group that it names.",
			method: http.MethodGet, path: "/projects", status: http.StatusOK, says: []string{`"name":"vision"`, `"nodes":["farm5","farm6"]`},
		},
		{
			title:  "Has its queue all that it needs?",
			behind: "One line for each thing that the product which makes queues looks for, with what to do.",
			method: http.MethodGet, path: "/projects/vision/check", status: http.StatusOK, says: []string{`"ok":true`},
		},
		{
			title:  "Why does its pod wait?",
			method: http.MethodGet, path: "/projects/vision/queue", status: http.StatusOK, says: []string{`"name":"train-0"`, `"type":"HeadBlocked"`},
		},
	}
}

// kimAccount are the traces of kim's account in both groups.
func kimAccount() []string {
	return []string{"kim:x:20000:20000:", "kim:<hash>:", "ailab:x:20005:kim", "kim:x:20000:", "developers:x:20006:kim", "/usr/bin/apt", "drwx------ 20000:20000"}
}

func migrateSteps() []step {
	const ask = `{"username": "kim", "nodes": ["farm5", "farm6", "farm7"]}`
	return []step{
		{
			title:  "Ask for a better node while there is none",
			behind: "A move has to be worth it: the best other node must be 20 % below the present one.",
			method: http.MethodPost, path: "/migrate", body: ask,
			status: http.StatusOK, says: []string{`"status":"skipped"`, `"no_significant_improvement"`, `"current_score":11.3765625`},
		},
		{
			title: "Ask again after farm6 has become busy",
			behind: "The save script runs in the old pod, the new pod and its Services are made on farm7, and only then " +
				"does the old one go. Had anything failed before that, the old workspace would still stand.",
			before: func(j *journey) {
				busy := Load{97, 22000, 82}
				j.Around.SetLoad("farm6", busy)
				fmt.Fprintf(j.Out, "   Prometheus now tells of farm6: %.0f %% utilised, %.0f MiB used, %.0f degrees.\n", busy.Utilisation, busy.MemoryUsed, busy.Temperature)
			},
			method: http.MethodPost, path: "/migrate", body: ask,
			status: http.StatusOK, says: []string{`"status":"migrated"`, `"from":"farm6"`, `"to":"farm7"`},
			look: "kim", traces: append(kimAccount(), "on farm7, Ready", "Service", "Service", "Service", "Service"),
		},
		{
			title:  "Ask among one node only",
			method: http.MethodPost, path: "/migrate", body: `{"username": "kim", "nodes": ["FARM7"]}`,
			status: http.StatusOK, says: []string{`"no_candidate_node"`},
		},
	}
}

func refusalSteps() []step {
	return []step{
		{
			title:  "A name that is a path",
			behind: "Refused before anything is touched, like every name outside ^[a-z_][a-z0-9_-]{0,31}$.",
			method: http.MethodPut, path: "/accounts/users", body: `{"name": "..", ` + password + `}`,
			status: http.StatusBadRequest, says: []string{`"error"`},
		},
		{
			title:  "A user that exists",
			method: http.MethodPut, path: "/accounts/users", body: `{"name": "kim", ` + password + `}`,
			status: http.StatusConflict, says: []string{`"error":"user already exists"`},
		},
		{
			title:  "A base account",
			method: http.MethodDelete, path: "/accounts/users/root", status: http.StatusBadRequest, says: []string{`"error"`},
		},
		{
			title:  "A group with members that are nobody",
			method: http.MethodPut, path: "/accounts/groups", body: `{"name": "team", "members": ["kim", "ghost"]}`,
			status: http.StatusBadRequest, says: []string{"invalid members (users not found): ghost"},
		},
		{
			title:  "A user whom nobody knows",
			method: http.MethodGet, path: "/accounts/users/park", status: http.StatusNotFound, says: []string{`"error":"user not found"`},
		},
		{
			title:  "A workspace for somebody whom admin_be does not know",
			behind: "Failures of workspaces tell their step, a code from docs/CODES.md, and what was undone.",
			method: http.MethodPost, path: "/create-pod", body: `{"username": "nouser1"}`,
			status: http.StatusNotFound, says: []string{`"step":"FETCH_USER_CONFIG"`, `"error":"USER_CONFIG_NOT_FOUND"`, `"progress":{}`},
		},
		{
			title:  "A workspace for somebody without an account",
			method: http.MethodPost, path: "/create-pod", body: `{"username": "park"}`,
			status: http.StatusBadRequest, says: []string{`"error":"POD_SPEC_BUILD_FAILED"`},
		},
		{
			title:  "A body that is no JSON",
			method: http.MethodPost, path: "/delete-pod", body: `pod_name={pod}`,
			status: http.StatusBadRequest, says: []string{`"error":"INVALID_DELETE_POD_REQUEST"`},
		},
		{
			title:  "A node that the cluster does not have",
			method: http.MethodPost, path: "/migrate", body: `{"username": "kim", "nodes": ["farm7", "ghost"]}`,
			status: http.StatusBadRequest, says: []string{`"error":"unknown kubernetes node: 'ghost'"`},
		},
		{
			title:  "A pin of a saved image",
			behind: "It comes from a tar, so no registry has it and it is never pulled.",
			method: http.MethodPost, path: "/images/pin", body: `{"image": "user-kim:latest"}`,
			status: http.StatusBadRequest, says: []string{"loaded from a tar"},
		},
		{
			title:  "A look into an image beside its root",
			behind: "A path is a path: absolute, without dots that lead up, and never part of a shell's script.",
			method: http.MethodPost, path: "/images/export", body: `{"image": "dguailab/decs:1.0", "path": "/etc/../proc/1/environ"}`,
			status: http.StatusBadRequest, says: []string{"path must not have '..' in it"},
		},
		{
			title:  "A route that does not exist",
			method: http.MethodGet, path: "/pods", status: http.StatusNotFound, says: []string{`"error"`},
		},
	}
}

func endSteps() []step {
	return []step{
		{
			title:  "Delete the workspace",
			behind: "Services first, then the reserved ports, then the pod, and the answer waits until it is gone. The account and the home stay.",
			method: http.MethodPost, path: "/delete-pod", body: `{"pod_name": "{pod}"}`,
			status: http.StatusOK, says: []string{`"status":"deleted"`, `"podDeleted":true`, `"servicesDeleted":true`, `"nodeportsReleased":true`},
			look: "kim", traces: kimAccount(),
		},
		{
			title:  "Delete it once more",
			method: http.MethodPost, path: "/delete-pod", body: `{"pod_name": "{pod}"}`,
			status: http.StatusOK, says: []string{`"already_absent":true`},
		},
		{
			title:  "Make a group that nobody joins",
			method: http.MethodPut, path: "/accounts/groups", body: `{"name": "guests"}`, status: http.StatusCreated,
		},
		{
			title:  "Delete that group",
			method: http.MethodDelete, path: "/accounts/groups/guests", status: http.StatusOK, says: []string{`"status":"deleted"`},
		},
		{
			title:  "Delete the user",
			behind: "The lines, the sudoers file and the home, if it is this user's. Groups that are empty now go with their last member. The uid is never given again.",
			method: http.MethodDelete, path: "/accounts/users/kim", status: http.StatusOK, says: []string{`"status":"deleted"`},
			look: "kim", traces: nil,
		},
		{
			title:  "Delete the user once more",
			behind: "404 means: already gone.",
			method: http.MethodDelete, path: "/accounts/users/kim", status: http.StatusNotFound, says: []string{`"error":"user not found"`},
		},
	}
}
