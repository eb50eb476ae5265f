package gpuoptions

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"config-server/internal/farm"
)

func TestGPUOptionsResources(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		resource, driver string // driver empty = no GPU
	}{
		"NVIDIA's whole GPU":               {"nvidia.com/gpu", "nvidia"},
		"NVIDIA's shared GPU":              {"nvidia.com/gpu.shared", "nvidia"},
		"NVIDIA's MIG slice":               {"nvidia.com/mig-1g.10gb", "nvidia"},
		"NVIDIA passed through, capitals":  {"nvidia.com/GP104GL", ""},
		"NVIDIA passed through, underline": {"nvidia.com/ga102_geforce", ""},
		"NVIDIA with a stroke at its end":  {"nvidia.com/gpu-", ""},
		"NVIDIA without a name":            {"nvidia.com/", ""},
		"NVIDIA with two names":            {"nvidia.com/gpu/gpu", ""},
		"another domain below NVIDIA's":    {"x.nvidia.com/gpu", ""},
		"AMD's GPU":                        {"amd.com/gpu", "amdgpu"},
		"AMD's other things":               {"amd.com/gpu.shared", ""},
		"Intel's i915":                     {"gpu.intel.com/i915", "i915"},
		"Intel's xe":                       {"gpu.intel.com/xe", "xe"},
		"Intel's monitoring":               {"gpu.intel.com/i915_monitoring", ""},
		"processors":                       {"cpu", ""},
		"a network card":                   {"example.com/nic", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, gpu := familyOf(tc.resource)
			if gpu != (tc.driver != "") || f.driver != tc.driver {
				t.Errorf("%s: driver %q, GPU %t, want %q", tc.resource, f.driver, gpu, tc.driver)
			}
		})
	}
}

