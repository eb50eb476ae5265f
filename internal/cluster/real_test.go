package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"config-server/internal/farm"
	"config-server/internal/podspec"
	"config-server/internal/testkit"
)

// The tests of this file run on a real API server, with the rights of the chart. Their pods are
// bound to a node on which nobody plays kubelet, so the tests do: as admin, in the pod's status.

// farmed is a namespace of a real API server.
type farmed struct {
	*testkit.KubeCluster
	admin kubernetes.Interface
}

func realCluster(t *testing.T) farmed {
	t.Helper()
	cluster := testkit.Cluster(t)
	return farmed{KubeCluster: cluster, admin: cluster.Admin(t)}
}

// running is a Cluster with the service's rights and running watches.
func (f farmed) running(t *testing.T, changes ...func(*Options)) *Cluster {
	t.Helper()
	opts := Options{Namespace: f.Namespace, Log: slog.New(slog.DiscardHandler)}
	for _, change := range changes {
		change(&opts)
	}
	c := FromREST(f.ServiceConfig(), opts)
	start(t, c)
	return c
}

// pod is a workspace pod as podspec writes it, on a node without kubelet.
func (f farmed) pod(t *testing.T, user farm.UserName) *corev1.Pod {
	t.Helper()
	pod, err := podspec.Build(podspec.Input{
		Settings: podspec.Settings{
			Namespace:  f.Namespace,
			CPURequest: "1000m", CPULimit: "1000m", MemRequest: "1024Mi", MemLimit: "1024Mi",
			ImagePullPolicy: "Never",
			HomeVolume:      podspec.HomeNFS, NFSServer: "192.0.2.30", NFSPath: "/volume1/share/user",
		},
		Pod:          farm.NewPodName(user, [4]byte{1, 2, 3, 4}),
		Account:      farm.Account{Name: user, UID: 20000, GID: 20000, Home: "/home/" + string(user), Shell: "/bin/bash"},
		PrimaryGroup: farm.GroupName(user),
		Config:       farm.UserConfig{Image: "dguailab/decs:1.0"},
		Node:         "nobody-plays-me",
	})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// say writes the pod's status, as kubelet would.
func (f farmed) say(t *testing.T, name farm.PodName, change func(*corev1.Pod)) {
	t.Helper()
	pods := f.admin.CoreV1().Pods(f.Namespace)
	pod, err := pods.Get(t.Context(), string(name), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	change(pod)
	if _, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// happens writes an event of a pod, as kubelet would. The number tells events of one second apart.
func (f farmed) happens(t *testing.T, number int, pod farm.Pod, kind, reason, message string, count int32) {
	t.Helper()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: f.Namespace, Name: fmt.Sprintf("%s.%02d", pod.Name, number)},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: f.Namespace, Name: string(pod.Name), UID: types.UID(pod.UID)},
		Type:           kind, Reason: reason, Message: message, Count: count, LastTimestamp: metav1.Now(),
	}
	if _, err := f.admin.CoreV1().Events(f.Namespace).Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// finish ends a deletion, as kubelet would.
func (f farmed) finish(t *testing.T, name farm.PodName) {
	t.Helper()
	now := int64(0)
	err := f.admin.CoreV1().Pods(f.Namespace).Delete(t.Context(), string(name), metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil {
		t.Fatal(err)
	}
}

// seen waits until what the watch has is so.
func seen(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.WaitFor(t, 30*time.Second, what, func(context.Context) error {
		if !ok() {
			return errors.New("not yet")
		}
		return nil
	})
}

// calls counts requests by verb and kind, watches apart.
type calls struct {
	mu   sync.Mutex
	made map[string]int
}

func (c *calls) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.made == nil {
			c.made = map[string]int{}
		}
		if r.URL.Query().Get("watch") == "" {
			parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
			kind := parts[len(parts)-1]
			if r.Method == http.MethodGet && len(parts) == 6 {
				kind = parts[4] + "/name"
			}
			c.made[r.Method+" "+kind]++
		}
		return next.RoundTrip(r)
	})
}

