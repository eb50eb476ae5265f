package templates_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"config-server/internal/templates"
	"config-server/internal/testkit"
)

// apiServer is a namespace of a real API server, which these tests only ask: nothing is kept.
type apiServer struct {
	kubernetes.Interface
	namespace string
}

func newAPIServer(t *testing.T) apiServer {
	t.Helper()
	cluster := testkit.Cluster(t)
	return apiServer{cluster.Admin(t), cluster.Namespace}
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// stored is a template as the API server would keep it.
func (a apiServer) stored(t *testing.T, template corev1.PodTemplateSpec) (corev1.PodTemplateSpec, error) {
	t.Helper()
	object := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{GenerateName: "drawn-"}, Template: template}
	kept, err := a.CoreV1().PodTemplates(a.namespace).Create(t.Context(), object, dryRun)
	if err != nil {
		return corev1.PodTemplateSpec{}, err
	}
	return kept.Template, nil
}

func (a apiServer) mustStore(t *testing.T, template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t.Helper()
	kept, err := a.stored(t, template)
	if err != nil {
		t.Fatalf("the API server refuses the template: %v", err)
	}
	return kept
}

func (a apiServer) create(t *testing.T, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	pod = pod.DeepCopy()
	pod.Namespace = a.namespace
	return a.CoreV1().Pods(a.namespace).Create(t.Context(), pod, dryRun)
}

// askedOfServer is how many drawn templates are shown to the API server.
const askedOfServer = 60

// TestTemplatesRealStoredDefaultsSayNothing: a template that comes back from the API server shapes a
// pod as the one that was sent, as the only layer, below another one and above another one.
func TestTemplatesRealStoredDefaultsSayNothing(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	changed := 0
	for seed := range uint64(askedOfServer) {
		g := newGenerator(seed, false)
		sent, other := g.template(), g.template()
		kept := server.mustStore(t, sent)
		if diff := cmp.Diff(sent, kept); diff != "" {
			changed++
		}
		if diff := differ(templates.Prepare(sent), templates.Prepare(kept)); diff != "" {
			t.Fatalf("seed %d: (-sent +stored):\n%s", seed, diff)
		}
		for name, layers := range map[string][2][]templates.Layer{
			"below": {{{Template: sent}, {Template: other}}, {{Template: kept}, {Template: other}}},
			"above": {{{Template: other}, {Template: sent}}, {{Template: other}, {Template: kept}}},
		} {
			if diff := differ(apply(t, workspace(t), layers[0]...), apply(t, workspace(t), layers[1]...)); diff != "" {
				t.Fatalf("seed %d, %s: (-sent +stored):\n%s", seed, name, diff)
			}
		}
	}
	if changed != askedOfServer {
		t.Errorf("only %d of %d templates came back changed: the test proves little", changed, askedOfServer)
	}
}

// TestTemplatesRealServerTakesWhatWeMake: three layers under the service's pod give a pod that the
// API server takes, whatever they are.
func TestTemplatesRealServerTakesWhatWeMake(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	for seed := range uint64(askedOfServer) {
		g := newGenerator(seed, false)
		var layers []templates.Layer
		for range 3 {
			layers = append(layers, templates.Layer{Template: server.mustStore(t, g.template())})
		}
		for name, pod := range map[string]*corev1.Pod{
			"bound by name": workspace(t), "bound by the scheduler": workspace(t, onNode("farm6")),
		} {
			if _, err := server.create(t, apply(t, pod, layers...)); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, name, err)
			}
		}
	}
}

// TestTemplatesRealDefaultsAreKnown shows the API server a template with everything that has a
// default, and none of the defaults: what it adds must be known as a default, whatever it is.
func TestTemplatesRealDefaultsAreKnown(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	sent := read[corev1.PodTemplateSpec](t, `
		spec:
		  serviceAccountName: plain
		  volumes:
		  - {name: empty}
		  - {name: host, hostPath: {path: /a}}
		  - {name: secret, secret: {secretName: s}}
		  - {name: config, configMap: {name: c}}
		  - {name: downward, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}
		  - {name: projected, projected: {sources: [{serviceAccountToken: {path: token}}, {downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}]}}
		  - {name: iscsi, iscsi: {targetPortal: "192.0.2.1:3260", iqn: "iqn.2001-04.com.example:disk", lun: 0}}
		  - {name: rbd, rbd: {monitors: [m], image: i}}
		  - {name: azure, azureDisk: {diskName: d, diskURI: "https://example.org/d"}}
		  - {name: scaleio, scaleIO: {gateway: g, system: s, volumeName: v, secretRef: {name: s}}}
		  - {name: ephemeral, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
		  - {name: image, image: {reference: data}}
		  - {name: image1, image: {reference: "data:1"}}
		  initContainers:
		  - name: prepare
		    image: i
		    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
		    ports: [{containerPort: 1}]
		  containers:
		  - name: shell
		    image: i:1
		    env:
		    - {name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
		    - {name: B, valueFrom: {fileKeyRef: {volumeName: empty, path: a, key: B}}}
		    ports: [{containerPort: 1}]
		    livenessProbe: {httpGet: {port: 1}}
		    readinessProbe: {grpc: {port: 1}}
		    startupProbe: {exec: {command: [a]}}
		    lifecycle: {preStop: {httpGet: {port: 1}}, postStart: {httpGet: {port: 1}}}
	`)
	kept := server.mustStore(t, sent)
	// Every one of these came back with more than was sent.
	for i, volume := range kept.Spec.Volumes {
		if diff := cmp.Diff(sent.Spec.Volumes[i], volume); diff == "" {
			t.Errorf("volume %s came back as it was sent", volume.Name)
		}
	}
	if diff := differ(sent.Spec, templates.Prepare(kept).Spec); diff != "" {
		t.Errorf("(-sent +stored, without what is known as a default):\n%s", diff)
	}
	// What only pods get.
	if links := kept.Spec.EnableServiceLinks; links != nil {
		t.Errorf("a stored template says enableServiceLinks %t: it was thought that only pods do", *links)
	}
}

