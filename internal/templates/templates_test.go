package templates_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
	"config-server/internal/templates"
)

func TestTemplatesNoneLeaveThePodAlone(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(workspace(t), apply(t, workspace(t))); diff != "" {
		t.Errorf("(-without +with no layers):\n%s", diff)
	}
	// A template that says nothing changes nothing either.
	empty := layer(t, `
		spec:
		  containers:
		  - {name: shell, image: unused}
	`)
	if diff := cmp.Diff(workspace(t), apply(t, workspace(t), empty)); diff != "" {
		t.Errorf("(-without +with an empty layer):\n%s", diff)
	}
}

func TestTemplatesApplyLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	pod, low, high := workspace(t), layer(t, everything), layer(t, everything)
	low.Template.Spec.Tolerations = slices.Grow(low.Template.Spec.Tolerations, 8)
	apply(t, pod, low, high)
	if diff := cmp.Diff(workspace(t), pod); diff != "" {
		t.Errorf("pod changed:\n%s", diff)
	}
	if diff := cmp.Diff(layer(t, everything), low); diff != "" {
		t.Errorf("layer changed:\n%s", diff)
	}
	if spare := low.Template.Spec.Tolerations[:len(low.Template.Spec.Tolerations)+1]; spare[len(spare)-1] != (corev1.Toleration{}) {
		t.Errorf("the spare room of a layer's list was written: %v", spare)
	}
}

// everything sets much of what a template can.
const everything = `
	metadata:
	  labels: {team: vision, ailab/team: none, app: somebody-else, username: root, pod_name: other}
	  annotations: {note: from the template, ailab/username: root, ailab/gpu-option: none}
	spec:
	  nodeName: farm1
	  restartPolicy: OnFailure
	  runtimeClassName: gvisor
	  priorityClassName: students
	  serviceAccountName: plain
	  tolerations:
	  - {key: gpu, operator: Exists}
	  volumes:
	  - {name: data, persistentVolumeClaim: {claimName: data}}
	  - {name: nfs-home, emptyDir: {sizeLimit: 1Gi}}
	  initContainers:
	  - {name: prepare, image: "busybox:1.36"}
	  containers:
	  - name: proxy
	    image: envoy:1
	  - name: shell
	    image: theirs:1
	    imagePullPolicy: Always
	    stdin: false
	    command: [/sbin/init]
	    env:
	    - {name: TEAM, value: vision}
	    - {name: HOME, value: /root}
	    ports:
	    - {containerPort: 22, name: ssh}
	    - {containerPort: 9000, name: debug}
	    resources:
	      limits: {cpu: 64, nvidia.com/gpu: 1}
	    volumeMounts:
	    - {name: data, mountPath: /data}
	    - {name: data, mountPath: /home/, subPath: stolen, readOnly: true}
`

