package demo

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"config-server/internal/cluster"
	"config-server/internal/farm"
)

// kubernetes is the cluster that is played, without the rest of the farm, and the service's view
// of it.
func kubernetes(t *testing.T, slow time.Duration) (*apiServer, *cluster.Cluster) {
	t.Helper()
	api, err := newAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	k := startKubelet(api, slow)
	c := cluster.New(api.client, cluster.Options{Namespace: namespace, Exec: k.exec})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c.Start(ctx)
	t.Cleanup(func() {
		cancel()
		c.Stop()
		k.close()
		api.store.close()
	})
	if !c.WaitSynced(t.Context()) {
		t.Fatal("the watches did not begin")
	}
	return api, c
}

func podOf(user string) *corev1.Pod {
	name := "ailab-" + user + "-00000001"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			farm.LabelApp: farm.AppGuest, farm.LabelUser: user, farm.LabelPod: name,
		}},
		Spec: corev1.PodSpec{
			NodeName: "farm6", RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: farm.ContainerName, Image: "dguailab/decs:1.0", ImagePullPolicy: corev1.PullNever}},
		},
	}
}

// TestPodsBehaveAsTheNameOfTheirUserSays runs on a clock of its own, so that limits cost no time.
func TestPodsBehaveAsTheNameOfTheirUserSays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		user string
		is   error // nil = Ready
		says []string
		took time.Duration
	}{
		"anybody":           {user: "kim"},
		"slow":              {user: "slowkim", took: 5 * time.Second},
		"never":             {user: "neverkim", is: farm.ErrWaitTimeout, says: []string{"ContainerCreating", "FailedMount"}, took: time.Minute},
		"failed":            {user: "failedkim", is: farm.ErrNeverReady, says: []string{"status 1", "BackOff"}},
		"without its image": {user: "noimagekim", is: farm.ErrNeverReady, says: []string{"ErrImageNeverPull", "dguailab/decs:1.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, c := kubernetes(t, 5*time.Second)
				begin := time.Now()
				pod, err := c.CreatePod(t.Context(), podOf(test.user))
				if err != nil {
					t.Fatal(err)
				}
				err = c.WaitReady(t.Context(), pod, farm.ReadyLimits{Total: time.Minute})
				if !errors.Is(err, test.is) || (test.is == nil) != (err == nil) {
					t.Fatalf("WaitReady: %v, want %v", err, test.is)
				}
				for _, words := range test.says {
					if !strings.Contains(err.Error(), words) {
						t.Errorf("%v does not say %s", err, words)
					}
				}
				if took := time.Since(begin); took < test.took || took > test.took+time.Second {
					t.Errorf("it took %s, want %s", took, test.took)
				}
			})
		})
	}
}

func TestAPodWithAGPUGoesToItsNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := kubernetes(t, time.Second)
		pod := podOf("kim")
		pod.Spec.NodeName = ""
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"farm7"}}}}},
		}}}
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
		made, err := c.CreatePod(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WaitReady(t.Context(), made, farm.ReadyLimits{Total: time.Minute}); err != nil {
			t.Fatal(err)
		}
		bound, err := c.BoundPods(t.Context(), true)
		if err != nil || len(bound) != 1 {
			t.Fatalf("%d pods are bound, error %v", len(bound), err)
		}
		requests := bound[0].Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
		if bound[0].Spec.NodeName != "farm7" || requests.Value() != 2 {
			t.Errorf("on %q with %s GPUs, want farm7 and 2", bound[0].Spec.NodeName, requests.String())
		}
	})
}

func TestADeletedPodGoesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := kubernetes(t, time.Second)
		pod, err := c.CreatePod(t.Context(), podOf("kim"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.WaitReady(t.Context(), pod, farm.ReadyLimits{Total: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if existed, err := c.DeletePod(t.Context(), pod.Name, "another-uid"); existed || err != nil {
			t.Errorf("deletion by another UID: %v, %v; want nothing done", existed, err)
		}
		if existed, err := c.DeletePod(t.Context(), pod.Name, pod.UID); !existed || err != nil {
			t.Fatalf("DeletePod = %v, %v", existed, err)
		}
		if err := c.WaitGone(t.Context(), pod.Name, pod.UID, time.Second); err != nil {
			t.Error(err)
		}
		if existed, err := c.DeletePod(t.Context(), pod.Name, pod.UID); existed || err != nil {
			t.Errorf("second deletion: %v, %v; want none there", existed, err)
		}
	})
}

func TestTheSaveScriptFailsForTheOneWhoAsks(t *testing.T) {
	t.Parallel()
	for user, code := range map[string]int{"kim": 0, "unsavedkim": 1} {
		synctest.Test(t, func(t *testing.T) {
			_, c := kubernetes(t, time.Second)
			command := []string{"/usr/local/bin/save_image.sh"}
			if _, err := c.Exec(t.Context(), "ailab-nobody-00000001", farm.ContainerName, command); err == nil {
				t.Error("a command ran in a pod that is not there")
			}
			pod, err := c.CreatePod(t.Context(), podOf(user))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.WaitReady(t.Context(), pod, farm.ReadyLimits{Total: time.Minute}); err != nil {
				t.Fatal(err)
			}
			result, err := c.Exec(t.Context(), pod.Name, farm.ContainerName, command)
			if err != nil || result.ExitCode != code {
				t.Errorf("%s: exit %d, %v; want %d", user, result.ExitCode, err, code)
			}
		})
	}
}

func TestServicesAreRefusedAsTheAPIServerDoes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		service string
		port    int32
		taken   bool   // the port belongs to another Service
		says    string // "" = accepted
	}{
		"a free port":             {"ailab-kim-ssh-30000", 30000, false, ""},
		"the last port":           {"ailab-kim-ssh-32767", 32767, false, ""},
		"a port of ours":          {"ailab-kim-ssh-30001", 30001, true, "provided port is already allocated"},
		"of another namespace":    {"ailab-kim-ssh-30002", 30002, true, "provided port is already allocated"},
		"below the range":         {"ailab-kim-ssh-29999", 29999, false, "not in the valid range"},
		"above the range":         {"ailab-kim-ssh-32768", 32768, false, "not in the valid range"},
		"an underscore":           {"ailab-kim_-ssh-30000", 30000, false, "metadata.name"},
		"Korean in the name":      {"ailab-kim-시연-30000", 30000, false, "metadata.name"},
		"a name that is too long": {strings.Repeat("a", 64), 30000, false, "metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, c := kubernetes(t, time.Second)
			if err := c.CreateService(t.Context(), nodePortService(namespace, "ailab-lee-ssh-30001", 22, 30001)); err != nil {
				t.Fatal(err)
			}
			err := c.CreateService(t.Context(), nodePortService(namespace, test.service, 22, test.port))
			if errors.Is(err, farm.ErrPortTaken) != test.taken {
				t.Errorf("%v: taken %v, want %v", err, !test.taken, test.taken)
			}
			if test.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var told *farm.APIError
			if !errors.As(err, &told) || told.Status != 422 || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want 422 with %q", err, test.says)
			}
			if _, err := api.store.get(place{"services", namespace, test.service}); !apierrors.IsNotFound(err) {
				t.Errorf("a refused Service is there: %v", err)
			}
		})
	}
}

func TestTwoServicesOfOneNameAreRefused(t *testing.T) {
	t.Parallel()
	_, c := kubernetes(t, time.Second)
	service := nodePortService(namespace, "ailab-kim-ssh-30000", 22, 30000)
	if err := c.CreateService(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateService(t.Context(), service); !errors.Is(err, farm.ErrExists) {
		t.Errorf("%v, want ErrExists", err)
	}
}

func TestAWatchBeginsWhereTheListEnded(t *testing.T) {
	t.Parallel()
	api, err := newAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.store.close)
	pods := api.client.CoreV1().Pods(namespace)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := pods.Create(t.Context(), podOf("kim"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	uid, now := made.UID, int64(0)
	if err := pods.Delete(t.Context(), made.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		t.Fatal(err)
	}
	stream, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Stop()
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		if event := <-stream.ResultChan(); event.Type != want {
			t.Errorf("%s, want %s", event.Type, want)
		}
	}
}

func TestWhatIsNotPlayedIsRefused(t *testing.T) {
	t.Parallel()
	api, err := newAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.client.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("Deployments: %v", err)
	}
	if _, err := api.client.CoreV1().Pods(namespace).Patch(t.Context(), "a", types.MergePatchType, []byte("{}"), metav1.PatchOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("Patch: %v", err)
	}
	if _, err := api.client.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("Watch: %v", err)
	}
	stale := podOf("kim")
	if _, err := api.client.CoreV1().Pods(namespace).Create(t.Context(), stale, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stale.ResourceVersion = "1"
	if _, err := api.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update of an old state: %v", err)
	}
}
