package replay_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"config-server/internal/testkit/replay"
)

const recordedObjects = `
pods:
  kim:
    metadata: {name: ailab-kim-<8 hex>, namespace: ailab-infra, labels: {username: kim}}
    spec:
      nodeName: farm6
      containers: [{name: shell, image: a, resources: {}}]
services:
  - name: ailab-kim-ssh-30000
    labels: {app: ailab-nodeport}
    spec: {type: NodePort, ports: [{name: ssh, port: 22, targetPort: 22, nodePort: 30000, protocol: TCP}]}
`

const storedPod = `
metadata: {name: ailab-kim-0123abcd, namespace: ailab-infra, labels: {username: kim}, uid: x, annotations: {ailab/username: kim}}
spec:
  nodeName: farm6
  dnsPolicy: ClusterFirst
  priority: 0
  securityContext: {}
  tolerations:
    - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
    - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  containers: [{name: shell, image: a, resources: {}, terminationMessagePath: /dev/termination-log}]
`

const storedService = `
metadata: {name: ailab-kim-ssh-30000, labels: {app: ailab-nodeport}}
spec:
  type: NodePort
  clusterIP: 10.96.0.9
  sessionAffinity: None
  ports: [{name: ssh, port: 22, targetPort: 22, nodePort: 30000, protocol: TCP}]
`

func TestCompareObjectsLeavesOutDefaultsAndNothingElse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		old, new string // replaced in the stored objects
		want     string // part of the differences; "" = none
	}{
		{"as recorded", "image: a", "image: a", ""},
		{"another node", "nodeName: farm6", "nodeName: farm5", `pods.kim.spec.nodeName is "farm5", want "farm6"`},
		{"another than the default", "dnsPolicy: ClusterFirst", "dnsPolicy: None", `pods.kim.spec.dnsPolicy is "None", want none`},
		{"added to a container", "image: a,", "image: a, env: [{name: B}],", "containers[0].env"},
		{"another label", "app: ailab-nodeport", "app: other", "services[0].labels.app"},
		{"another port", "nodePort: 30000", "nodePort: 30001", "services[0].spec.ports[0].nodePort is 30001, want 30000"},
	}
	path := filepath.Join(t.TempDir(), "objects.json")
	text, err := yaml.YAMLToJSON([]byte(recordedObjects))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pod := parse[corev1.Pod](t, strings.ReplaceAll(storedPod, test.old, test.new))
			service := parse[corev1.Service](t, strings.ReplaceAll(storedService, test.old, test.new))
			differences, err := replay.CompareObjects(path, []corev1.Pod{pod}, []corev1.Service{service})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(differences, "\n")
			if test.want == "" && got != "" {
				t.Errorf("unexpected: %s", got)
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("differences %q, want %q in them", got, test.want)
			}
		})
	}
}

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var object T
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}