func TestTemplatesServiceFieldsWin(t *testing.T) {
	t.Parallel()
	own, pod := workspace(t), apply(t, workspace(t), layer(t, everything))
	main := shell(t, pod)

	wantLabels := map[string]string{
		"team": "vision", farm.LabelApp: farm.AppGuest, farm.LabelManagedBy: farm.ManagedBy, farm.LabelUser: "kim", farm.LabelPod: "ailab-kim-01020304",
	}
	if diff := cmp.Diff(wantLabels, pod.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"note": "from the template"}, pod.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if pod.Spec.NodeName != "farm6" || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("on %s with restartPolicy %s", pod.Spec.NodeName, pod.Spec.RestartPolicy)
	}
	if main.Image != "dguailab/decs:1.0" || main.ImagePullPolicy != corev1.PullNever || !main.Stdin || !main.TTY {
		t.Errorf("image %s, pulled %s, stdin %t, tty %t", main.Image, main.ImagePullPolicy, main.Stdin, main.TTY)
	}
	ours := own.Spec.Containers[0]
	if diff := cmp.Diff(append(ours.Env, corev1.EnvVar{Name: "TEAM", Value: "vision"}), main.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	wantMounts := append(ours.VolumeMounts, corev1.VolumeMount{Name: "data", MountPath: "/data"})
	if diff := cmp.Diff(wantMounts, main.VolumeMounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(own.Spec.Volumes[0], pod.Spec.Volumes[0]); diff != "" {
		t.Errorf("home (-want +got):\n%s", diff)
	}
	if cpu, gpus := main.Resources.Limits.Cpu().String(), main.Resources.Limits["nvidia.com/gpu"]; cpu != "2" || gpus.String() != "1" {
		t.Errorf("limits: cpu %s, GPUs %s", cpu, gpus.String())
	}
	wantPorts := []corev1.ContainerPort{
		{ContainerPort: 22, Protocol: corev1.ProtocolTCP, Name: "ssh"}, {ContainerPort: 8888, Protocol: corev1.ProtocolTCP}, {ContainerPort: 9000, Name: "debug"},
	}
	if diff := cmp.Diff(wantPorts, main.Ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestTemplatesAddWhatTheServiceDoesNotSay(t *testing.T) {
	t.Parallel()
	pod := apply(t, workspace(t), layer(t, everything))
	main := shell(t, pod)
	if pod.Spec.PriorityClassName != "students" || pod.Spec.ServiceAccountName != "plain" || *pod.Spec.RuntimeClassName != "gvisor" {
		t.Errorf("priority class %q, service account %q, runtime class %v", pod.Spec.PriorityClassName, pod.Spec.ServiceAccountName, pod.Spec.RuntimeClassName)
	}
	if diff := cmp.Diff([]string{"/sbin/init"}, main.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Toleration{toleration("gpu")}, pod.Spec.Tolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
	if len(pod.Spec.InitContainers) != 1 || len(pod.Spec.Containers) != 2 || pod.Spec.Containers[1].Name != "proxy" || pod.Spec.Containers[1].Image != "envoy:1" {
		t.Errorf("init containers %v, containers %v", pod.Spec.InitContainers, pod.Spec.Containers)
	}
}

// layered is a case of several layers: what is expected of one part of the spec.
type layered struct {
	layers []string // the lowest first
	want   string
}

func (c layered) check(t *testing.T, pod *corev1.Pod, part func(corev1.PodSpec) any) {
	t.Helper()
	var layers []templates.Layer
	for _, text := range c.layers {
		layers = append(layers, layer(t, text))
	}
	got := part(apply(t, pod, layers...).Spec)
	want := part(read[corev1.PodSpec](t, c.want))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTemplatesContainers(t *testing.T) {
	t.Parallel()
	sidecars := func(spec corev1.PodSpec) any {
		var all []string
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			all = append(all, c.Name)
		}
		return all
	}
	for name, test := range map[string]layered{
		"shell is found wherever it stands": {
			[]string{`{spec: {containers: [{name: a, image: i}, {name: shell, image: i}, {name: b, image: i}]}}`},
			`{containers: [{name: shell}, {name: a}, {name: b}]}`,
		},
		"else the first is the workspace's": {
			[]string{`{spec: {containers: [{name: a, image: i}, {name: b, image: i}]}}`},
			`{containers: [{name: shell}, {name: b}]}`,
		},
		"each layer has its own first": {
			[]string{`{spec: {containers: [{name: a, image: i}, {name: b, image: i}]}}`, `{spec: {containers: [{name: b, image: i}, {name: c, image: i}]}}`},
			`{containers: [{name: shell}, {name: b}, {name: c}]}`,
		},
		"the lower layers' come first": {
			[]string{
				`{spec: {initContainers: [{name: i2, image: i}], containers: [{name: shell, image: i}, {name: b, image: i}]}}`,
				`{spec: {initContainers: [{name: i1, image: i}, {name: i2, image: i}], containers: [{name: shell, image: i}, {name: a, image: i}, {name: b, image: i}]}}`,
			},
			`{initContainers: [{name: i2}, {name: i1}], containers: [{name: shell}, {name: b}, {name: a}]}`,
		},
		"no containers at all": {
			[]string{`{spec: {priorityClassName: p}}`},
			`{containers: [{name: shell}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t, workspace(t), sidecars)
		})
	}
}

func TestTemplatesMergeByName(t *testing.T) {
	t.Parallel()
	bare := func(pod *corev1.Pod) {
		pod.Spec.Volumes = nil
		c := &pod.Spec.Containers[0]
		c.Env, c.Ports, c.VolumeMounts, c.Resources = nil, nil, nil, corev1.ResourceRequirements{}
	}
	whole := func(spec corev1.PodSpec) any {
		spec.NodeName, spec.RestartPolicy = "", ""
		c := &spec.Containers[0]
		c.Image, c.ImagePullPolicy, c.Stdin, c.TTY = "", "", false, false
		return spec
	}
	for name, test := range map[string]layered{
		"env": {
			[]string{
				`{spec: {containers: [{name: shell, env: [{name: A, value: low}, {name: B, value: low}]}]}}`,
				`{spec: {containers: [{name: shell, env: [{name: C, value: high}, {name: A, value: high}]}]}}`,
			},
			`{containers: [{name: shell, env: [{name: A, value: high}, {name: B, value: low}, {name: C, value: high}]}]}`,
		},
		"env of another kind": {
			[]string{
				`{spec: {containers: [{name: shell, env: [{name: A, value: low}, {name: B, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: C, value: low}]}]}}`,
				`{spec: {containers: [{name: shell, env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: B, value: high}, {name: C}]}]}}`,
			},
			`{containers: [{name: shell, env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: B, value: high}, {name: C}]}]}`,
		},
		"env doubled in one layer: the last counts, as for kubelet": {
			[]string{`{spec: {containers: [{name: shell, env: [{name: A, value: one}, {name: B, value: x}, {name: A, value: two}]}]}}`},
			`{containers: [{name: shell, env: [{name: A, value: two}, {name: B, value: x}]}]}`,
		},
		"mounts at one path": {
			[]string{
				`{spec: {containers: [{name: shell, volumeMounts: [{name: data, mountPath: /data, subPath: low, readOnly: true}, {name: more, mountPath: /more, subPath: low, readOnly: true}]}]}}`,
				`{spec: {containers: [{name: shell, volumeMounts: [{name: other, mountPath: /data/}, {name: more, mountPath: /more, subPath: high}]}]}}`,
			},
			`{containers: [{name: shell, volumeMounts: [{name: other, mountPath: /data/}, {name: more, mountPath: /more, subPath: high, readOnly: true}]}]}`,
		},
		"volumes of one kind": {
			[]string{
				`{spec: {volumes: [{name: a, secret: {secretName: low, defaultMode: 256}}, {name: b, emptyDir: {}}]}}`,
				`{spec: {volumes: [{name: c, hostPath: {path: /c}}, {name: a, secret: {secretName: high}}]}}`,
			},
			`{volumes: [{name: a, secret: {secretName: high, defaultMode: 256}}, {name: b}, {name: c, hostPath: {path: /c}}], containers: [{name: shell}]}`,
		},
		"volumes of another kind": {
			[]string{
				`{spec: {volumes: [{name: a, secret: {secretName: low, defaultMode: 256}}]}}`,
				`{spec: {volumes: [{name: a, configMap: {name: high}}]}}`,
			},
			`{volumes: [{name: a, configMap: {name: high}}], containers: [{name: shell}]}`,
		},
		"ports of one number": {
			[]string{
				`{spec: {containers: [{name: shell, ports: [{containerPort: 53, name: tcp, hostPort: 5300}, {containerPort: 53, protocol: UDP, name: udp}]}]}}`,
				`{spec: {containers: [{name: shell, ports: [{containerPort: 53, protocol: UDP, name: dns}, {containerPort: 53, hostIP: 127.0.0.1}]}]}}`,
			},
			`{containers: [{name: shell, ports: [{containerPort: 53, name: tcp, hostPort: 5300, hostIP: 127.0.0.1}, {containerPort: 53, protocol: UDP, name: dns}]}]}`,
		},
		"tolerations": {
			[]string{
				`{spec: {tolerations: [{key: a, operator: Exists}, {key: b, value: x}]}}`,
				`{spec: {tolerations: [{key: b, operator: Equal, value: x}, {key: a, operator: Exists, effect: NoSchedule}, {key: a, operator: Exists}]}}`,
			},
			`{tolerations: [{key: a, operator: Exists}, {key: b, operator: Equal, value: x}, {key: a, operator: Exists, effect: NoSchedule}], containers: [{name: shell}]}`,
		},
		"pull secrets and claims": {
			[]string{
				`{spec: {imagePullSecrets: [{name: a}], resourceClaims: [{name: gpu, resourceClaimName: low}], containers: [{name: shell, resources: {claims: [{name: gpu, request: r}]}}]}}`,
				`{spec: {imagePullSecrets: [{name: b}, {name: a}], resourceClaims: [{name: gpu, resourceClaimTemplateName: high}], containers: [{name: shell, resources: {claims: [{name: gpu, request: s}]}}]}}`,
			},
			`{imagePullSecrets: [{name: a}, {name: b}], resourceClaims: [{name: gpu, resourceClaimTemplateName: high}], containers: [{name: shell, resources: {claims: [{name: gpu, request: r}, {name: gpu, request: s}]}}]}`,
		},
		"spread": {
			[]string{
				`{spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}`,
				`{spec: {topologySpreadConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}`,
			},
			`{topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}], containers: [{name: shell}]}`,
		},
		"probes and hooks of another kind": {
			[]string{
				`{spec: {containers: [{name: shell, readinessProbe: {exec: {command: ["true"]}, periodSeconds: 7}, lifecycle: {preStop: {exec: {command: [sync]}}}}]}}`,
				`{spec: {containers: [{name: shell, readinessProbe: {tcpSocket: {port: 22}}, lifecycle: {preStop: {sleep: {seconds: 3}}}}]}}`,
			},
			`{containers: [{name: shell, readinessProbe: {tcpSocket: {port: 22}, periodSeconds: 7}, lifecycle: {preStop: {sleep: {seconds: 3}}}}]}`,
		},
		"lists without names are the upper layer's": {
			[]string{
				`{spec: {containers: [{name: shell, command: [a, b], envFrom: [{secretRef: {name: low}}]}]}}`,
				`{spec: {containers: [{name: shell, command: [c], envFrom: [{secretRef: {name: high}}]}]}}`,
			},
			`{containers: [{name: shell, command: [c], envFrom: [{secretRef: {name: high}}]}]}`,
		},
		"a container that gets the name shell is meant by its old one": {
			[]string{`{spec: {volumes: [{name: info, downwardAPI: {items: [{path: cpu, resourceFieldRef: {containerName: main, resource: limits.cpu}}]}}], containers: [{name: main, env: [{name: CPU, valueFrom: {resourceFieldRef: {containerName: main, resource: limits.cpu}}}]}]}}`},
			`{volumes: [{name: info, downwardAPI: {items: [{path: cpu, resourceFieldRef: {containerName: shell, resource: limits.cpu}}]}}], containers: [{name: shell, env: [{name: CPU, valueFrom: {resourceFieldRef: {containerName: shell, resource: limits.cpu}}}]}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t, workspace(t, bare), whole)
		})
	}
}