func TestGPUOptionsOfNodes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		nodes []corev1.Node
		want  []string
	}{
		"no nodes": {nil, nil},
		"a resource without a model": {
			[]corev1.Node{node("a", list("nvidia.com/gpu", "4", "cpu", "64"))},
			[]string{"nvidia.com/gpu nvidia nvidia.com/gpu - nodes -1/-1"},
		},
		"each vendor's model label": {
			[]corev1.Node{
				node("a", list("nvidia.com/gpu", "4"), "nvidia.com/gpu.product", "NVIDIA-L40S", "amd.com/gpu.product-name", "no"),
				node("b", list("amd.com/gpu", "2"), "amd.com/gpu.product-name", "W7900", "nvidia.com/gpu.product", "no"),
				node("c", list("gpu.intel.com/i915", "1"), "gpu.intel.com/product", "Flex_170"),
				node("d", list("gpu.intel.com/xe", "1"), "gpu.intel.com/product", "Max_1550"),
			},
			[]string{
				"amd.com/gpu/W7900 amdgpu amd.com/gpu W7900 nodes -1/-1",
				"gpu.intel.com/i915/Flex_170 i915 gpu.intel.com/i915 Flex_170 nodes -1/-1",
				"gpu.intel.com/xe/Max_1550 xe gpu.intel.com/xe Max_1550 nodes -1/-1",
				"nvidia.com/gpu/NVIDIA-L40S nvidia nvidia.com/gpu NVIDIA-L40S nodes -1/-1",
			},
		},
		"several models, each once, and nodes without": {
			[]corev1.Node{
				node("a", list("nvidia.com/gpu", "4"), "nvidia.com/gpu.product", "L40S"),
				node("b", list("nvidia.com/gpu", "4"), "nvidia.com/gpu.product", "A100"),
				node("c", list("nvidia.com/gpu", "4"), "nvidia.com/gpu.product", "L40S"),
				node("d", list("nvidia.com/gpu", "4"), "nvidia.com/gpu.product", ""),
			},
			[]string{
				"nvidia.com/gpu nvidia nvidia.com/gpu - nodes -1/-1",
				"nvidia.com/gpu/A100 nvidia nvidia.com/gpu A100 nodes -1/-1",
				"nvidia.com/gpu/L40S nvidia nvidia.com/gpu L40S nodes -1/-1",
			},
		},
		"several resources of one node": {
			[]corev1.Node{node("a", list("nvidia.com/mig-1g.10gb", "7", "nvidia.com/gpu", "1"), "nvidia.com/gpu.product", "A100")},
			[]string{
				"nvidia.com/gpu/A100 nvidia nvidia.com/gpu A100 nodes -1/-1",
				"nvidia.com/mig-1g.10gb/A100 nvidia nvidia.com/mig-1g.10gb A100 nodes -1/-1",
			},
		},
		"an amount of zero": {[]corev1.Node{node("a", list("nvidia.com/gpu", "0"))}, nil},
		"cordoned":          {[]corev1.Node{cordoned(node("a", list("nvidia.com/gpu", "4")))}, nil},
		"GPUs for virtual machines": {
			[]corev1.Node{node("a", list("nvidia.com/gpu", "4"), "nvidia.com/gpu.workload.config", "vm-passthrough")}, nil,
		},
		"a workload label that is empty": {
			[]corev1.Node{node("a", list("nvidia.com/gpu", "4"), "nvidia.com/gpu.workload.config", "")}, nil,
		},
		"GPUs said to be for containers": {
			[]corev1.Node{node("a", list("nvidia.com/gpu", "4"), "nvidia.com/gpu.workload.config", "container")},
			[]string{"nvidia.com/gpu nvidia nvidia.com/gpu - nodes -1/-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, briefs(t, scanNodes(tc.nodes))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestGPUOptionsOfDeviceClasses(t *testing.T) {
	t.Parallel()
	got := classOptions([]resourcev1.DeviceClass{
		class("gpu.nvidia.com", "nvidia.com/gpu"), class("again", "nvidia.com/gpu"), class("amd", "amd.com/gpu"),
		class("without", ""), class("nic", "example.com/nic"),
	})
	want := []string{
		"amd.com/gpu amdgpu amd.com/gpu - deviceclass -1/-1",
		"nvidia.com/gpu nvidia nvidia.com/gpu - deviceclass -1/-1",
	}
	if diff := cmp.Diff(want, briefs(t, got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestGPUOptionsOfTemplates(t *testing.T) {
	t.Parallel()
	limits := func(pairs ...string) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) { spec.Containers[0].Resources.Limits = list(pairs...) }
	}
	for name, tc := range map[string]struct {
		templates []corev1.PodTemplate
		want      []string
	}{
		"none": {nil, nil},
		"the label's value is the driver": {
			[]corev1.PodTemplate{template("b", "amdgpu", nil), template("a", "nvidia", nil)},
			[]string{"a nvidia - - template -1/-1", "b amdgpu - - template -1/-1"},
		},
		"an empty value is gpu":  {[]corev1.PodTemplate{template("a", "", nil)}, []string{"a gpu - - template -1/-1"}},
		"its resource by limits": {[]corev1.PodTemplate{template("a", "nvidia", limits("nvidia.com/gpu", "2", "cpu", "4"))}, []string{"a nvidia nvidia.com/gpu - template -1/-1"}},
		"its resource in a sidecar": {
			[]corev1.PodTemplate{template("a", "nvidia", func(spec *corev1.PodSpec) {
				spec.Containers = append(spec.Containers, corev1.Container{Name: "side", Resources: corev1.ResourceRequirements{Limits: list("nvidia.com/gpu", "1")}})
			})},
			[]string{"a nvidia nvidia.com/gpu - template -1/-1"},
		},
		"its model by node selector": {
			[]corev1.PodTemplate{template("a", "amdgpu", func(spec *corev1.PodSpec) {
				spec.NodeSelector = map[string]string{"amd.com/gpu.product-name": "W7900", "disk": "ssd"}
			})},
			[]string{"a amdgpu - W7900 template -1/-1"},
		},
		"a claim is no resource": {
			[]corev1.PodTemplate{template("a", "xe", func(spec *corev1.PodSpec) {
				spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
				spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
			})},
			[]string{"a xe - - template -1/-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, briefs(t, templateOptions(tc.templates, DefaultLabel))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// scopeCase is a quota and a workspace that it counts or not.
type scopeCase struct {
	spec  corev1.ResourceQuotaSpec
	shape Shape
	want  bool
}

// scopeCases are shared with the test on a real API server.
func scopeCases() map[string]scopeCase {
	selector := func(operator corev1.ScopeSelectorOperator, values ...string) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: operator, Values: values,
		}}}}
	}
	scopes := func(names ...corev1.ResourceQuotaScope) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{Scopes: names}
	}
	exists := func(scope corev1.ResourceQuotaScope) corev1.ResourceQuotaSpec {
		return corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
			ScopeName: scope, Operator: corev1.ScopeSelectorOpExists,
		}}}}
	}
	plain, high, short := Shape{}, Shape{PriorityClass: "high"}, Shape{Deadline: true}
	return map[string]scopeCase{
		"no scopes":                                    {corev1.ResourceQuotaSpec{}, plain, true},
		"NotBestEffort":                                {scopes("NotBestEffort"), plain, true},
		"BestEffort":                                   {scopes("BestEffort"), plain, false},
		"Terminating, no deadline":                     {scopes("Terminating"), plain, false},
		"Terminating, a deadline":                      {scopes("Terminating"), short, true},
		"NotTerminating, no deadline":                  {scopes("NotTerminating"), plain, true},
		"NotTerminating, a deadline":                   {scopes("NotTerminating"), short, false},
		"CrossNamespacePodAffinity":                    {scopes("CrossNamespacePodAffinity"), plain, false},
		"a scope of claims":                            {scopes("VolumeAttributesClass"), plain, false},
		"PriorityClass among scopes, none":             {scopes("PriorityClass"), plain, false},
		"PriorityClass among scopes, one":              {scopes("PriorityClass"), high, true},
		"two scopes that match":                        {scopes("NotBestEffort", "NotTerminating"), plain, true},
		"two scopes, one does not match":               {scopes("NotBestEffort", "Terminating"), plain, false},
		"selector NotBestEffort":                       {exists("NotBestEffort"), plain, true},
		"selector BestEffort":                          {exists("BestEffort"), plain, false},
		"selector Terminating, a deadline":             {exists("Terminating"), short, true},
		"PriorityClass Exists, none":                   {selector("Exists"), plain, false},
		"PriorityClass Exists, one":                    {selector("Exists"), high, true},
		"PriorityClass DoesNotExist, none":             {selector("DoesNotExist"), plain, true},
		"PriorityClass DoesNotExist, one":              {selector("DoesNotExist"), high, false},
		"PriorityClass In, none":                       {selector("In", "high", ""), plain, false},
		"PriorityClass In, one of them":                {selector("In", "low", "high"), high, true},
		"PriorityClass In, another":                    {selector("In", "low"), high, false},
		"PriorityClass NotIn, none":                    {selector("NotIn", "high"), plain, true},
		"PriorityClass NotIn, one of them":             {selector("NotIn", "low", "high"), high, false},
		"PriorityClass NotIn, another":                 {selector("NotIn", "low"), high, true},
		"PriorityClass with an operator of the future": {selector("Near", "high"), high, false},
		"scopes match and the selector does not":       {both(scopes("NotBestEffort"), selector("In", "low")), high, false},
		"the selector matches and the scopes do not":   {both(scopes("BestEffort"), selector("In", "high")), high, false},
		"scopes and selector match":                    {both(scopes("NotBestEffort"), selector("In", "high")), high, true},
	}
}

