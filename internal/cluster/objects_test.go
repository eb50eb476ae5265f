package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"config-server/internal/farm"
)

func node(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, change := range changes {
		change(n)
	}
	return n
}

func tainted(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

func farmNodes() []runtime.Object {
	return []runtime.Object{
		node("farm6", func(n *corev1.Node) {
			n.Status.Addresses = []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: "farm6"},
				{Type: corev1.NodeInternalIP, Address: "192.0.2.6"},
				{Type: corev1.NodeInternalIP, Address: "2001:db8::6"},
			}
		}),
		node("farm5", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		node("farm7", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }),
		node("farm8", func(n *corev1.Node) { n.Status.Conditions = nil }),
		node("head1", tainted("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule)),
		node("head2", tainted("node-role.kubernetes.io/master", corev1.TaintEffectNoSchedule)),
		node("soft", tainted("node-role.kubernetes.io/control-plane", corev1.TaintEffectPreferNoSchedule)),
		node("other", tainted("gpu", corev1.TaintEffectNoSchedule)),
	}
}

func wantNodes() []farm.Node {
	return []farm.Node{
		{Name: "farm5", Ready: true, Cordoned: true},
		{Name: "farm6", Ready: true, InternalIP: "192.0.2.6"},
		{Name: "farm7"},
		{Name: "farm8"},
		{Name: "head1", Ready: true, ControlPlane: true},
		{Name: "head2", Ready: true, ControlPlane: true},
		{Name: "other", Ready: true},
		{Name: "soft", Ready: true},
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	t.Run("from the watch, without a call", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c, client := started(t, farmNodes()...)
			client.ClearActions()
			got, err := c.Nodes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantNodes(), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if actions := client.Actions(); len(actions) != 0 {
				t.Errorf("calls: %v", actions)
			}
		})
	})
	t.Run("from the API server before the watch", func(t *testing.T) {
		t.Parallel()
		c := New(fake.NewClientset(farmNodes()...), Options{Namespace: namespace})
		got, err := c.Nodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wantNodes(), got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestPods(t *testing.T) {
	t.Parallel()
	born := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	mine := guestPod(ready, func(p *corev1.Pod) { p.CreationTimestamp = born })
	other := guestPod(func(p *corev1.Pod) {
		p.Name, p.UID = "ailab-a-b-01020304", "uid-2"
		p.Labels = map[string]string{farm.LabelApp: farm.AppGuest}
		p.Annotations = map[string]string{farm.AnnotationUser: "a_b"}
	})
	foreign := guestPod(func(p *corev1.Pod) { p.Name, p.UID, p.Labels = "ailab-tool", "uid-3", nil })
	elsewhere := guestPod(func(p *corev1.Pod) { p.Namespace, p.UID = "default", "uid-4" })
	c := New(fake.NewClientset(mine, other, foreign, elsewhere), Options{Namespace: namespace})

	kim := farm.Pod{
		Name: "ailab-kim-01020304", UID: "uid-1", User: "kim", Node: "farm6", Image: "dguailab/decs:1.0",
		Guest: true, Phase: "Running", Ready: true, CreatedAt: born.Time,
	}
	aB := farm.Pod{
		Name: "ailab-a-b-01020304", UID: "uid-2", User: "a_b", Node: "farm6", Image: "dguailab/decs:1.0",
		Guest: true, Phase: "Pending",
	}
	all, err := c.Pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]farm.Pod{aB, kim}, all); diff != "" {
		t.Errorf("all pods (-want +got):\n%s", diff)
	}
	ofKim, err := c.PodsOf(t.Context(), "kim")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]farm.Pod{kim}, ofKim); diff != "" {
		t.Errorf("pods of kim (-want +got):\n%s", diff)
	}
	tool, found, err := c.Pod(t.Context(), "ailab-tool")
	if err != nil || !found || tool.Guest {
		t.Errorf("a pod of somebody else: %+v, %v, %v", tool, found, err)
	}
	if _, found, err := c.Pod(t.Context(), "ailab-none-01020304"); found || err != nil {
		t.Errorf("a pod that is not there: %v, %v", found, err)
	}
}

func service(name, uid string, changes ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: namespace, UID: types.UID(uid),
		Labels: map[string]string{
			farm.LabelApp: farm.AppNodePort, farm.LabelUser: "kim",
			farm.LabelPod: "ailab-kim-01020304", farm.LabelPurpose: "ssh",
		},
	}}
	s.Spec.Ports = []corev1.ServicePort{{Name: "ssh", Port: 22, TargetPort: intstr.FromInt32(22), NodePort: 30000}}
	for _, change := range changes {
		change(s)
	}
	return s
}