func TestTemplatesDefaultsBeatNothing(t *testing.T) {
	t.Parallel()
	low := `
		spec:
		  dnsPolicy: Default
		  schedulerName: other
		  terminationGracePeriodSeconds: 5
		  enableServiceLinks: false
		  securityContext: {fsGroup: 7}
		  volumes:
		  - {name: data, persistentVolumeClaim: {claimName: data}}
		  containers:
		  - {name: shell, image: i, terminationMessagePath: /low, terminationMessagePolicy: FallbackToLogsOnError}
		  - {name: proxy, image: "p:1", imagePullPolicy: Never, readinessProbe: {httpGet: {path: /low, port: 1, scheme: HTTPS}, periodSeconds: 9}}
	`
	high := `
		spec:
		  dnsPolicy: ClusterFirst
		  restartPolicy: Always
		  schedulerName: default-scheduler
		  terminationGracePeriodSeconds: 30
		  enableServiceLinks: true
		  securityContext: {}
		  volumes:
		  - {name: data, emptyDir: {}}
		  containers:
		  - {name: shell, image: i, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, imagePullPolicy: Always}
		  - {name: proxy, image: "p:2", imagePullPolicy: IfNotPresent, readinessProbe: {httpGet: {path: /, port: 2, scheme: HTTP}, periodSeconds: 10, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 3}}
	`
	pod := apply(t, workspace(t), layer(t, low), layer(t, high))
	want := apply(t, workspace(t), layer(t, low))
	want.Spec.Containers[1].Image = "p:2"
	want.Spec.Containers[1].ReadinessProbe.HTTPGet.Port.IntVal = 2
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("(-lower layer +both):\n%s", diff)
	}
	// What is no default of the upper layer's image does beat the lower one.
	latest := layer(t, `{spec: {containers: [{name: shell, image: i}, {name: proxy, image: p, imagePullPolicy: IfNotPresent}]}}`)
	pod = apply(t, workspace(t), layer(t, low), latest)
	if got := pod.Spec.Containers[1].ImagePullPolicy; got != corev1.PullIfNotPresent {
		t.Errorf("an explicit policy of the upper layer lost against %s", got)
	}
}

