package templates_test

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"config-server/internal/farm"
)

// generator draws templates that the API server takes. Their names come from small sets, so that
// layers meet, and none of their values equals an API default.
type generator struct {
	*rand.Rand
	// steady gives each volume, variable, mount and handler one kind by its name, so that layers never
	// replace one kind by another.
	steady bool
}

func newGenerator(seed uint64, steady bool) *generator {
	return &generator{rand.New(rand.NewPCG(seed, 1)), steady}
}

func (g *generator) maybe() bool { return g.IntN(2) == 0 }

// kind draws one of n kinds for the thing of that number.
func (g *generator) kind(thing, n int) int {
	if g.steady {
		return thing % n
	}
	return g.IntN(n)
}

func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

// some keeps a random part of the numbers below n.
func (g *generator) some(n int) []int {
	var kept []int
	for i := range g.Perm(n) {
		if g.maybe() {
			kept = append(kept, i)
		}
	}
	return kept
}

func optional[T any](g *generator, value T) *T {
	if g.maybe() {
		return nil
	}
	return &value
}

func (g *generator) template() corev1.PodTemplateSpec {
	var t corev1.PodTemplateSpec
	for _, i := range g.some(3) {
		metav1.SetMetaDataLabel(&t.ObjectMeta, fmt.Sprintf("label%d", i), pick(g, "x", "y"))
		metav1.SetMetaDataAnnotation(&t.ObjectMeta, fmt.Sprintf("note%d", i), pick(g, "x", "y"))
	}
	s := &t.Spec
	s.DNSPolicy = pick(g, "", corev1.DNSDefault, corev1.DNSClusterFirstWithHostNet)
	s.RestartPolicy = pick(g, "", corev1.RestartPolicyOnFailure)
	s.SchedulerName = pick(g, "", "one", "other")
	s.TerminationGracePeriodSeconds = optional(g, int64(pick(g, 1, 5)))
	s.EnableServiceLinks = optional(g, false)
	s.ServiceAccountName = pick(g, "", "plain", "other")
	s.ActiveDeadlineSeconds = optional(g, int64(pick(g, 1000, 2000)))
	if g.maybe() {
		s.SecurityContext = &corev1.PodSecurityContext{FSGroup: optional(g, int64(7)), RunAsUser: optional(g, int64(g.IntN(3)))}
		s.SecurityContext.SupplementalGroups = []int64{int64(g.IntN(5))}
	}
	for _, i := range g.some(3) {
		s.ImagePullSecrets = append(s.ImagePullSecrets, corev1.LocalObjectReference{Name: fmt.Sprintf("pull%d", i)})
		s.HostAliases = append(s.HostAliases, corev1.HostAlias{IP: fmt.Sprintf("192.0.2.%d", i), Hostnames: []string{pick(g, "a", "b")}})
		s.Tolerations = append(s.Tolerations, corev1.Toleration{Key: fmt.Sprintf("key%d", i), Operator: corev1.TolerationOpExists, Effect: pick(g, "", corev1.TaintEffectNoSchedule)})
		s.TopologySpreadConstraints = append(s.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: int32(1 + g.IntN(3)), TopologyKey: fmt.Sprintf("zone%d", i/2),
			WhenUnsatisfiable: []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}[i%2],
		})
	}
	if g.maybe() {
		s.NodeSelector = map[string]string{pick(g, "disk", "rack"): pick(g, "x", "y")}
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: pick(g, "zone", "row"), Operator: corev1.NodeSelectorOpExists}}}},
		}}}
	}
	volumes := g.some(16)
	for _, i := range volumes {
		s.Volumes = append(s.Volumes, corev1.Volume{Name: fmt.Sprintf("volume%d", i), VolumeSource: g.volume(i)})
	}
	for _, i := range g.some(2) {
		s.ResourceClaims = append(s.ResourceClaims, g.claim(i))
	}
	for _, i := range g.some(2) {
		s.InitContainers = append(s.InitContainers, g.container(fmt.Sprintf("init%d", i), i, volumes, s.ResourceClaims, false))
	}
	for _, i := range append(g.some(3), 3) {
		s.Containers = append(s.Containers, g.container([]string{"one", "two", farm.ContainerName, "three"}[i], 20*i, volumes, s.ResourceClaims, true))
	}
	g.Shuffle(len(s.Containers), func(i, j int) { s.Containers[i], s.Containers[j] = s.Containers[j], s.Containers[i] })
	return t
}