func (c *calls) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := c.made
	c.made = nil
	return made
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRealCreateMakesFewCalls(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	var counted calls
	c := f.running(t, func(o *Options) { o.WrapTransport = counted.wrap })
	// A 1.35 API server streams the first state into the watches.
	if made := counted.take(); len(made) != 0 {
		t.Errorf("calls of the start beside the watches: %v", made)
	}

	if _, err := c.Nodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	taken, known := c.TakenPorts()
	if !known {
		t.Error("taken ports are not known")
	}
	if _, found, err := c.Pod(t.Context(), "ailab-kim-01020304"); found || err != nil {
		t.Fatal(found, err)
	}
	pod, err := c.CreatePod(t.Context(), f.pod(t, "kim"))
	if err != nil {
		t.Fatal(err)
	}
	outcome := make(chan error, 1)
	go func() { outcome <- c.WaitReady(t.Context(), pod, farm.ReadyLimits{Total: time.Minute}) }()
	f.say(t, pod.Name, ready)
	if err := <-outcome; err != nil {
		t.Fatal(err)
	}
	ports := freePorts(t, taken, 3)
	for i, purpose := range []string{"ssh", "jupyter", "tensorboard"} {
		service := podspec.Service(f.Namespace, "kim", pod.Name, farm.Port{Internal: 22 + i, External: ports[i], Purpose: purpose})
		if err := c.CreateService(t.Context(), service); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{"GET pods/name": 1, "POST pods": 1, "POST services": 3}
	if diff := cmp.Diff(want, counted.take()); diff != "" {
		t.Errorf("calls of a create (-want +got):\n%s", diff)
	}
}

// nextPort keeps parallel tests of this package on different NodePorts, from the upper end of the
// range.
var nextPort = struct {
	sync.Mutex
	port int
}{port: 32767}

func freePorts(t *testing.T, taken map[int]bool, n int) []int {
	t.Helper()
	nextPort.Lock()
	defer nextPort.Unlock()
	var ports []int
	for len(ports) < n {
		if nextPort.port < 30000 {
			t.Fatal("no NodePort is left")
		}
		if !taken[nextPort.port] {
			ports = append(ports, nextPort.port)
		}
		nextPort.port--
	}
	return ports
}

func TestRealPortsOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	c := f.running(t)
	taken, _ := c.TakenPorts()
	port := freePorts(t, taken, 1)[0]
	foreign := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Namespace: metav1.NamespaceDefault},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeNodePort,
			Ports: []corev1.ServicePort{{Port: 80, NodePort: int32(port)}},
		},
	}
	services := f.admin.CoreV1().Services(metav1.NamespaceDefault)
	foreign, err := services.Create(t.Context(), foreign, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := services.Delete(ctx, foreign.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})

	ours := podspec.Service(f.Namespace, "kim", "ailab-kim-01020304", farm.Port{Internal: 22, External: port, Purpose: "ssh"})
	err = c.CreateService(t.Context(), ours)
	var api *farm.APIError
	if !errors.Is(err, farm.ErrPortTaken) || !errors.As(err, &api) || api.Status != 422 || !strings.Contains(api.Body, "already allocated") {
		t.Errorf("want the port to be taken, got %v", err)
	}
	seen(t, "the port is known as taken", func() bool {
		taken, known := c.TakenPorts()
		return known && taken[port]
	})

	outside := podspec.Service(f.Namespace, "kim", "ailab-kim-01020304", farm.Port{Internal: 22, External: 25000, Purpose: "ssh"})
	if err := c.CreateService(t.Context(), outside); err == nil || errors.Is(err, farm.ErrPortTaken) {
		t.Errorf("a port outside the range: %v", err)
	}
}

