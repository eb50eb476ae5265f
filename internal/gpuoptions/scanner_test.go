package gpuoptions

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// sourceCase is a cluster, and what is offered of it.
type sourceCase struct {
	cluster  func(*scripted)
	options  Options
	own      string // driver of a render node of the own node
	want     []string
	warnings []string
}

// scanned is the GPU of the cluster that cases begin with, as it is found without templates.
const scanned = "nvidia.com/gpu nvidia nvidia.com/gpu - nodes 3/4"

// gpusCapped are quotas that allow none of it.
func gpusCapped() []corev1.ResourceQuota {
	return []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "0")}
}

// asksGPU has a template ask for one of it.
func asksGPU(spec *corev1.PodSpec) { spec.Containers[0].Resources.Limits = list("nvidia.com/gpu", "1") }

// The cases stand beside one another by source: sources_nodes_test.go and so on.
func TestGPUOptionsSources(t *testing.T) {
	t.Parallel()
	all := map[string]sourceCase{}
	for _, cases := range []map[string]sourceCase{nodeSources(), templateSources(), classSources(), quotaSources()} {
		maps.Copy(all, cases)
	}
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := ofGPUs()
			if tc.cluster != nil {
				tc.cluster(cluster)
			}
			tc.options.Reader, tc.options.Root = cluster, t.TempDir()
			if tc.own != "" {
				renderNode(t, tc.options.Root, "renderD128", tc.own)
			}
			got, warnings := listed(t, New(tc.options))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options (-want +got)\n%s", diff)
			}
			if len(warnings) != len(tc.warnings) {
				t.Fatalf("warnings %q, want %q", warnings, tc.warnings)
			}
			for i, part := range tc.warnings {
				if !strings.Contains(warnings[i], part) {
					t.Errorf("warning %q, want one with %q", warnings[i], part)
				}
			}
		})
	}
}

func TestGPUOptionsModeOffAsksNothing(t *testing.T) {
	t.Parallel()
	cluster := ofGPUs()
	s := New(Options{Reader: cluster, Mode: Off})
	listed(t, s)
	if _, err := s.Choose(t.Context(), "nvidia.com/gpu"); !errors.Is(err, farm.ErrNotFound) || !strings.Contains(err.Error(), "GPU_DISCOVERY") {
		t.Errorf("error %v, want one that names the switch", err)
	}
	if census, err := s.Census(t.Context(), 0); len(census) != 0 || err != nil {
		t.Errorf("census %v, error %v", census, err)
	}
	if asked := cluster.take(); len(asked) != 0 {
		t.Errorf("asked for %v", asked)
	}
}

func TestGPUOptionsTemplatesAreReadAnew(t *testing.T) {
	t.Parallel()
	cluster := ofGPUs()
	s := New(Options{Reader: cluster})
	for step, tc := range []struct {
		templates []corev1.PodTemplate
		want      string
	}{
		{nil, "nvidia.com/gpu"}, {[]corev1.PodTemplate{template("new", "nvidia", nil)}, "new"}, {nil, "nvidia.com/gpu"},
	} {
		cluster.templates = tc.templates
		if _, err := s.Choose(t.Context(), tc.want); err != nil {
			t.Errorf("step %d: choose: %v", step, err)
		}
		if got, _ := listed(t, s); len(got) != 1 || !strings.HasPrefix(got[0], tc.want+" ") {
			t.Errorf("step %d: options %q, want %s", step, got, tc.want)
		}
	}
	if asked := cluster.take(); asked[kindTemplates] != 6 {
		t.Errorf("templates were listed %d times for six uses", asked[kindTemplates])
	}
}

func TestGPUOptionsAFailureKeepsWhatWasOffered(t *testing.T) {
	t.Parallel()
	t.Run("templates", func(t *testing.T) {
		t.Parallel()
		cluster := ofGPUs()
		cluster.templates = []corev1.PodTemplate{template("a", "nvidia", nil)}
		s := New(Options{Reader: cluster})
		before, _ := listed(t, s)
		cluster.fail(kindTemplates, silent())
		after, warnings := listed(t, s)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("options changed (-before +after)\n%s", diff)
		}
		if len(warnings) != 1 || !strings.Contains(warnings[0], "earlier listing") {
			t.Errorf("warnings %q", warnings)
		}
		if _, err := s.Choose(t.Context(), "a"); err != nil {
			t.Errorf("choose: %v", err)
		}
		cluster.fail(kindTemplates, nil)
		cluster.templates = nil
		if got, _ := listed(t, s); len(got) != 1 || !strings.HasPrefix(got[0], "nvidia.com/gpu ") {
			t.Errorf("options after the failure: %q", got)
		}
	})
	t.Run("scanned GPUs", func(t *testing.T) {
		t.Parallel()
		cluster := ofGPUs()
		s := New(Options{Reader: cluster})
		before, _ := listed(t, s)
		cluster.fail(kindTemplates, silent())
		after, _ := listed(t, s)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("options changed (-before +after)\n%s", diff)
		}
	})
	t.Run("nothing was offered yet", func(t *testing.T) {
		t.Parallel()
		cluster := ofGPUs()
		cluster.fail(kindTemplates, silent())
		s := New(Options{Reader: cluster})
		if offer, err := s.List(t.Context()); err == nil {
			t.Errorf("options %+v, want an error: nobody knows whether there are templates", offer)
		}
		if _, err := s.Choose(t.Context(), "nvidia.com/gpu"); err == nil || errors.Is(err, farm.ErrNotFound) {
			t.Errorf("choose: %v, want another error than an unknown option", err)
		}
		if asked := cluster.take(); asked[kindNodes] != 0 {
			t.Error("the cluster was scanned")
		}
	})
	t.Run("the right is taken away", func(t *testing.T) {
		t.Parallel()
		cluster := ofGPUs()
		cluster.templates = []corev1.PodTemplate{template("a", "nvidia", nil)}
		s := New(Options{Reader: cluster})
		listed(t, s)
		cluster.fail(kindTemplates, forbidden())
		if got, _ := listed(t, s); len(got) != 1 || !strings.HasPrefix(got[0], "nvidia.com/gpu ") {
			t.Errorf("options %q, want the scanned ones", got)
		}
	})
}

func TestGPUOptionsTemplatesHaveFiveSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := ofGPUs()
		cluster.templates = []corev1.PodTemplate{template("a", "nvidia", nil)}
		s := New(Options{Reader: cluster})
		before, _ := listed(t, s)
		cluster.hangs = map[string]bool{kindTemplates: true}
		began := time.Now()
		after, _ := listed(t, s)
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("a listing without an answer took %s", took)
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("options changed (-before +after)\n%s", diff)
		}
	})
}

func TestGPUOptionsScanIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := ofGPUs()
		s := New(Options{Reader: cluster, Interval: 10 * time.Second})
		listed(t, s)
		first := cluster.take()
		want := map[string]int{kindTemplates: 1, kindQuotas: 1, kindNodes: 1, kindClasses: 1, kindAllPods: 1}
		if diff := cmp.Diff(want, first); diff != "" {
			t.Errorf("the first listing asked for (-want +got)\n%s", diff)
		}
		time.Sleep(10*time.Second - 1)
		listed(t, s)
		if diff := cmp.Diff(map[string]int{kindTemplates: 1}, cluster.take()); diff != "" {
			t.Errorf("a listing within the interval asked for (-want +got)\n%s", diff)
		}
		if choice, err := s.Choose(t.Context(), "nvidia.com/gpu"); err != nil || choice.Free != 3 {
			t.Errorf("chose %+v, error %v", choice, err)
		}
		if diff := cmp.Diff(map[string]int{kindTemplates: 1, kindAllPods: 1}, cluster.take()); diff != "" {
			t.Errorf("a choice within the interval asked for (-want +got)\n%s", diff)
		}
		time.Sleep(time.Nanosecond)
		cluster.nodes = append(cluster.nodes, node("b", list("amd.com/gpu", "1")))
		if got, _ := listed(t, s); len(got) != 2 {
			t.Errorf("options after the interval: %q", got)
		}
		if asked := cluster.take(); asked[kindNodes] != 1 || asked[kindQuotas] != 1 {
			t.Errorf("a listing after the interval asked for %v", asked)
		}
	})
}

func TestGPUOptionsScanThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := ofGPUs()
		cluster.fail(kindNodes, silent())
		s := New(Options{Reader: cluster})
		if _, err := s.List(t.Context()); err == nil {
			t.Error("a first scan that fails is no error")
		}
		cluster.fail(kindNodes, nil)
		before, _ := listed(t, s)
		for _, kind := range []string{kindNodes, kindQuotas, kindClasses} {
			time.Sleep(DefaultInterval)
			cluster.fail(kind, silent())
			after, _ := listed(t, s)
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("%s cannot be listed: options changed (-before +after)\n%s", kind, diff)
			}
			cluster.take()
			listed(t, s)
			if asked := cluster.take(); asked[kindNodes] != 0 {
				t.Error("a scan that failed was repeated at once")
			}
			cluster.fail(kind, nil)
		}
	})
}

func TestGPUOptionsCallersShareAScan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := ofGPUs()
		cluster.hangs = map[string]bool{kindNodes: true}
		s := New(Options{Reader: cluster})
		first, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := s.List(first); err == nil {
				t.Error("a listing that was given up has an answer")
			}
		})
		synctest.Wait()
		for range 50 {
			all.Go(func() {
				if _, err := s.Choose(t.Context(), "nvidia.com/gpu"); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		cluster.mu.Lock()
		cluster.hangs = nil
		cluster.mu.Unlock()
		cluster.take()
		cancel()
		all.Wait()
		if asked := cluster.take(); asked[kindNodes] != 1 || asked[kindAllPods] != 1 {
			t.Errorf("fifty callers asked for %v", asked)
		}
	})
}