func (g *generator) claim(i int) corev1.PodResourceClaim {
	claim := corev1.PodResourceClaim{Name: fmt.Sprintf("claim%d", i)}
	if name := pick(g, "a", "b"); g.kind(i, 2) == 0 {
		claim.ResourceClaimName = &name
	} else {
		claim.ResourceClaimTemplateName = &name
	}
	return claim
}

// volume draws a source. Its kinds are those whose fields have defaults, and a claim.
func (g *generator) volume(thing int) corev1.VolumeSource {
	mode := optional(g, int32(pick(g, 0o400, 0o600)))
	files := []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}
	switch g.kind(thing, 16) {
	case 0:
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: pick(g, "a", "b"), DefaultMode: mode}}
	case 1:
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: pick(g, "a", "b")}, DefaultMode: mode}}
	case 2:
		kind := corev1.HostPathDirectory
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: pick(g, "/a", "/b"), Type: optional(g, kind)}}
	case 3:
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}
	case 4:
		return corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: files, DefaultMode: mode}}
	case 5:
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: mode, Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: optional(g, int64(7200))}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: files}},
		}}}
	case 6:
		return corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "192.0.2.1:3260", IQN: "iqn.2001-04.com.example:disk", ISCSIInterface: pick(g, "", "other")}}
	case 7:
		return corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{CephMonitors: []string{"m"}, RBDImage: "i", RBDPool: pick(g, "", "p"), RadosUser: pick(g, "", "u"), Keyring: pick(g, "", "/k")}}
	case 8:
		return corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{
			DiskName: "d", DataDiskURI: "https://example.org/d", FSType: optional(g, "xfs"), ReadOnly: optional(g, true), CachingMode: optional(g, corev1.AzureDataDiskCachingNone),
		}}
	case 9:
		return corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{
			Gateway: "g", System: "s", VolumeName: "v", SecretRef: &corev1.LocalObjectReference{Name: "s"}, StorageMode: pick(g, "", "ThickProvisioned"), FSType: pick(g, "", "ext4"),
		}}
	case 10:
		return corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: optional(g, corev1.PersistentVolumeBlock),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}}}
	case 11:
		return corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: pick(g, "data", "data:1"), PullPolicy: pick(g, "", corev1.PullNever)}}
	case 12:
		return corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "192.0.2.1", Path: pick(g, "/a", "/b")}}
	case 13:
		return corev1.VolumeSource{} // becomes an empty folder
	default:
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: pick(g, "a", "b"), ReadOnly: g.maybe()}}
	}
}

