package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"config-server/internal/farm"
	"config-server/internal/httpapi"
	"config-server/internal/workspaces"
)

// exchange is one request with the answer that it must get.
type exchange struct {
	name   string
	method string
	path   string
	body   string
	status int
	want   string // JSON
}

func (e exchange) run(t *testing.T, s *service) {
	t.Helper()
	got := s.described(t, e.method, e.path, e.body)
	if got.Status != e.status {
		t.Errorf("status is %d, want %d: %s", got.Status, e.status, got.Text)
	}
	if diff := cmp.Diff(object(t, e.want), got.object(t)); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func runExchanges(t *testing.T, cases []exchange, change ...func(*httpapi.Options, *service)) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, newService(change...))
		})
	}
}

const noUsername = `{"step":"VALIDATE_REQUEST","error":"INVALID_CREATE_POD_REQUEST","detail":"username required","progress":{}}`

func TestCreatePod(t *testing.T) {
	t.Parallel()
	const created = `{"status":"created","node":"farm6","pod_name":"ailab-user2100-01020304","ports":[
		{"internal_port":22,"external_port":30000,"usage_purpose":"ssh"},{"internal_port":8888,"external_port":30001,"usage_purpose":"jupyter"}]}`
	runExchanges(t, []exchange{
		{"made", "POST", "/create-pod", `{"username":"user2100"}`, 201, created},
		{"unknown fields are ignored", "POST", "/create-pod", `{"username":"user2100","Username":"x","enable_sudo":true}`, 201, created},
		{"the last of two members counts", "POST", "/create-pod", `{"username":"x","username":"user2100"}`, 201, created},
		{"username missing", "POST", "/create-pod", `{}`, 400, noUsername},
		{"username empty", "POST", "/create-pod", `{"username":""}`, 400, noUsername},
		{"username null", "POST", "/create-pod", `{"username":null}`, 400, noUsername},
		{"username in another case is another field", "POST", "/create-pod", `{"UserName":"user2100"}`, 400, noUsername},
		{"username of another type", "POST", "/create-pod", `{"username":5}`, 400,
			`{"step":"VALIDATE_REQUEST","error":"INVALID_CREATE_POD_REQUEST","detail":"username must be a string","progress":{}}`},
	})
}