func TestGPUOptionsQuotaScopes(t *testing.T) {
	t.Parallel()
	for name, tc := range scopeCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := applies(&corev1.ResourceQuota{Spec: tc.spec}, tc.shape); got != tc.want {
				t.Errorf("applies is %t, want %t", got, tc.want)
			}
		})
	}
}

func both(a, b corev1.ResourceQuotaSpec) corev1.ResourceQuotaSpec {
	a.ScopeSelector = b.ScopeSelector
	return a
}

func TestGPUOptionsQuotaValues(t *testing.T) {
	t.Parallel()
	quota := func(spec, status, used corev1.ResourceList) corev1.ResourceQuota {
		return corev1.ResourceQuota{
			Spec: corev1.ResourceQuotaSpec{Hard: spec}, Status: corev1.ResourceQuotaStatus{Hard: status, Used: used},
		}
	}
	const resource = "nvidia.com/gpu"
	for name, tc := range map[string]struct {
		quotas []corev1.ResourceQuota
		want   map[string]farm.GPURoom
		capped bool
	}{
		"none":                       {nil, map[string]farm.GPURoom{}, false},
		"a plain key":                {[]corev1.ResourceQuota{quota(list(resource, "2"), nil, nil)}, map[string]farm.GPURoom{resource: {Free: 2, Total: 2}}, false},
		"a key of requests":          {[]corev1.ResourceQuota{quota(list("requests."+resource, "2"), nil, nil)}, map[string]farm.GPURoom{resource: {Free: 2, Total: 2}}, false},
		"a key of limits":            {[]corev1.ResourceQuota{quota(list("limits."+resource, "2"), nil, nil)}, map[string]farm.GPURoom{resource: {Free: 2, Total: 2}}, false},
		"status before spec":         {[]corev1.ResourceQuota{quota(list("requests."+resource, "2"), list("requests."+resource, "0"), nil)}, map[string]farm.GPURoom{resource: {}}, true},
		"spec without status":        {[]corev1.ResourceQuota{quota(list("requests."+resource, "0"), nil, nil)}, map[string]farm.GPURoom{resource: {}}, true},
		"zero with a unit":           {[]corev1.ResourceQuota{quota(list("requests."+resource, "0Ki"), nil, nil)}, map[string]farm.GPURoom{resource: {}}, true},
		"zero with a fraction":       {[]corev1.ResourceQuota{quota(list("requests."+resource, "0.0"), nil, nil)}, map[string]farm.GPURoom{resource: {}}, true},
		"zero with an exponent":      {[]corev1.ResourceQuota{quota(list("requests."+resource, "0e3"), nil, nil)}, map[string]farm.GPURoom{resource: {}}, true},
		"half a GPU is none":         {[]corev1.ResourceQuota{quota(list("requests."+resource, "500m"), nil, nil)}, map[string]farm.GPURoom{resource: {}}, true},
		"a thousand":                 {[]corev1.ResourceQuota{quota(list("requests."+resource, "1k"), nil, nil)}, map[string]farm.GPURoom{resource: {Free: 1000, Total: 1000}}, false},
		"what is used is not free":   {[]corev1.ResourceQuota{quota(nil, list("requests."+resource, "4"), list("requests."+resource, "3"))}, map[string]farm.GPURoom{resource: {Free: 1, Total: 4}}, false},
		"more is used than there is": {[]corev1.ResourceQuota{quota(nil, list("requests."+resource, "1"), list("requests."+resource, "3"))}, map[string]farm.GPURoom{resource: {Free: 0, Total: 1}}, false},
		"the smallest of several": {
			[]corev1.ResourceQuota{quota(nil, list("requests."+resource, "4"), list("requests."+resource, "3")), quota(nil, list(resource, "2"), nil)},
			map[string]farm.GPURoom{resource: {Free: 1, Total: 2}}, false,
		},
		"one of several is zero": {
			[]corev1.ResourceQuota{quota(list("requests."+resource, "4"), nil, nil), quota(list("limits."+resource, "0"), nil, nil)},
			map[string]farm.GPURoom{resource: {}}, true,
		},
		"one that does not apply": {
			[]corev1.ResourceQuota{{Spec: corev1.ResourceQuotaSpec{Hard: list(resource, "0"), Scopes: []corev1.ResourceQuotaScope{"BestEffort"}}}},
			map[string]farm.GPURoom{}, false,
		},
		"what is no GPU": {[]corev1.ResourceQuota{quota(list("requests.cpu", "4", "pods", "10", "requests.nvidia.com/GP104GL", "1"), nil, nil)}, map[string]farm.GPURoom{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := allowance(tc.quotas, Shape{})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if capped(got, resource) != tc.capped {
				t.Errorf("capped is %t, want %t", !tc.capped, tc.capped)
			}
		})
	}
}