func TestServices(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*corev1.Service)
		want   farm.Port
	}{
		"purpose from the label": {func(*corev1.Service) {}, farm.Port{Internal: 22, External: 30000, Purpose: "ssh"}},
		"purpose as the user wrote it": {
			func(s *corev1.Service) { s.Annotations = map[string]string{farm.AnnotationPurpose: "원격"} },
			farm.Port{Internal: 22, External: 30000, Purpose: "원격"},
		},
		"purpose from the port's name": {
			func(s *corev1.Service) { delete(s.Labels, farm.LabelPurpose); s.Spec.Ports[0].Name = "web" },
			farm.Port{Internal: 22, External: 30000, Purpose: "web"},
		},
		"no purpose": {
			func(s *corev1.Service) { delete(s.Labels, farm.LabelPurpose); s.Spec.Ports[0].Name = "" },
			farm.Port{Internal: 22, External: 30000, Purpose: "custom"},
		},
		"no target port": {
			func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.IntOrString{} },
			farm.Port{Internal: 22, External: 30000, Purpose: "ssh"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := New(fake.NewClientset(service("s", "uid-s", test.change)), Options{Namespace: namespace})
			got, err := c.ServicesOf(t.Context(), "ailab-kim-01020304")
			if err != nil {
				t.Fatal(err)
			}
			want := []farm.Service{{Name: "s", UID: "uid-s", User: "kim", Pod: "ailab-kim-01020304", Ports: []farm.Port{test.want}}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeleteServicesOf(t *testing.T) {
	t.Parallel()
	three := func() []runtime.Object {
		foreign := service("foreign", "uid-f", func(s *corev1.Service) { s.Labels[farm.LabelApp] = "web" })
		return []runtime.Object{service("a", "uid-a"), service("b", "uid-b"), service("c", "uid-c"), foreign}
	}
	left := func(t *testing.T, client *fake.Clientset) string {
		list, err := client.CoreV1().Services(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range list.Items {
			names = append(names, s.Name)
		}
		return strings.Join(names, " ")
	}
	t.Run("all of them and no other", func(t *testing.T) {
		t.Parallel()
		client := fake.NewClientset(three()...)
		c := New(client, Options{Namespace: namespace})
		n, err := c.DeleteServicesOf(t.Context(), "ailab-kim-01020304")
		if n != 3 || err != nil || left(t, client) != "foreign" {
			t.Errorf("deleted %d, %v, left %q", n, err, left(t, client))
		}
		if n, err := c.DeleteServicesOf(t.Context(), "ailab-kim-01020304"); n != 0 || err != nil {
			t.Errorf("again: deleted %d, %v", n, err)
		}
	})
	t.Run("one that fails does not stop the others", func(t *testing.T) {
		t.Parallel()
		client := fake.NewClientset(three()...)
		client.PrependReactor("delete", "services", func(action k8stesting.Action) (bool, runtime.Object, error) {
			name := action.(k8stesting.DeleteAction).GetName()
			return name == "a", nil, errors.New("refused")
		})
		c := New(client, Options{Namespace: namespace})
		n, err := c.DeleteServicesOf(t.Context(), "ailab-kim-01020304")
		if n != 2 || err == nil || !strings.Contains(err.Error(), "delete service a: refused") || left(t, client) != "a foreign" {
			t.Errorf("deleted %d, %v, left %q", n, err, left(t, client))
		}
	})
	t.Run("one that stays is an error", func(t *testing.T) {
		t.Parallel()
		client := fake.NewClientset(three()...)
		client.PrependReactor("delete", "services", func(action k8stesting.Action) (bool, runtime.Object, error) {
			return action.(k8stesting.DeleteAction).GetName() == "b", nil, nil // accepted, held by a finalizer
		})
		c := New(client, Options{Namespace: namespace})
		if _, err := c.DeleteServicesOf(t.Context(), "ailab-kim-01020304"); err == nil || !strings.Contains(err.Error(), "1 are left") {
			t.Errorf("error %v", err)
		}
	})
}

func TestTakenPorts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		foreign := service("web", "uid-w", func(s *corev1.Service) {
			s.Namespace, s.Labels = "default", nil
			s.Spec.Ports = []corev1.ServicePort{{NodePort: 30007}, {NodePort: 30008}, {Port: 80}}
			s.Spec.HealthCheckNodePort = 30009
		})
		unbound := service("b", "uid-b", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 })
		c, client := started(t, foreign, service("a", "uid-a"), unbound)
		want := map[int]bool{30000: true, 30007: true, 30008: true, 30009: true}
		got, known := c.TakenPorts()
		if diff := cmp.Diff(want, got); diff != "" || !known {
			t.Errorf("known %v (-want +got):\n%s", known, diff)
		}
		if err := client.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got, known = c.TakenPorts()
		if diff := cmp.Diff(map[int]bool{30000: true}, got); diff != "" || !known {
			t.Errorf("after the deletion, known %v (-want +got):\n%s", known, diff)
		}
	})
}

