package gpuoptions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"config-server/internal/farm"
)

// The kinds that a scripted cluster is asked for.
const (
	kindTemplates = "podtemplates"
	kindQuotas    = "quotas"
	kindNodes     = "nodes"
	kindClasses   = "deviceclasses"
	kindAllPods   = "pods everywhere"
	kindPods      = "pods"
)

// scripted answers as its fields say and counts what it is asked.
type scripted struct {
	mu        sync.Mutex
	templates []corev1.PodTemplate
	quotas    []corev1.ResourceQuota
	nodes     []corev1.Node
	classes   []resourcev1.DeviceClass
	pods      []corev1.Pod // everywhere
	ownPods   []corev1.Pod
	fails     map[string]error
	hangs     map[string]bool
	asked     map[string]int
}

func (s *scripted) answer(ctx context.Context, kind string) error {
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[kind]++
	err, hangs := s.fails[kind], s.hangs[kind]
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return fmt.Errorf("list %s: %w", kind, ctx.Err())
	}
	return err
}

func (s *scripted) fail(kind string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails == nil {
		s.fails = map[string]error{}
	}
	s.fails[kind] = err
}

// take returns how often each kind was asked for since the last take.
func (s *scripted) take() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *scripted) PodTemplates(ctx context.Context, label string) ([]corev1.PodTemplate, error) {
	if err := s.answer(ctx, kindTemplates); err != nil {
		return nil, err
	}
	var with []corev1.PodTemplate
	for _, template := range s.templates {
		if _, ok := template.Labels[label]; ok {
			with = append(with, template)
		}
	}
	return with, nil
}

func (s *scripted) ResourceQuotas(ctx context.Context) ([]corev1.ResourceQuota, error) {
	if err := s.answer(ctx, kindQuotas); err != nil {
		return nil, err
	}
	return s.quotas, nil
}

func (s *scripted) NodeResources(ctx context.Context) ([]corev1.Node, error) {
	if err := s.answer(ctx, kindNodes); err != nil {
		return nil, err
	}
	return s.nodes, nil
}

func (s *scripted) DeviceClasses(ctx context.Context) ([]resourcev1.DeviceClass, error) {
	if err := s.answer(ctx, kindClasses); err != nil {
		return nil, err
	}
	return s.classes, nil
}

func (s *scripted) BoundPods(ctx context.Context, everywhere bool) ([]corev1.Pod, error) {
	if everywhere {
		if err := s.answer(ctx, kindAllPods); err != nil {
			return nil, err
		}
		return s.pods, nil
	}
	if err := s.answer(ctx, kindPods); err != nil {
		return nil, err
	}
	return s.ownPods, nil
}

// forbidden is the API server's answer for want of a right.
func forbidden() error {
	return fmt.Errorf("list something: %w", &farm.APIError{Status: 403, Reason: "Forbidden", Err: errors.New("it is forbidden")})
}

// silent is what a call says that had no answer in time.
func silent() error {
	return fmt.Errorf("list something: no answer within 15s: %w", &farm.APIError{Err: context.DeadlineExceeded})
}

func quotaOf(pairs ...string) corev1.ResourceQuota {
	return corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: list(pairs...)}}
}

// ofGPUs is a cluster with one node of four GPUs, one of which is in use.
func ofGPUs() *scripted {
	return &scripted{
		nodes: []corev1.Node{node("a", list("nvidia.com/gpu", "4"))}, pods: []corev1.Pod{pod("a", list("nvidia.com/gpu", "1"))},
	}
}

func listed(t *testing.T, s *Scanner) ([]string, []string) {
	t.Helper()
	offer, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return briefs(t, offer.Options), offer.Warnings
}