func TestGPUOptionsQuotaShapeOfTemplates(t *testing.T) {
	t.Parallel()
	minute := int64(60)
	session := Shape{PriorityClass: "low", Deadline: true}
	for name, tc := range map[string]struct {
		under Shape
		spec  corev1.PodSpec
		want  Shape
	}{
		"nothing over nothing":        {Shape{}, corev1.PodSpec{}, Shape{}},
		"nothing leaves the session":  {session, corev1.PodSpec{}, session},
		"a class beats the session's": {session, corev1.PodSpec{PriorityClassName: "high"}, Shape{PriorityClass: "high", Deadline: true}},
		"a deadline is added":         {Shape{PriorityClass: "low"}, corev1.PodSpec{ActiveDeadlineSeconds: &minute}, session},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.under.under(tc.spec); got != tc.want {
				t.Errorf("shape %+v, want %+v", got, tc.want)
			}
		})
	}
}

// renderNode makes a render node below root, of a driver; empty = of none.
func renderNode(t *testing.T, root, name, driver string) {
	t.Helper()
	device := filepath.Join(root, "sys/class/drm", name, "device")
	if err := os.MkdirAll(device, 0o755); err != nil {
		t.Fatal(err)
	}
	if driver != "" {
		if err := os.Symlink("../../../bus/pci/drivers/"+driver, filepath.Join(device, "driver")); err != nil {
			t.Fatal(err)
		}
	}
}