func TestTemplatesProposalsOfTheService(t *testing.T) {
	t.Parallel()
	nvidia := "nvidia"
	proposing := func(pod *corev1.Pod) {
		pod.Spec.RuntimeClassName = &nvidia
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "NVIDIA_DRIVER_CAPABILITIES", Value: "all"})
	}
	silent := layer(t, `{spec: {containers: [{name: shell, image: i}]}}`)
	asking := layer(t, `{spec: {runtimeClassName: gvisor, containers: [{name: shell, image: i, env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: compute}]}]}}`)
	for name, test := range map[string]struct {
		layers       []templates.Layer
		class, value string
		sets         bool
	}{
		"stand where no layer says anything": {[]templates.Layer{silent}, "nvidia", "all", false},
		"yield to a layer":                   {[]templates.Layer{asking, silent}, "gvisor", "compute", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := apply(t, workspace(t, proposing), test.layers...)
			env := shell(t, pod).Env
			if got := *pod.Spec.RuntimeClassName; got != test.class {
				t.Errorf("runtime class %s", got)
			}
			if got := env[len(env)-1]; got.Name != "NVIDIA_DRIVER_CAPABILITIES" || got.Value != test.value {
				t.Errorf("last variable %v", got)
			}
			if got := templates.SetsRuntimeClass(test.layers); got != test.sets {
				t.Errorf("a layer asks for a runtime class: %t", got)
			}
		})
	}
}