func TestGPUOptionsSources(t *testing.T) {
	t.Parallel()
	const scanned = "nvidia.com/gpu nvidia nvidia.com/gpu - nodes 3/4"
	capped := []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "0")}
	asksGPU := func(spec *corev1.PodSpec) { spec.Containers[0].Resources.Limits = list("nvidia.com/gpu", "1") }
	minute := int64(60)
	for name, tc := range map[string]struct {
		cluster  func(*scripted)
		options  Options
		own      string // driver of a render node of the own node
		want     []string
		warnings []string
	}{
		"nodes": {want: []string{scanned}},
		"templates replace the scan": {
			cluster: func(c *scripted) {
				c.templates = []corev1.PodTemplate{template("b", "amdgpu", nil), template("a", "nvidia", asksGPU)}
			},
			want: []string{"a nvidia nvidia.com/gpu - template 3/4", "b amdgpu - - template -1/-1"},
		},
		"templates of another label do not": {
			cluster: func(c *scripted) { c.templates = []corev1.PodTemplate{template("a", "nvidia", nil)} },
			options: Options{Label: "sealskin.app/gpu"}, want: []string{scanned},
		},
		"the label is configured": {
			cluster: func(c *scripted) {
				other := template("a", "", nil)
				other.Labels = map[string]string{"sealskin.app/gpu": "xe"}
				c.templates = []corev1.PodTemplate{other}
			},
			options: Options{Label: "sealskin.app/gpu"}, want: []string{"a xe - - template -1/-1"},
		},
		"no right to templates is no templates": {
			cluster: func(c *scripted) { c.fail(kindTemplates, forbidden()) }, want: []string{scanned},
		},
		"mode templates scans nothing":              {options: Options{Mode: Templates}},
		"mode templates without the right":          {cluster: func(c *scripted) { c.fail(kindTemplates, forbidden()) }, options: Options{Mode: Templates}},
		"mode off":                                  {cluster: func(c *scripted) { c.templates = []corev1.PodTemplate{template("a", "nvidia", nil)} }, options: Options{Mode: Off}},
		"a scanned resource that is capped at zero": {cluster: func(c *scripted) { c.quotas = capped }},
		"a cap that does not apply": {
			cluster: func(c *scripted) {
				c.quotas = []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "0")}
				c.quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating"}
			},
			want: []string{scanned},
		},
		"a cap that applies by the session's deadline": {
			cluster: func(c *scripted) {
				c.quotas = []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "0")}
				c.quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating"}
			},
			options: Options{Shape: func(context.Context) (Shape, error) { return Shape{Deadline: true}, nil }},
		},
		"templates whose resource is capped at zero": {
			cluster: func(c *scripted) {
				c.quotas = capped
				c.templates = []corev1.PodTemplate{template("a", "nvidia", asksGPU), template("b", "nvidia", nil)}
			},
			want: []string{"b nvidia - - template -1/-1"},
		},
		"all templates are capped: the scan does not stand in": {
			cluster: func(c *scripted) {
				c.nodes = append(c.nodes, node("b", list("amd.com/gpu", "2")))
				c.quotas, c.templates = capped, []corev1.PodTemplate{template("a", "nvidia", asksGPU)}
			},
		},
		"a cap that applies by the template's own deadline": {
			cluster: func(c *scripted) {
				c.quotas = []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "0")}
				c.quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating"}
				c.templates = []corev1.PodTemplate{template("a", "nvidia", asksGPU), template("b", "nvidia", func(spec *corev1.PodSpec) {
					asksGPU(spec)
					spec.ActiveDeadlineSeconds = &minute
				})}
			},
			want: []string{"a nvidia nvidia.com/gpu - template 3/4"},
		},
		"no right to quotas is no quotas": {
			cluster: func(c *scripted) { c.quotas = capped; c.fail(kindQuotas, forbidden()) }, want: []string{scanned},
		},
		"DeviceClasses come after nodes": {
			cluster: func(c *scripted) { c.classes = []resourcev1.DeviceClass{class("amd", "amd.com/gpu")} },
			want:    []string{"amd.com/gpu amdgpu amd.com/gpu - deviceclass -1/-1", scanned},
		},
		"a resource of nodes and of a DeviceClass is not counted": {
			cluster: func(c *scripted) { c.classes = []resourcev1.DeviceClass{class("nvidia", "nvidia.com/gpu")} },
			want:    []string{"nvidia.com/gpu nvidia nvidia.com/gpu - nodes -1/-1"},
		},
		"a DeviceClass beside models of its resource": {
			cluster: func(c *scripted) {
				c.nodes[0].Labels = map[string]string{labelNVIDIAModel: "L40S"}
				c.classes = []resourcev1.DeviceClass{class("nvidia", "nvidia.com/gpu")}
			},
			want: []string{"nvidia.com/gpu nvidia nvidia.com/gpu - deviceclass -1/-1", "nvidia.com/gpu/L40S nvidia nvidia.com/gpu L40S nodes 3/4"},
		},
		"a DeviceClass that is capped at zero": {
			cluster: func(c *scripted) {
				c.nodes, c.classes, c.quotas = nil, []resourcev1.DeviceClass{class("nvidia", "nvidia.com/gpu")}, capped
			},
		},
		"no right to DeviceClasses is none": {
			cluster: func(c *scripted) {
				c.classes = []resourcev1.DeviceClass{class("amd", "amd.com/gpu")}
				c.fail(kindClasses, forbidden())
			},
			want: []string{scanned},
		},
		"nodes without GPUs are no reason to ask quotas": {
			cluster: func(c *scripted) {
				c.nodes, c.quotas = []corev1.Node{node("a", nil)}, []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "2")}
			},
			own: "amdgpu",
		},
		"no right to nodes: what quotas name": {
			cluster: func(c *scripted) {
				c.fail(kindNodes, forbidden())
				c.quotas = []corev1.ResourceQuota{quotaOf("requests.nvidia.com/gpu", "2", "requests.amd.com/gpu", "0", "requests.example.com/nic", "3")}
			},
			own: "amdgpu", want: []string{"nvidia.com/gpu nvidia nvidia.com/gpu - quota 2/2"},
		},
		"no right to nodes, no quotas: the own node": {
			cluster: func(c *scripted) { c.fail(kindNodes, forbidden()) },
			own:     "amdgpu", want: []string{"amd.com/gpu amdgpu amd.com/gpu - node -1/1"},
		},
		"no right to nodes, a quota of zero caps the own node": {
			cluster: func(c *scripted) {
				c.fail(kindNodes, forbidden())
				c.quotas = []corev1.ResourceQuota{quotaOf("requests.amd.com/gpu", "0")}
			},
			own: "amdgpu",
		},
		"no right to nodes nor quotas: the own node": {
			cluster: func(c *scripted) { c.fail(kindNodes, forbidden()); c.fail(kindQuotas, forbidden()) },
			own:     "xe", want: []string{"gpu.intel.com/xe xe gpu.intel.com/xe - node -1/1"},
		},
		"no right to nodes: templates are not counted": {
			cluster: func(c *scripted) {
				c.fail(kindNodes, forbidden())
				c.templates = []corev1.PodTemplate{template("a", "nvidia", asksGPU)}
			},
			want: []string{"a nvidia nvidia.com/gpu - template -1/-1"},
		},
		"no right to all pods: this namespace's": {
			cluster:  func(c *scripted) { c.fail(kindAllPods, forbidden()); c.ownPods = nil },
			want:     []string{"nvidia.com/gpu nvidia nvidia.com/gpu - nodes 4/4"},
			warnings: []string{"this namespace only"},
		},
		"no right to pods at all": {
			cluster:  func(c *scripted) { c.fail(kindAllPods, forbidden()); c.fail(kindPods, forbidden()) },
			want:     []string{"nvidia.com/gpu nvidia nvidia.com/gpu - nodes -1/4"},
			warnings: []string{"free is not known"},
		},
		"pods that cannot be listed": {
			cluster:  func(c *scripted) { c.fail(kindAllPods, silent()) },
			want:     []string{"nvidia.com/gpu nvidia nvidia.com/gpu - nodes -1/4"},
			warnings: []string{"free is not known"},
		},
		"templates are the options while the cluster cannot be scanned": {
			cluster: func(c *scripted) {
				c.fail(kindNodes, silent())
				c.templates = []corev1.PodTemplate{template("a", "nvidia", asksGPU)}
			},
			want: []string{"a nvidia nvidia.com/gpu - template -1/-1"}, warnings: []string{"free and total are not known"},
		},
	} {
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

func TestGPUOptionsChoose(t *testing.T) {
	t.Parallel()
	cluster := ofGPUs()
	cluster.nodes = append(cluster.nodes, node("b", list("amd.com/gpu", "2"), labelAMDModel, "W7900"))
	s := New(Options{Reader: cluster})

	got, err := s.Choose(t.Context(), "amd.com/gpu/W7900")
	if err != nil {
		t.Fatal(err)
	}
	want := farm.GPUChoice{
		GPUOption: farm.GPUOption{
			ID: "amd.com/gpu/W7900", Driver: "amdgpu", Resource: "amd.com/gpu", Model: "W7900", ModelLabel: "amd.com/gpu.product-name",
			Source: farm.GPUFromNodes, Free: 2, Total: 2,
		},
		Rooms: map[farm.NodeName]farm.GPURoom{"b": {Free: 2, Total: 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	for name, id := range map[string]string{"another model": "amd.com/gpu/W6800", "the empty name": "", "another case": "NVIDIA.com/gpu"} {
		_, err := s.Choose(t.Context(), id)
		if !errors.Is(err, farm.ErrNotFound) || !strings.Contains(err.Error(), "the options are amd.com/gpu/W7900, nvidia.com/gpu") {
			t.Errorf("%s: error %v, want one that names the options", name, err)
		}
	}

	cluster.nodes = nil
	empty := New(Options{Reader: cluster})
	if _, err := empty.Choose(t.Context(), "nvidia.com/gpu"); !errors.Is(err, farm.ErrNotFound) || !strings.Contains(err.Error(), "there are no GPU options") {
		t.Errorf("error %v, want one that says that there are none", err)
	}
}

func TestGPUOptionsChoiceOfATemplate(t *testing.T) {
	t.Parallel()
	cluster := ofGPUs()
	cluster.templates = []corev1.PodTemplate{template("pair", "nvidia", func(spec *corev1.PodSpec) {
		spec.Containers[0].Resources.Limits = list("nvidia.com/gpu", "2")
	})}
	got, err := New(Options{Reader: cluster}).Choose(t.Context(), "pair")
	if err != nil {
		t.Fatal(err)
	}
	want := farm.GPUChoice{
		GPUOption: farm.GPUOption{
			ID: "pair", Driver: "nvidia", Resource: "nvidia.com/gpu", Source: farm.GPUFromTemplate, Template: "pair", Free: 3, Total: 4,
		},
		Asks: 2, Rooms: map[farm.NodeName]farm.GPURoom{"a": {Free: 3, Total: 4}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestGPUOptionsCensus(t *testing.T) {
	t.Parallel()
	cluster := ofGPUs()
	cluster.nodes = append(cluster.nodes,
		node("b", list("nvidia.com/gpu", "2"), labelNVIDIAModel, "L40S"), node("c", list("nvidia.com/gpu", "8"), labelNVIDIAModel, "L40S"),
		cordoned(node("d", list("nvidia.com/gpu", "8"))), node("e", list("amd.com/gpu", "1")))
	cluster.pods = append(cluster.pods, pod("c", list("nvidia.com/gpu", "5")))
	want := []farm.GPUCount{
		{Resource: "amd.com/gpu", GPURoom: farm.GPURoom{Free: 1, Total: 1}},
		{Resource: "nvidia.com/gpu", GPURoom: farm.GPURoom{Free: 3, Total: 4}},
		{Resource: "nvidia.com/gpu", Model: "L40S", GPURoom: farm.GPURoom{Free: 5, Total: 10}},
	}
	got, err := New(Options{Reader: cluster}).Census(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestGPUOptionsKnownAsksNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := ofGPUs()
		s := New(Options{Reader: cluster})
		if known := s.Known(time.Hour); known != nil {
			t.Errorf("before anybody has looked: %v", known)
		}
		listed(t, s)
		cluster.take()
		want := []farm.GPUCount{{Resource: "nvidia.com/gpu", GPURoom: farm.GPURoom{Free: 3, Total: 4}}}
		time.Sleep(5 * time.Minute)
		if diff := cmp.Diff(want, s.Known(5*time.Minute)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		time.Sleep(time.Nanosecond)
		if known := s.Known(5 * time.Minute); known != nil {
			t.Errorf("what is too old: %v", known)
		}
		if asked := cluster.take(); len(asked) > 0 {
			t.Errorf("it asked for %v", asked)
		}
	})
}

func TestGPUOptionsCensusMayBeOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cluster := ofGPUs()
		s := New(Options{Reader: cluster})
		for _, tc := range []struct {
			after time.Duration
			asks  bool
		}{{0, true}, {DefaultInterval, false}, {time.Minute - DefaultInterval - 1, false}, {1, true}} {
			time.Sleep(tc.after)
			if _, err := s.Census(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			if asked := cluster.take(); (len(asked) > 0) != tc.asks || asked[kindTemplates] > 0 {
				t.Errorf("%s later it asked for %v", tc.after, asked)
			}
		}
		cluster.fail(kindAllPods, silent())
		time.Sleep(time.Minute)
		if census, err := s.Census(t.Context(), time.Minute); len(census) > 0 || err != nil {
			t.Errorf("without pods: census %v, error %v", census, err)
		}
	})
}

func TestGPUOptionsMissingRightsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	cluster := ofGPUs()
	for _, kind := range []string{kindTemplates, kindQuotas, kindClasses, kindAllPods} {
		cluster.fail(kind, forbidden())
	}
	var log bytes.Buffer
	s := New(Options{Reader: cluster, Interval: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
	listed(t, s)
	if lines := strings.Count(log.String(), "\n"); lines != 4 {
		t.Errorf("%d lines for four missing rights:\n%s", lines, log.String())
	}
	log.Reset()
	listed(t, s)
	if log.Len() > 0 {
		t.Errorf("a second listing says them again:\n%s", log.String())
	}
}