func TestRealNames(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	c := f.running(t)
	for _, user := range []farm.UserName{
		"kim", "kim_lab", "a-b", "2024111222", farm.UserName("u" + strings.Repeat("x", 47)),
	} {
		if err := user.CheckPod(); err != nil {
			t.Fatal(err)
		}
		pod, err := c.CreatePod(t.Context(), f.pod(t, user))
		if err != nil {
			t.Errorf("pod of %s: %v", user, err)
			continue
		}
		if pod.User != user || !pod.Guest || pod.Node != "nobody-plays-me" || pod.UID == "" {
			t.Errorf("pod of %s reads as %+v", user, pod)
		}
		if _, err := c.CreatePod(t.Context(), f.pod(t, user)); !errors.Is(err, farm.ErrExists) {
			t.Errorf("a second pod of that name: %v", err)
		}
		taken, _ := c.TakenPorts()
		for _, purpose := range []string{"ssh", "원격 화면", "***", "fifteen-letters", strings.Repeat("long ", 100)} {
			port := farm.Port{Internal: 22, External: freePorts(t, taken, 1)[0], Purpose: purpose}
			service := podspec.Service(f.Namespace, user, pod.Name, port)
			if err := c.CreateService(t.Context(), service); err != nil {
				t.Errorf("service of %s for %q: %v", user, purpose, err)
				continue
			}
			// The API server looks at the port before it looks at the name.
			if err := c.CreateService(t.Context(), service); !errors.Is(err, farm.ErrPortTaken) {
				t.Errorf("the same service again: %v", err)
			}
			service.Spec.Ports[0].NodePort = 0
			if err := c.CreateService(t.Context(), service); !errors.Is(err, farm.ErrExists) {
				t.Errorf("another service of that name: %v", err)
			}
		}
		services, err := c.ServicesOf(t.Context(), pod.Name)
		if err != nil || len(services) != 5 {
			t.Errorf("services of %s: %d, %v", pod.Name, len(services), err)
		}
		for _, s := range services {
			if s.User != user || s.Pod != pod.Name {
				t.Errorf("service reads as %+v", s)
			}
		}
		if n, err := c.DeleteServicesOf(t.Context(), pod.Name); n != 5 || err != nil {
			t.Errorf("deleted %d services of %s: %v", n, pod.Name, err)
		}
	}
	wrong := f.pod(t, "kim")
	wrong.Name = "Ailab_Kim"
	_, err := c.CreatePod(t.Context(), wrong)
	var api *farm.APIError
	if !errors.As(err, &api) || api.Status != 422 || api.Reason != "Invalid" || !strings.Contains(api.Body, "metadata.name") {
		t.Errorf("an impossible name: %v", err)
	}
}

func TestRealDeletion(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	c := f.running(t)
	pod, err := c.CreatePod(t.Context(), f.pod(t, "kim"))
	if err != nil {
		t.Fatal(err)
	}
	if existed, err := c.DeletePod(t.Context(), pod.Name, "another-uid"); existed || err != nil {
		t.Errorf("with another UID: %v, %v", existed, err)
	}
	if _, found, err := c.Pod(t.Context(), pod.Name); !found || err != nil {
		t.Fatalf("the pod after a deletion of another: %v, %v", found, err)
	}
	if existed, err := c.DeletePod(t.Context(), pod.Name, pod.UID); !existed || err != nil {
		t.Fatalf("deletion: %v, %v", existed, err)
	}
	again, found, err := c.Pod(t.Context(), pod.Name)
	if !found || err != nil || !again.Terminating {
		t.Fatalf("a bound pod waits for kubelet: %+v, %v, %v", again, found, err)
	}
	if err := c.WaitGone(t.Context(), pod.Name, pod.UID, 50*time.Millisecond); !errors.Is(err, farm.ErrWaitTimeout) || !strings.Contains(err.Error(), "being deleted") {
		t.Errorf("while kubelet does nothing: %v", err)
	}
	outcome := make(chan error, 1)
	go func() { outcome <- c.WaitGone(t.Context(), pod.Name, pod.UID, time.Minute) }()
	f.finish(t, pod.Name)
	if err := <-outcome; err != nil {
		t.Error(err)
	}
	begin := time.Now()
	if err := c.WaitGone(t.Context(), pod.Name, pod.UID, time.Minute); err != nil || time.Since(begin) > 10*time.Second {
		t.Errorf("a pod that was gone before: %v after %s", err, time.Since(begin))
	}
	if existed, err := c.DeletePod(t.Context(), pod.Name, pod.UID); existed || err != nil {
		t.Errorf("a second deletion: %v, %v", existed, err)
	}
	// A later pod of that name is another pod.
	if _, err := c.CreatePod(t.Context(), f.pod(t, "kim")); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitGone(t.Context(), pod.Name, pod.UID, time.Minute); err != nil {
		t.Errorf("the first pod, whose name another has: %v", err)
	}
	if err := c.WaitReady(t.Context(), pod, farm.ReadyLimits{Total: time.Minute}); !errors.Is(err, farm.ErrNeverReady) {
		t.Errorf("waiting for the first pod: %v", err)
	}
}

