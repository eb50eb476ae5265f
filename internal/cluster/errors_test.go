package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"config-server/internal/farm"
)

// answering is a Cluster whose API server is the handler.
func answering(t *testing.T, handler http.HandlerFunc) *Cluster {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return FromREST(&rest.Config{Host: server.URL}, Options{Namespace: namespace, CallLimit: 3 * time.Second})
}

// status answers with a Status object, as the API server does.
func status(code int, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
			Details: &metav1.StatusDetails{Causes: causes},
		})
	}
}

func TestErrorsTellWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		status int
		reason string
		body   string // a part of it
	}{
		"forbidden": {status(403, metav1.StatusReasonForbidden, "pods is forbidden"), 403, "Forbidden", `"message":"pods is forbidden"`},
		"invalid":   {status(422, metav1.StatusReasonInvalid, "spec is wrong"), 422, "Invalid", `"code":422`},
		"internal":  {status(500, metav1.StatusReasonInternalError, "etcd is away"), 500, "InternalError", `"kind":"Status"`},
		"not JSON": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<html>bad gateway</html>", http.StatusBadGateway)
		}, 502, "InternalError", "502"},
		"a huge message": {status(500, metav1.StatusReasonInternalError, strings.Repeat("가", 3*maxBody)), 500, "InternalError", "가"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := answering(t, test.answer)
			_, err := c.CreatePod(t.Context(), guestPod())
			var api *farm.APIError
			if !errors.As(err, &api) {
				t.Fatalf("no APIError in %v", err)
			}
			if api.Status != test.status || api.Reason != test.reason || !strings.Contains(api.Body, test.body) {
				t.Errorf("got %d %q %q", api.Status, api.Reason, api.Body)
			}
			if n := len([]rune(api.Body)); n > maxBody {
				t.Errorf("the body has %d characters", n)
			}
			if !strings.HasPrefix(err.Error(), "create pod ailab-kim-01020304: ") || strings.Count(err.Error(), "create pod") != 1 {
				t.Errorf("the error names the operation not once: %v", err)
			}
		})
	}
}

func TestServerThatIsNotReached(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	c := FromREST(&rest.Config{Host: server.URL}, Options{Namespace: namespace})
	_, _, err := c.Pod(t.Context(), "ailab-kim-01020304")
	var api *farm.APIError
	if !errors.As(err, &api) || api.Status != 0 {
		t.Errorf("want an APIError with status 0, got %v", err)
	}
}

func TestServerThatHangsCostsOneCallLimit(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	c := FromREST(&rest.Config{Host: server.URL}, Options{Namespace: namespace, CallLimit: 50 * time.Millisecond})
	_, err := c.Nodes(t.Context())
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "list nodes: no answer within 50ms") {
		t.Errorf("got %v", err)
	}

	gone := errors.New("caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := c.Nodes(ctx); !errors.Is(err, gone) {
		t.Errorf("a caller that is gone: %v", err)
	}
}

func TestTooManyRequestsAreTriedAgainWithinTheLimit(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			status(429, metav1.StatusReasonTooManyRequests, "slow down")(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		pod := guestPod()
		pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
		_ = json.NewEncoder(w).Encode(pod)
	})
	pod, found, err := c.Pod(t.Context(), "ailab-kim-01020304")
	if err != nil || !found || pod.UID != "uid-1" || calls.Load() != 2 {
		t.Errorf("got %+v, %v, %v after %d calls", pod, found, err, calls.Load())
	}
}

func TestWhatTheServerSaysToAService(t *testing.T) {
	t.Parallel()
	cause := func(field, message string) metav1.StatusCause {
		return metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: message}
	}
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		is     error // nil = none of the sentinels
	}{
		"port taken": {
			status(422, metav1.StatusReasonInvalid, "Service is invalid", cause("spec.ports[0].nodePort", "Invalid value: 30000: provided port is already allocated")),
			farm.ErrPortTaken,
		},
		"port out of range": {
			status(422, metav1.StatusReasonInvalid, "Service is invalid", cause("spec.ports[0].nodePort", "Invalid value: 80: provided port is not in the valid range")),
			nil,
		},
		"cluster IP taken": {
			status(422, metav1.StatusReasonInvalid, "Service is invalid", cause("spec.clusterIPs", "Invalid value: provided IP is already allocated")),
			nil,
		},
		"name taken": {status(409, metav1.StatusReasonAlreadyExists, "services exists"), farm.ErrExists},
		"forbidden":  {status(403, metav1.StatusReasonForbidden, "no"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := answering(t, test.answer)
			err := c.CreateService(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "ailab-kim-ssh-30000"}})
			var api *farm.APIError
			if !errors.As(err, &api) {
				t.Fatalf("no APIError in %v", err)
			}
			for _, sentinel := range []error{farm.ErrPortTaken, farm.ErrExists} {
				if got, want := errors.Is(err, sentinel), sentinel == test.is; got != want {
					t.Errorf("is %v: %v, want %v (%v)", sentinel, got, want, err)
				}
			}
		})
	}
}