// TestTemplatesRealTraps are the API server's ways that the rules are made for.
func TestTemplatesRealTraps(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)

	t.Run("stored defaults come back", func(t *testing.T) {
		t.Parallel()
		kept := server.mustStore(t, layer(t, `{spec: {containers: [{name: shell, image: i}]}}`).Template)
		spec, main := kept.Spec, kept.Spec.Containers[0]
		got := fmt.Sprint(spec.DNSPolicy, " ", spec.RestartPolicy, " ", spec.SchedulerName, " ", *spec.TerminationGracePeriodSeconds, " ", spec.SecurityContext != nil,
			" ", main.ImagePullPolicy, " ", main.TerminationMessagePath, " ", main.TerminationMessagePolicy)
		if want := "ClusterFirst Always default-scheduler 30 true Always /dev/termination-log File"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})

	const low = `{spec: {volumes: [{name: a, secret: {secretName: s}}], containers: [{name: shell, image: i, volumeMounts: [{name: a, mountPath: /data}], env: [{name: A, value: low}]}]}}`
	const high = `{spec: {volumes: [{name: b, secret: {secretName: s}}], containers: [{name: shell, image: i, volumeMounts: [{name: b, mountPath: /data}], env: [{name: A, value: high}]}]}}`
	doubled := func(t *testing.T) *corev1.Pod {
		pod := workspace(t)
		for _, text := range []string{low, high} {
			spec := layer(t, text).Template.Spec
			pod.Spec.Volumes = append(pod.Spec.Volumes, spec.Volumes...)
			pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, spec.Containers[0].VolumeMounts...)
			pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, spec.Containers[0].Env...)
		}
		return pod
	}

	t.Run("a doubled mountPath is refused with 422, and never made", func(t *testing.T) {
		t.Parallel()
		if _, err := server.create(t, doubled(t)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be unique") {
			t.Errorf("two mounts at one path: %v", err)
		}
		made, err := server.create(t, apply(t, workspace(t), layer(t, low), layer(t, high)))
		if err != nil {
			t.Fatal(err)
		}
		if at := made.Spec.Containers[0].VolumeMounts; at[len(at)-1].Name != "b" || at[len(at)-1].MountPath != "/data" {
			t.Errorf("mounts %v", at)
		}
	})

	t.Run("a doubled variable is taken, and never made", func(t *testing.T) {
		t.Parallel()
		pod := doubled(t)
		pod.Spec.Containers[0].VolumeMounts = nil
		if _, err := server.create(t, pod); err != nil {
			t.Errorf("a variable twice: %v", err)
		}
		made, err := server.create(t, apply(t, workspace(t), layer(t, low), layer(t, high)))
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, v := range made.Spec.Containers[0].Env {
			if v.Name == "A" {
				values = append(values, v.Value)
			}
		}
		if diff := cmp.Diff([]string{"high"}, values); diff != "" {
			t.Errorf("values of A (-want +got):\n%s", diff)
		}
	})

	t.Run("an unknown PriorityClass or RuntimeClass is refused with 403", func(t *testing.T) {
		t.Parallel()
		for text, words := range map[string]string{
			`{spec: {priorityClassName: nobody-made-it, containers: [{name: shell, image: i}]}}`: "no PriorityClass with name nobody-made-it was found",
			`{spec: {runtimeClassName: nobody-made-it, containers: [{name: shell, image: i}]}}`:  `RuntimeClass "nobody-made-it" not found`,
		} {
			kept := server.mustStore(t, layer(t, text).Template) // the template itself is fine
			_, err := server.create(t, apply(t, workspace(t), templates.Layer{Template: kept}))
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
}