func TestRealNeverReady(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	c := f.running(t)
	pod, err := c.CreatePod(t.Context(), f.pod(t, "kim"))
	if err != nil {
		t.Fatal(err)
	}
	const message = "Container image \"dguailab/decs:1.0\" is not present with pull policy of Never"
	earlier := pod // of the same name
	earlier.UID = ""
	f.happens(t, 1, earlier, corev1.EventTypeWarning, "ErrImageNeverPull", message, 2)
	f.happens(t, 2, pod, corev1.EventTypeWarning, "Failed", message, 2)
	f.happens(t, 3, pod, corev1.EventTypeNormal, "Scheduled", message, 2)
	outcome := make(chan error, 1)
	go func() { outcome <- c.WaitReady(t.Context(), pod, farm.ReadyLimits{Total: time.Minute}) }()
	f.say(t, pod.Name, waiting("ErrImageNeverPull", "image is not present"))
	err = <-outcome
	want := fmt.Sprintf("wait until pod %s is Ready: the pod can no longer become Ready: container shell: ErrImageNeverPull: image is not present; events: Failed: %s (2 times)", pod.Name, message)
	if !errors.Is(err, farm.ErrNeverReady) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestRealWithoutTheRightToSeeOtherServices(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	f.Grant(t, "sqlite") // the chart with rbac.clusterServices off
	asService, err := kubernetes.NewForConfig(f.ServiceConfig())
	if err != nil {
		t.Fatal(err)
	}
	seen(t, "the right is gone", func() bool {
		_, err := asService.CoreV1().Services(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
		return apierrors.IsForbidden(err)
	})
	var text syncBuffer
	c := FromREST(f.ServiceConfig(), Options{Namespace: f.Namespace, Log: slog.New(slog.NewTextHandler(&text, nil))})
	c.Start(context.WithoutCancel(t.Context()))
	t.Cleanup(c.Stop)
	seen(t, "a warning about services", func() bool { return strings.Contains(text.String(), "objects=services") })
	if taken, known := c.TakenPorts(); known || len(taken) != 0 {
		t.Errorf("taken ports %v, known %v", taken, known)
	}
	// The other parts work: nodes and pods have their watches.
	seen(t, "pods are watched", c.pods.fresh)
	if _, err := c.Nodes(t.Context()); err != nil {
		t.Error(err)
	}
	// The client tries again after 0.8 s at the earliest; by the second try nothing is added.
	before := strings.Count(text.String(), "\n")
	seen(t, "a second try", func() bool { return c.services.failures.Load() >= 2 })
	if after := strings.Count(text.String(), "\n"); after != before {
		t.Errorf("the log grew with the tries:\n%s", text.String())
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