// container draws a container. Its probes and hooks are numbered from base, alike for all that may
// become the workspace's.
func (g *generator) container(name string, base int, volumes []int, claims []corev1.PodResourceClaim, probed bool) corev1.Container {
	c := corev1.Container{
		Name: name, Image: pick(g, "i", "i:latest", "i:1", "localhost:5000/i@sha256:"+fmt.Sprintf("%064d", 1)),
		ImagePullPolicy: pick(g, "", corev1.PullNever), WorkingDir: pick(g, "", "/a", "/b"),
		TerminationMessagePath: pick(g, "", "/a"), TerminationMessagePolicy: pick(g, "", corev1.TerminationMessageFallbackToLogsOnError),
		Stdin: g.maybe(), TTY: g.maybe(),
	}
	if g.maybe() {
		c.Command = []string{pick(g, "a", "b")}
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: pick(g, "a", "b")}}}}
		c.SecurityContext = &corev1.SecurityContext{RunAsUser: optional(g, int64(g.IntN(3))), ReadOnlyRootFilesystem: optional(g, g.maybe())}
		c.Resources.Limits = corev1.ResourceList{
			pick(g, corev1.ResourceCPU, corev1.ResourceMemory): resource.MustParse(pick(g, "1Gi", "2Gi")), "nvidia.com/gpu": resource.MustParse(pick(g, "1", "2")),
		}
	}
	for _, i := range g.some(4) {
		c.Env = append(c.Env, g.variable(i))
		c.Ports = append(c.Ports, corev1.ContainerPort{
			ContainerPort: int32(8000 + i/2), Protocol: []corev1.Protocol{"", corev1.ProtocolUDP}[i%2], Name: pick(g, "", fmt.Sprintf("port%d", i)), HostIP: pick(g, "", "127.0.0.1"),
		})
	}
	for _, i := range volumes {
		switch {
		case g.maybe():
		case i == 10:
			if g.steady { // elsewhere it need not be a block device
				continue
			}
		default:
			c.VolumeMounts = append(c.VolumeMounts, g.mount(i, volumes))
		}
	}
	for _, claim := range claims {
		if g.maybe() {
			c.Resources.Claims = append(c.Resources.Claims, corev1.ResourceClaim{Name: claim.Name})
		}
	}
	if !probed {
		return c
	}
	if g.maybe() {
		c.LivenessProbe = g.probe(base)
		c.LivenessProbe.SuccessThreshold = 0
		c.ReadinessProbe = g.probe(base + 1)
		c.Lifecycle = &corev1.Lifecycle{PreStop: g.hook(base + 2), PostStart: g.hook(base + 3)}
	}
	if g.maybe() {
		c.StartupProbe = g.probe(base + 4)
		c.StartupProbe.SuccessThreshold = 0
	}
	return c
}

// mount draws a mount at the path of that number, most often of the volume of that number.
func (g *generator) mount(i int, volumes []int) corev1.VolumeMount {
	volume := i
	if !g.steady {
		volume = volumes[g.IntN(len(volumes))]
	}
	return corev1.VolumeMount{
		Name: fmt.Sprintf("volume%d", volume), MountPath: fmt.Sprintf("/mnt/%d", i), ReadOnly: g.maybe(), SubPath: pick(g, "", "a", "b"),
	}
}

func (g *generator) variable(thing int) corev1.EnvVar {
	v := corev1.EnvVar{Name: fmt.Sprintf("VARIABLE%d", thing)}
	switch g.IntN(4) {
	case 0:
		v.Value = pick(g, "x", "y")
	case 1:
		v.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: pick(g, "metadata.name", "spec.nodeName")}}
	case 2:
		v.ValueFrom = &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: pick(g, "x", "y")}}
	}
	return v
}

func (g *generator) probe(thing int) *corev1.Probe {
	p := &corev1.Probe{
		PeriodSeconds: int32(pick(g, 0, 3)), TimeoutSeconds: int32(pick(g, 0, 2)), FailureThreshold: int32(pick(g, 0, 5)), SuccessThreshold: int32(pick(g, 0, 2)),
	}
	switch g.kind(thing, 4) {
	case 0:
		p.HTTPGet = g.get()
	case 1:
		p.GRPC = &corev1.GRPCAction{Port: int32(1 + g.IntN(3)), Service: optional(g, "s")}
	case 2:
		p.TCPSocket = &corev1.TCPSocketAction{Port: intstr.FromInt32(int32(1 + g.IntN(3)))}
	default:
		p.Exec = &corev1.ExecAction{Command: []string{pick(g, "a", "b")}}
	}
	return p
}

func (g *generator) hook(thing int) *corev1.LifecycleHandler {
	if g.kind(thing, 2) == 0 {
		return &corev1.LifecycleHandler{HTTPGet: g.get()}
	}
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{pick(g, "a", "b")}}}
}

func (g *generator) get() *corev1.HTTPGetAction {
	return &corev1.HTTPGetAction{Path: pick(g, "", "/a"), Port: intstr.FromInt32(int32(1 + g.IntN(3))), Scheme: pick(g, "", corev1.URISchemeHTTPS)}
}