func TestCreatePodTellsWarnings(t *testing.T) {
	t.Parallel()
	s := newService(func(_ *httpapi.Options, s *service) {
		s.pods.create = func(context.Context, workspaces.CreateRequest) (workspaces.Created, error) {
			return workspaces.Created{Node: "farm6", Pod: "ailab-user2100-01020304", Ports: twoPorts(), Warnings: []string{"base image used"}}, nil
		}
	})
	got := s.described(t, "POST", "/create-pod", `{"username":"user2100"}`)
	if diff := cmp.Diff([]any{"base image used"}, got.object(t)["warnings"]); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// A failure of create-pod is told with everything that it carries, and with nothing that it lacks.
func TestCreatePodFailures(t *testing.T) {
	t.Parallel()
	refusal := fmt.Errorf("create pod: %w", &farm.APIError{Status: 403, Reason: "Forbidden", Body: `{"code":403}`, Err: errors.New("quota")})
	silent := fmt.Errorf("create pod: %w", &farm.APIError{Err: errors.New("connection refused")})
	undone := map[string]bool{farm.KeyNodePortsReleased: true, farm.KeyPodDeleted: false, farm.KeyServicesDeleted: false}
	cases := []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"admin_be knows nobody", &farm.Error{Kind: farm.NotFound, Step: farm.StepFetchUserConfig, Code: farm.UserConfigNotFound,
			Detail: "user 'u' not found in WAS", WASStatus: 200}, 404,
			`{"step":"FETCH_USER_CONFIG","error":"USER_CONFIG_NOT_FOUND","detail":"user 'u' not found in WAS","progress":{},"was_status":200}`},
		{"admin_be fails", farm.Failf(farm.Upstream, farm.StepFetchUserConfig, farm.UserConfigFetchFailed, nil, "no JSON"), 502,
			`{"step":"FETCH_USER_CONFIG","error":"USER_CONFIG_FETCH_FAILED","detail":"no JSON","progress":{}}`},
		{"pod exists", farm.Failf(farm.Conflict, farm.StepCheckExistingPod, farm.PodAlreadyExists, nil, "there"), 409,
			`{"step":"CHECK_EXISTING_POD","error":"POD_ALREADY_EXISTS","detail":"there","progress":{}}`},
		{"refused by the API server and undone", func() error {
			e := farm.Failf(farm.Internal, farm.StepCreatePod, farm.PodCreateFailed, refusal, "quota").WithProgress(undone, true)
			e.Pod = "ailab-u-00000000"
			return e
		}(), 500, `{"step":"CREATE_POD","error":"POD_CREATE_FAILED","detail":"quota","pod_name":"ailab-u-00000000",
			"progress":{"nodeportsReleased":true,"podDeleted":false,"servicesDeleted":false},
			"rollback":{"nodeportsReleased":true,"podDeleted":false,"servicesDeleted":false},
			"k8s_status":403,"k8s_reason":"Forbidden","k8s_body":"{\"code\":403}"}`},
		{"API server silent", farm.Failf(farm.Internal, farm.StepCreatePod, farm.PodCreateFailed, silent, "connection refused"), 500,
			`{"step":"CREATE_POD","error":"POD_CREATE_FAILED","detail":"connection refused","progress":{}}`},
		{"wrapped by somebody", fmt.Errorf("outer: %w", farm.Failf(farm.Internal, farm.StepListNodes, farm.NodeListFailed, nil, "x")), 500,
			`{"step":"LIST_NODES","error":"NODE_LIST_FAILED","detail":"x","progress":{}}`},
		{"without a code", farm.Errorf(farm.Invalid, "odd"), 400,
			`{"step":"VALIDATE_REQUEST","error":"INVALID_CREATE_POD_REQUEST","detail":"odd","progress":{}}`},
		{"unforeseen", errors.New("secret internals"), 500,
			`{"step":"CREATE_POD","error":"CREATE_POD_FAILED","detail":"internal error (request id r-1)","progress":{}}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newService(func(_ *httpapi.Options, s *service) {
				s.pods.create = func(context.Context, workspaces.CreateRequest) (workspaces.Created, error) {
					return workspaces.Created{}, c.err
				}
			})
			req := newRequest("POST", "/create-pod", `{"username":"u"}`)
			req.Header.Set("X-Request-Id", "r-1")
			got := s.send(req)
			got.fits(t, "POST", "/create-pod")
			if got.Status != c.status {
				t.Errorf("status is %d, want %d", got.Status, c.status)
			}
			if diff := cmp.Diff(object(t, c.want), got.object(t)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeletePod(t *testing.T) {
	t.Parallel()
	bad := func(podName string) string {
		return `{"step":"VALIDATE_REQUEST","error":"INVALID_POD_NAME","detail":"invalid pod_name"` + podName + `,
			"progress":{"servicesDeleted":false,"nodeportsReleased":false,"podDeleteRequested":false,"podDeleted":false}}`
	}
	const missing = `{"step":"VALIDATE_REQUEST","error":"INVALID_DELETE_POD_REQUEST","detail":"pod_name required","progress":{}}`
	runExchanges(t, []exchange{
		{"deleted", "POST", "/delete-pod", `{"pod_name":"ailab-user2100-1a2b3c4d"}`, 200, `{"status":"deleted","pod_name":"ailab-user2100-1a2b3c4d",
			"progress":{"servicesDeleted":true,"nodeportsReleased":true,"podDeleteRequested":true,"podDeleted":true}}`},
		{"name missing", "POST", "/delete-pod", `{}`, 400, missing},
		{"name null", "POST", "/delete-pod", `{"pod_name":null}`, 400, missing},
		{"name empty", "POST", "/delete-pod", `{"pod_name":""}`, 400, missing},
		{"another prefix", "POST", "/delete-pod", `{"pod_name":"containerssh-user2100-1"}`, 400, bad(`,"pod_name":"containerssh-user2100-1"`)},
		{"no string", "POST", "/delete-pod", `{"pod_name":7}`, 400, bad("")},
		{"no DNS label", "POST", "/delete-pod", `{"pod_name":"ailab-a/../b"}`, 400, bad(`,"pod_name":"ailab-a/../b"`)},
		{"a line break", "POST", "/delete-pod", `{"pod_name":"ailab-a\n"}`, 400, bad(`,"pod_name":"ailab-a\n"`)},
		{"upper case", "POST", "/delete-pod", `{"pod_name":"ailab-A-1"}`, 400, bad(`,"pod_name":"ailab-A-1"`)},
		{"endless", "POST", "/delete-pod", `{"pod_name":"ailab-` + strings.Repeat("a", 999) + `"}`, 400, bad(`,"pod_name":"ailab-` + strings.Repeat("a", 249) + `"`)},
	})
}

func TestDeletePodAlreadyAbsent(t *testing.T) {
	t.Parallel()
	s := newService(func(_ *httpapi.Options, s *service) {
		s.pods.delete = func(_ context.Context, pod string) (workspaces.Deleted, error) {
			return workspaces.Deleted{Pod: farm.PodName(pod), AlreadyAbsent: true, Progress: map[string]bool{
				farm.KeyServicesDeleted: true, farm.KeyNodePortsReleased: true, farm.KeyPodDeleteRequested: false, farm.KeyPodDeleted: true}}, nil
		}
	})
	exchange{"", "POST", "/delete-pod", `{"pod_name":"ailab-user2100-deadbeef"}`, 200, `{"status":"deleted","already_absent":true,"pod_name":"ailab-user2100-deadbeef",
		"progress":{"servicesDeleted":true,"nodeportsReleased":true,"podDeleteRequested":false,"podDeleted":true}}`}.run(t, s)
}

func TestDeletePodUnforeseen(t *testing.T) {
	t.Parallel()
	s := newService(func(_ *httpapi.Options, s *service) {
		s.pods.delete = func(context.Context, string) (workspaces.Deleted, error) {
			return workspaces.Deleted{}, errors.New("x")
		}
	})
	got := s.described(t, "POST", "/delete-pod", `{"pod_name":"ailab-u-00000000"}`)
	body := got.object(t)
	if got.Status != 500 || body["step"] != "DELETE_POD" || body["error"] != "DELETE_POD_FAILED" {
		t.Errorf("%d %s", got.Status, got.Text)
	}
}