func TestDeletionMeansTheObjectThatWasSeen(t *testing.T) {
	t.Parallel()
	object := func(uid string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			kind := "Pod"
			if strings.Contains(r.URL.Path, "/services/") {
				kind = "Service"
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"kind":%q,"apiVersion":"v1","metadata":{"uid":%q}}`, kind, uid)
		}
	}
	conflict := status(409, metav1.StatusReasonConflict, "the UID in the precondition does not match")
	absent := status(404, metav1.StatusReasonNotFound, "pods not found")
	for name, test := range map[string]struct {
		deletion http.HandlerFunc
		get      http.HandlerFunc
		existed  bool
		fails    bool
	}{
		"it exists":                {object("uid-1"), nil, true, false},
		"it is gone":               {absent, nil, false, false},
		"another has its name":     {conflict, object("uid-2"), false, false},
		"it went in between":       {conflict, absent, false, false},
		"a conflict of other sort": {conflict, object("uid-1"), false, true},
		"the look fails":           {conflict, status(500, metav1.StatusReasonInternalError, "etcd"), false, true},
		"the server refuses":       {status(403, metav1.StatusReasonForbidden, "no"), nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := answering(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodDelete {
					test.deletion(w, r)
					return
				}
				test.get(w, r)
			})
			podExisted, podErr := c.DeletePod(t.Context(), "ailab-kim-01020304", "uid-1")
			serviceExisted, serviceErr := c.DeleteService(t.Context(), "ailab-kim-ssh-30000", "uid-1")
			if podExisted != test.existed || (podErr != nil) != test.fails {
				t.Errorf("pod: existed %v, error %v", podExisted, podErr)
			}
			if serviceExisted != test.existed || (serviceErr != nil) != test.fails {
				t.Errorf("service: existed %v, error %v", serviceExisted, serviceErr)
			}
		})
	}
}

func TestWithoutConfigurationEveryCallSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("\tno kubeconfig"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*Cluster{
		"the file is missing":        Connect(filepath.Join(dir, "missing"), Options{Namespace: namespace}),
		"the file is garbage":        Connect(garbage, Options{Namespace: namespace}),
		"the file is empty":          Connect(empty, Options{Namespace: namespace}),
		"the address is none":        FromREST(&rest.Config{Host: "http://[::1"}, Options{Namespace: namespace}),
		"the certificate is missing": FromREST(&rest.Config{Host: "https://localhost", TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "ca")}}, Options{Namespace: namespace}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Start(t.Context())
			defer c.Stop()
			for call, err := range map[string]error{
				"Nodes":            second(c.Nodes(t.Context())),
				"Pod":              third(c.Pod(t.Context(), "ailab-kim-01020304")),
				"Pods":             second(c.Pods(t.Context())),
				"PodsOf":           second(c.PodsOf(t.Context(), "kim")),
				"CreatePod":        second(c.CreatePod(t.Context(), guestPod())),
				"DeletePod":        second(c.DeletePod(t.Context(), "ailab-kim-01020304", "uid-1")),
				"WaitReady":        c.WaitReady(t.Context(), farm.Pod{Name: "ailab-kim-01020304"}, farm.ReadyLimits{Total: time.Minute}),
				"WaitGone":         c.WaitGone(t.Context(), "ailab-kim-01020304", "uid-1", time.Minute),
				"CreateService":    c.CreateService(t.Context(), &corev1.Service{}),
				"Services":         second(c.Services(t.Context())),
				"ServicesOf":       second(c.ServicesOf(t.Context(), "ailab-kim-01020304")),
				"DeleteService":    second(c.DeleteService(t.Context(), "s", "uid-1")),
				"DeleteServicesOf": second(c.DeleteServicesOf(t.Context(), "ailab-kim-01020304")),
				"LastWarnings":     second(c.LastWarnings(t.Context(), farm.Pod{})),
				"Exec":             second(c.Exec(t.Context(), "ailab-kim-01020304", "shell", nil)),
				"Ping":             c.Ping(t.Context()),
				"Client":           second(c.Client()),
			} {
				if !errors.Is(err, farm.ErrClientSetup) {
					t.Errorf("%s: %v", call, err)
				}
			}
			if ports, known := c.TakenPorts(); known || len(ports) != 0 {
				t.Errorf("TakenPorts: %v, %v", ports, known)
			}
			if c.WaitSynced(t.Context()) {
				t.Error("WaitSynced: true")
			}
		})
	}
}

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }
