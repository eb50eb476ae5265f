package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/kubelet"
)

// TestRealLastLog reads the log of a container that ended at once, with the rights of the chart.
func TestRealLastLog(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		logs     []kubelet.Log
		restarts int32
		want     string
	}{
		"no log, as of a node that is gone": {nil, 0, ""},
		"nothing written":                   {[]kubelet.Log{{}}, 0, ""},
		"a few lines": {[]kubelet.Log{{Text: "starting\n\x1b[31mno user of this uid\x1b[0m\n"}}, 0,
			"log of container shell:\nstarting\nno user of this uid"},
		"twenty of many lines": {[]kubelet.Log{{Text: strings.Repeat("again\n", 100) + "end\n"}}, 0,
			"log of container shell:\n" + strings.Repeat("again\n", 19) + "end"},
		"a secret": {[]kubelet.Log{{Text: "kim:$6$abcdefgh$Zk3.x/yQ:20000::::::\n"}}, 0,
			"log of container shell:\nkim:***:20000::::::"},
		"after a restart": {[]kubelet.Log{{Text: "second\n", Previous: "first\n"}}, 1,
			"log of container shell:\nsecond\nlog of container shell before its restart:\nfirst"},
		"a reading that hangs": {[]kubelet.Log{{Text: "so far\n", Hang: true}}, 0, ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := realCluster(t)
			f.OnLogs(t, test.logs...)
			c := f.running(t)
			spec := f.pod(t, "kim")
			spec.Spec.NodeName, spec.Spec.Containers[0].Image = "farm6", testkit.ImageFails
			pod, err := c.CreatePod(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.WaitReady(t.Context(), pod, farm.ReadyLimits{Total: time.Minute}); !errors.Is(err, farm.ErrNeverReady) {
				t.Fatal(err)
			}
			if test.restarts > 0 {
				f.say(t, pod.Name, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = test.restarts })
				seen(t, "the restart is seen", func() bool {
					return c.kept(pod.Name, pod.UID).pod.Status.ContainerStatuses[0].RestartCount == test.restarts
				})
			}
			begin := time.Now()
			if got := c.LastLog(t.Context(), pod); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestRealLastLogOfWhatNeverRan(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	f.OnLogs(t, kubelet.Log{Text: "somebody else's\n"})
	c := f.running(t)
	pod, err := c.CreatePod(t.Context(), f.pod(t, "kim"))
	if err != nil {
		t.Fatal(err)
	}
	f.say(t, pod.Name, waiting("ErrImageNeverPull", "image is not present"))
	if got := c.LastLog(t.Context(), pod); got != "" {
		t.Errorf("got %q", got)
	}
	if got := c.LastLog(t.Context(), farm.Pod{Name: "ailab-kim-ffffffff"}); got != "" {
		t.Errorf("of no pod: %q", got)
	}
}

// TestRealDoing plays kubelet step by step and looks at the words, with the rights of the chart.
func TestRealDoing(t *testing.T) {
	t.Parallel()
	f := realCluster(t)
	c := f.running(t)
	pod, err := c.CreatePod(t.Context(), f.pod(t, "kim"))
	if err != nil {
		t.Fatal(err)
	}
	events := 0
	happens := func(kind, reason, message string) {
		t.Helper()
		events++
		f.happens(t, events, pod, kind, reason, message, 1)
	}
	says := func(want string) {
		t.Helper()
		seen(t, want, func() bool { return c.Doing(t.Context(), pod.Name) == want })
	}
	says("waiting until the node takes the pod up")
	f.say(t, pod.Name, waiting("ContainerCreating", ""))
	says("mounting volumes and preparing the network")
	happens(corev1.EventTypeWarning, "FailedMount", `MountVolume.SetUp failed for volume "nfs-home" : mount timed out`)
	says(`mounting volumes fails and is tried again: MountVolume.SetUp failed for volume "nfs-home" : mount timed out`)
	happens(corev1.EventTypeNormal, "Pulling", `Pulling image "dguailab/decs:1.0"`)
	says(`pulling image "dguailab/decs:1.0"`)
	happens(corev1.EventTypeNormal, "Created", "Created container: shell")
	says("the container is made, starting it")
	f.say(t, pod.Name, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	})
	says("the container runs, its readiness is waited for")
	f.say(t, pod.Name, ready)
	says("the pod is Ready")
}