func TestLastWarnings(t *testing.T) {
	t.Parallel()
	many := warning("BackOff", "again\nand again", time.Second)
	many.Count = 7
	series := warning("Mount", "slow", 2*time.Second)
	series.LastTimestamp = metav1.Time{}
	series.Series = &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(time.Date(2026, 1, 1, 11, 59, 58, 0, time.UTC))}
	client := fake.NewClientset(warning("Last", "newest", 0), many, series,
		warning("Third", "x", 3*time.Second), warning("Fourth", "x", 4*time.Second), warning("Fifth", "too old", 5*time.Second))
	c := New(client, Options{Namespace: namespace})
	got, err := c.LastWarnings(t.Context(), podOf(guestPod()))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Fourth: x", "Third: x", "Mount: slow (3 times)", "BackOff: again and again (7 times)", "Last: newest"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	gone := errors.New("caller is gone")
	for name, test := range map[string]struct {
		exec   ExecFunc
		cancel bool
		want   farm.ExecResult
		is     error
		says   string
	}{
		"a command that fails is a result": {
			exec: func(context.Context, farm.PodName, string, []string) (farm.ExecResult, error) {
				return farm.ExecResult{ExitCode: 3, Stderr: "no space"}, nil
			},
			want: farm.ExecResult{ExitCode: 3, Stderr: "no space"},
		},
		"a command that is not run is an error": {
			exec: func(context.Context, farm.PodName, string, []string) (farm.ExecResult, error) {
				return farm.ExecResult{}, errors.New("container not found")
			},
			says: "exec in pod ailab-kim-01020304, container shell: container not found",
		},
		"a caller that is gone": {
			exec: func(ctx context.Context, _ farm.PodName, _ string, _ []string) (farm.ExecResult, error) {
				return farm.ExecResult{}, ctx.Err()
			},
			cancel: true, is: gone, says: "caller is gone",
		},
		"a client without commands": {says: "cannot run commands"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if test.cancel {
				cancel(gone)
			}
			c := New(fake.NewClientset(), Options{Namespace: namespace, Exec: test.exec})
			got, err := c.Exec(ctx, "ailab-kim-01020304", "shell", []string{"true"})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			switch {
			case (err != nil) != (test.says != ""):
				t.Errorf("error %v", err)
			case err != nil && !strings.Contains(err.Error(), test.says), test.is != nil && !errors.Is(err, test.is):
				t.Errorf("error %q, want %q", err, test.says)
			}
		})
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		writes []string
		want   string
	}{
		"nothing":                {nil, ""},
		"less than the limit":    {[]string{"ab", "c"}, "abc"},
		"more than the limit":    {[]string{"0123456789"}, "6789"},
		"many small writes":      {strings.Split(strings.Repeat("0123456789", 50), ""), "6789"},
		"a character is cut off": {[]string{"0가12"}, "?12"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &tail{limit: 4}
			for _, text := range test.writes {
				if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatalf("wrote %d, %v", n, err)
				}
			}
			if got := w.String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if len(w.kept) > 2*w.limit+10 {
				t.Errorf("%d bytes are kept", len(w.kept))
			}
		})
	}
}

func TestGravesForgetTheOldest(t *testing.T) {
	t.Parallel()
	var g graves
	uid := func(i int) types.UID { return types.UID(strings.Repeat("x", 3) + string(rune(i))) }
	for i := range maxGraves + 10 {
		g.add(uid(i))
		g.add(uid(i))
	}
	if g.has(uid(9)) || !g.has(uid(10)) || !g.has(uid(maxGraves+9)) || len(g.known) != maxGraves {
		t.Errorf("%d graves; 9 %v, 10 %v", len(g.known), g.has(uid(9)), g.has(uid(10)))
	}
}

func TestWaitersLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	var w waiters
	first, endFirst := w.register("ailab-kim-01020304")
	second, endSecond := w.register("ailab-kim-01020304")
	w.signal("ailab-kim-01020304")
	w.signal("ailab-kim-01020304")
	w.signal("ailab-lee-01020304")
	if len(first) != 1 || len(second) != 1 {
		t.Errorf("%d and %d signals", len(first), len(second))
	}
	endFirst()
	endSecond()
	endSecond()
	if len(w.byPod) != 0 {
		t.Errorf("left: %v", w.byPod)
	}
}

func TestKnownPods(t *testing.T) {
	t.Parallel()
	pod := guestPod(ready, func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "nvidia0"}, {Name: "nvidia1"}, {Name: "nvidiauvm"}}
	})
	foreign := guestPod(func(p *corev1.Pod) { p.Name, p.UID, p.Labels = "ailab-tool", "uid-3", nil })
	want := []farm.Pod{{
		Name: "ailab-kim-01020304", UID: "uid-1", User: "kim", Node: "farm6", Guest: true, Phase: "Running", Ready: true, GPUs: 2,
		GPUIndexes: farm.NewGPUSet(0, 1), Image: "dguailab/decs:1.0",
	}}
	t.Run("from the watch, without a call", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c, client := started(t, pod)
			client.ClearActions()
			got, err := c.KnownPods(t.Context())
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if actions := client.Actions(); len(actions) != 0 {
				t.Errorf("calls: %v", actions)
			}
		})
	})
	t.Run("from the API server before the watch", func(t *testing.T) {
		t.Parallel()
		got, err := New(fake.NewClientset(pod, foreign), Options{Namespace: namespace}).KnownPods(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("an error without a cluster", func(t *testing.T) {
		t.Parallel()
		if got, err := New(nil, Options{Namespace: namespace}).KnownPods(t.Context()); !errors.Is(err, farm.ErrClientSetup) || got != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
}