func nvidiaGPU(t *testing.T, root, address string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(root, "proc/driver/nvidia/gpus", address), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestGPUOptionsOfTheOwnNode(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		make func(t *testing.T, root string)
		want []string
	}{
		"no GPU": {func(*testing.T, string) {}, nil},
		"render nodes by driver": {func(t *testing.T, root string) {
			renderNode(t, root, "renderD128", "amdgpu")
			renderNode(t, root, "renderD129", "amdgpu")
			renderNode(t, root, "renderD130", "i915")
			renderNode(t, root, "renderD131", "xe")
			renderNode(t, root, "renderD132", "nvidia")
		}, []string{
			"amd.com/gpu amdgpu amd.com/gpu - node -1/2",
			"gpu.intel.com/i915 i915 gpu.intel.com/i915 - node -1/1",
			"gpu.intel.com/xe xe gpu.intel.com/xe - node -1/1",
			"nvidia.com/gpu nvidia nvidia.com/gpu - node -1/1",
		}},
		"other drivers": {func(t *testing.T, root string) {
			renderNode(t, root, "renderD128", "nouveau")
			renderNode(t, root, "renderD129", "virtio-pci")
			renderNode(t, root, "renderD130", "")
			renderNode(t, root, "card0", "amdgpu")
		}, nil},
		"NVIDIA's driver without DRM": {func(t *testing.T, root string) {
			nvidiaGPU(t, root, "0000:01:00.0")
			nvidiaGPU(t, root, "0000:02:00.0")
		}, []string{"nvidia.com/gpu nvidia nvidia.com/gpu - node -1/2"}},
		"NVIDIA's GPUs are counted once": {func(t *testing.T, root string) {
			renderNode(t, root, "renderD128", "nvidia")
			nvidiaGPU(t, root, "0000:01:00.0")
		}, []string{"nvidia.com/gpu nvidia nvidia.com/gpu - node -1/1"}},
		"NVIDIA's driver without a GPU": {func(t *testing.T, root string) {
			if err := os.MkdirAll(filepath.Join(root, "proc/driver/nvidia/gpus"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			tc.make(t, root)
			if diff := cmp.Diff(tc.want, briefs(t, ownNode(root))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestGPUOptionsFreeAndTotal(t *testing.T) {
	t.Parallel()
	const gpu = "nvidia.com/gpu"
	ended := func(phase corev1.PodPhase) corev1.Pod {
		p := pod("a", list(gpu, "1"))
		p.Status.Phase = phase
		return p
	}
	always := corev1.ContainerRestartPolicyAlways
	withInit := func(policy *corev1.ContainerRestartPolicy, n string) corev1.Pod {
		p := pod("a", list(gpu, "1"))
		p.Spec.InitContainers = []corev1.Container{{
			Name: "init", RestartPolicy: policy, Resources: corev1.ResourceRequirements{Requests: list(gpu, n)},
		}}
		return p
	}
	nodes := []corev1.Node{
		node("a", list(gpu, "4"), labelNVIDIAModel, "L40S"),
		node("b", list(gpu, "2"), labelNVIDIAModel, "A100"),
		node("c", list(gpu, "1")),
		cordoned(node("d", list(gpu, "8"), labelNVIDIAModel, "L40S")),
	}
	model := detected(gpu, "L40S", labelNVIDIAModel, farm.GPUFromNodes)
	anyModel := detected(gpu, "", "", farm.GPUFromNodes)
	for name, tc := range map[string]struct {
		option      farm.GPUOption
		pods        []corev1.Pod
		free, total int64
	}{
		"a model counts its nodes":             {model, nil, 4, 4},
		"without a model every node counts":    {anyModel, nil, 7, 7},
		"bound pods use":                       {model, []corev1.Pod{pod("a", list(gpu, "1")), pod("a", list(gpu, "2"))}, 1, 4},
		"pods that wait use nothing":           {model, []corev1.Pod{pod("", list(gpu, "1"))}, 4, 4},
		"pods on other nodes use nothing here": {model, []corev1.Pod{pod("b", list(gpu, "1")), pod("gone", list(gpu, "1"))}, 4, 4},
		"pods that ended use nothing":          {model, []corev1.Pod{ended(corev1.PodSucceeded), ended(corev1.PodFailed)}, 4, 4},
		"pods that are running use":            {model, []corev1.Pod{ended(corev1.PodRunning)}, 3, 4},
		"other resources are something else":   {model, []corev1.Pod{pod("a", list("nvidia.com/mig-1g.10gb", "1", "cpu", "8"))}, 4, 4},
		"init containers before":               {model, []corev1.Pod{withInit(nil, "3")}, 1, 4},
		"init containers beside":               {model, []corev1.Pod{withInit(&always, "1")}, 2, 4},
		"more is used than there is":           {anyModel, []corev1.Pod{pod("c", list(gpu, "3"))}, 6, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			free, total := sum(roomsOf(tc.option, nodes, usageOf(tc.pods)))
			if free != tc.free || total != tc.total {
				t.Errorf("free %d of %d, want %d of %d", free, total, tc.free, tc.total)
			}
		})
	}
}

func TestGPUOptionsTemplateRooms(t *testing.T) {
	t.Parallel()
	const gpu = "nvidia.com/gpu"
	nodes := []corev1.Node{
		node("a", list(gpu, "4"), "pool", "big"),
		node("b", list(gpu, "2"), "pool", "small"),
		node("c", nil, "pool", "big"),
		cordoned(node("d", list(gpu, "2"), "pool", "big")),
	}
	used := usageOf([]corev1.Pod{pod("a", list(gpu, "3"))})
	asks := func(change func(*corev1.PodSpec)) corev1.PodTemplate {
		return template("t", "nvidia", func(spec *corev1.PodSpec) {
			spec.Containers[0].Resources.Limits = list(gpu, "2")
			change(spec)
		})
	}
	affinity := func(operator corev1.NodeSelectorOperator, values ...string) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: operator, Values: values}}}},
		}}}
	}
	for name, tc := range map[string]struct {
		template corev1.PodTemplate
		want     map[farm.NodeName]farm.GPURoom
	}{
		"no placement": {asks(func(*corev1.PodSpec) {}), map[farm.NodeName]farm.GPURoom{"a": {Free: 1, Total: 4}, "b": {Free: 2, Total: 2}}},
		"a node selector": {asks(func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{"pool": "small"} }),
			map[farm.NodeName]farm.GPURoom{"b": {Free: 2, Total: 2}}},
		"a required affinity": {asks(func(spec *corev1.PodSpec) { spec.Affinity = affinity(corev1.NodeSelectorOpNotIn, "small") }),
			map[farm.NodeName]farm.GPURoom{"a": {Free: 1, Total: 4}}},
		"an affinity that nobody can read": {asks(func(spec *corev1.PodSpec) { spec.Affinity = affinity(corev1.NodeSelectorOpIn) }),
			map[farm.NodeName]farm.GPURoom{}},
		"a claim": {template("t", "xe", func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{"pool": "big"} }),
			map[farm.NodeName]farm.GPURoom{"a": {Free: unknown, Total: unknown}, "c": {Free: unknown, Total: unknown}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			option, _ := templateOption(&tc.template, DefaultLabel)
			if diff := cmp.Diff(tc.want, templateRooms(option, tc.template.Template.Spec, nodes, used)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