func TestTemplatesKeepTheServicesNode(t *testing.T) {
	t.Parallel()
	affinity := func(spec corev1.PodSpec) any { return [2]any{spec.NodeName, spec.Affinity} }
	const ours = `matchFields: [{key: metadata.name, operator: In, values: [farm6]}]`
	for name, test := range map[string]layered{
		"alone": {
			[]string{`{spec: {nodeName: farm1}}`},
			`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{` + ours + `}]}}}}`,
		},
		"beside what a template demands": {
			[]string{`{spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}, {matchExpressions: [{key: b, operator: Exists}]}, {}]}}}}}`},
			`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}], ` + ours + `}, {matchExpressions: [{key: b, operator: Exists}], ` + ours + `}, {}]}}}}`,
		},
		"beside what a template prefers": {
			[]string{`{spec: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}, podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}}}`},
			`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{` + ours + `}]}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}, podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.check(t, workspace(t, onNode("farm6")), affinity)
		})
	}
	near := func(key string) *corev1.PodAffinity {
		return &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key}}}
	}
	beside := layer(t, `{spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: theirs}]}}}}`)
	pod := apply(t, workspace(t, func(pod *corev1.Pod) { pod.Spec.Affinity = &corev1.Affinity{PodAffinity: near("ours")} }), beside)
	want := near("theirs")
	want.RequiredDuringSchedulingIgnoredDuringExecution = append(want.RequiredDuringSchedulingIgnoredDuringExecution, near("ours").RequiredDuringSchedulingIgnoredDuringExecution...)
	if diff := cmp.Diff(want, pod.Spec.Affinity.PodAffinity); diff != "" {
		t.Errorf("pod affinity (-want +got):\n%s", diff)
	}
}
