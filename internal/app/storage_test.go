package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"config-server/internal/farm"
	"config-server/internal/testkit"
	"config-server/internal/testkit/faultproxy"
	"config-server/internal/testkit/world"
)

// ownPodName is the service's own pod in these tests: the API server has it, and the process runs beside it.
const ownPodName = "config-server-0"

// newSelfFarm is a farm whose service has its homes on volumes of its own pod, with exactly the rights that the chart
// gives for that. spec is the pod's, as YAML.
func newSelfFarm(t *testing.T, spec string, env map[string]string) shapedFarm {
	t.Helper()
	f := shapedFarm{world.New(t, world.Options{Cluster: testkit.Cluster(t), Env: map[string]string{
		"HOME_VOLUME": "self", "NFS_SERVER": "", "POD_NAME": ownPodName, "POD_IP": "192.0.2.7",
	}})}
	for name, value := range env {
		f.Env[name] = value
	}
	f.Cluster.Grant(t, "self")
	f.ownPod(t, ownPodName, spec)
	return f
}

// ownPod makes a pod on farm6 with labels, and returns its address once it runs.
func (f shapedFarm) ownPod(t *testing.T, name, spec string) (address string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "containerssh-config-server"}}}
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	pod.Spec.NodeName = "farm6"
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Image = "config-server"
	}
	pods := f.Cluster.Admin(t).CoreV1().Pods(f.Cluster.Namespace)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, 30*time.Second, "the service's own pod", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.Status.PodIP == "" {
			err = fmt.Errorf("it has no address, phase %s", pod.Status.Phase)
		}
		if err == nil {
			address = pod.Status.PodIP
		}
		return err
	})
	return address
}

// claim makes a PersistentVolumeClaim.
func (f shapedFarm) claim(t *testing.T, name string, modes ...corev1.PersistentVolumeAccessMode) {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		}},
	}
	if _, err := f.Cluster.Admin(t).CoreV1().PersistentVolumeClaims(f.Cluster.Namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// onNodes has admin_be name the nodes that a user may have.
func (f shapedFarm) onNodes(t *testing.T, user string, nodes ...string) {
	t.Helper()
	var entries []any
	for _, node := range nodes {
		entries = append(entries, map[string]any{"node_name": node})
	}
	f.AdminBE.SetConfig(user, map[string]any{"image": "dguailab/decs:1.0", "gpu_nodes": entries})
}

// homeOf tells what a pod has at a path.
func homeOf(pod *corev1.Pod, path string) string {
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		if mount.MountPath != path {
			continue
		}
		for _, volume := range pod.Spec.Volumes {
			switch {
			case volume.Name != mount.Name:
			case volume.PersistentVolumeClaim != nil:
				return fmt.Sprintf("claim %s, folder %q, read-only %v", volume.PersistentVolumeClaim.ClaimName, mount.SubPath, mount.ReadOnly)
			case volume.NFS != nil:
				return fmt.Sprintf("nfs %s:%s, folder %q, read-only %v", volume.NFS.Server, volume.NFS.Path, mount.SubPath, mount.ReadOnly)
			case volume.HostPath != nil:
				return fmt.Sprintf("hostPath %s, folder %q, read-only %v", volume.HostPath.Path, mount.SubPath, mount.ReadOnly)
			}
		}
	}
	return "nothing"
}

// pinned tells which pods a pod has to be beside of, as the API server keeps it.
func pinned(pod *corev1.Pod) string {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAffinity == nil {
		return ""
	}
	var all []string
	for _, term := range pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		all = append(all, fmt.Sprintf("%s of %s", metav1.FormatLabelSelector(term.LabelSelector), term.TopologyKey))
	}
	return strings.Join(all, "; ")
}

// TestStorageWorkspacesHaveTheServicesVolumes: pods as the API server takes them, on every node where each volume is to
// be had by everybody, on the service's own where one is not; migrations likewise.
func TestStorageWorkspacesHaveTheServicesVolumes(t *testing.T) {
	t.Parallel()
	const pod = `
volumes:
- {name: homes, persistentVolumeClaim: {claimName: homes}}
- {name: sets, nfs: {server: 192.0.2.31, path: /sets}}
- {name: local, hostPath: {path: /srv/courses}}
- {name: tmp, emptyDir: {}}
containers:
- name: sidecar
  volumeMounts: [{name: tmp, mountPath: /home}]
- name: config-server
  volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: homes, mountPath: /home, subPath: users, readOnly: true}
  - {name: sets, mountPath: /srv/sets, readOnly: true}
  - {name: local, mountPath: /srv/courses}
`
	for name, tc := range map[string]struct {
		modes []corev1.PersistentVolumeAccessMode
		env   map[string]string
		at    map[string]string // path -> what is there
		bound string            // why workspaces are bound to farm6; empty = they are not
	}{
		"a claim for many": {
			modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			env:   map[string]string{"SELF_PATHS": "/srv/sets/lab"},
			at:    map[string]string{"/home": `claim homes, folder "users", read-only false`, "/srv/sets/lab": `nfs 192.0.2.31:/sets, folder "lab", read-only true`},
		},
		"a claim for one node": {
			modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			at:    map[string]string{"/home": `claim homes, folder "users", read-only false`},
			bound: "/home is on claim homes, which is not ReadWriteMany",
		},
		"a folder of the node, beside a claim for many": {
			modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			env:   map[string]string{"FARM_HOME_MOUNT_ROOT": "/home/lab", "SELF_PATHS": "/srv/courses"},
			at:    map[string]string{"/home": `claim homes, folder "users/lab", read-only false`, "/srv/courses": `hostPath /srv/courses, folder "", read-only false`},
			bound: "/srv/courses is on a volume of kind hostPath",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSelfFarm(t, pod, tc.env)
			f.claim(t, "homes", tc.modes...)
			service := f.Service(t, nil)
			world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
			f.onNodes(t, "kim", "farm5", "farm6")
			made := f.create(t, service.URL, "kim")
			for path, want := range tc.at {
				if got := homeOf(made, path); got != want {
					t.Errorf("%s: %s, want %s", path, got, want)
				}
			}
			if _, out, errs := byHand(t, f.World, nil, "check"); !strings.Contains(out, "homes") || strings.Contains(out+errs, "persistentvolumeclaims") {
				t.Errorf("check: %s%s", out, errs)
			}
			world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("lee"), 201)
			move := `{"username":%q,"nodes":["farm5","farm6"],"min_improvement_ratio":0}`
			if tc.bound == "" {
				f.onNodes(t, "lee", "farm5")
				if old := f.create(t, service.URL, "lee"); old.Spec.NodeName != "farm5" || pinned(made)+pinned(old) != "" {
					t.Errorf("on %s beside %q and %q", old.Spec.NodeName, pinned(made), pinned(old))
				}
				answer := world.Call(t, service.URL, "POST", "/migrate", fmt.Sprintf(move, "lee"), 200)
				if answer.Text("status") != "migrated" || homeOf(f.podNamed(t, answer.Text("new_pod")), "/home") != tc.at["/home"] {
					t.Errorf("migrate: %s", answer.Body)
				}
				return
			}
			if made.Spec.NodeName != "farm6" || pinned(made) != "app=containerssh-config-server of kubernetes.io/hostname" {
				t.Errorf("on %s beside %q", made.Spec.NodeName, pinned(made))
			}
			if answer := world.Call(t, service.URL, "POST", "/migrate", fmt.Sprintf(move, "kim"), 200); answer.Text("status") != "skipped" || answer.Text("reason") != "no_candidate_node" {
				t.Errorf("migrate: %s", answer.Body)
			}
			f.onNodes(t, "lee", "farm5", "farm7")
			answer := f.refuse(t, service.URL, "lee", 400, "BUILD_POD_SPEC", "POD_SPEC_BUILD_FAILED")
			why := fmt.Sprintf("no suitable node (farm5: %[1]s: workspaces have to run on farm6, as config-server does; farm7: %[1]s: ", tc.bound)
			if !strings.HasPrefix(answer.Text("detail"), why) {
				t.Errorf("detail %q, want %q", answer.Text("detail"), why)
			}
		})
	}
}

// TestStorageThatCannotBeGivenEndsTheStart: the service ends with an error that names the path, and check tells it.
func TestStorageThatCannotBeGivenEndsTheStart(t *testing.T) {
	t.Parallel()
	const claims = `
volumes: [{name: homes, persistentVolumeClaim: {claimName: homes}}, {name: scratch, emptyDir: {}}, {name: keys, secret: {secretName: keys}}]
containers:
- name: config-server
  volumeMounts: [{name: homes, mountPath: /home}, {name: scratch, mountPath: /home/scratch}, {name: keys, mountPath: /keys}]
`
	f := newSelfFarm(t, claims, nil)
	f.claim(t, "homes", corev1.ReadWriteOncePod)
	f.ownPod(t, "no-homes", `{containers: [{name: config-server}]}`)
	for name, tc := range map[string]struct {
		env  map[string]string
		says string
	}{
		"a claim for one pod":         {nil, "/home: workspaces cannot have it: claim homes is ReadWriteOncePod"},
		"an empty folder, no shorter": {map[string]string{"FARM_HOME_MOUNT_ROOT": "/home/scratch/a"}, "/home/scratch/a: workspaces cannot have it: it lies on volume scratch of pod config-server-0, and a volume of kind emptyDir"},
		"a further path, a Secret":    {map[string]string{"FARM_HOME_MOUNT_ROOT": "/keys"}, "/keys: workspaces cannot have it: it lies on volume keys of pod config-server-0, and a volume of kind secret"},
		"nothing is mounted":          {map[string]string{"POD_NAME": "no-homes"}, "/home: workspaces cannot have it: no volume is mounted there in container config-server of pod no-homes"},
		"there is no own pod":         {map[string]string{"POD_NAME": "nobody"}, "has no pod nobody, and 0 pods with the address 192.0.2.7"},
		"a way up":                    {map[string]string{"FARM_HOME_MOUNT_ROOT": "/home/../etc"}, "FARM_HOME_MOUNT_ROOT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"LISTEN_ADDR": "127.0.0.1:0", "STATE_DIR": t.TempDir()}
			for name, value := range tc.env {
				env[name] = value
			}
			if code, out, errs := byHand(t, f.World, env, "serve"); code == 0 || !strings.Contains(out+errs, tc.says) {
				t.Errorf("serve ended with %d and does not say %q: %s%s", code, tc.says, out, errs)
			}
			env["STATE_DIR"] = t.TempDir()
			if code, out, errs := byHand(t, f.World, env, "check"); code == 0 || !strings.Contains(out+errs, tc.says) {
				t.Errorf("check ended with %d and does not say %q: %s%s", code, tc.says, out, errs)
			}
		})
	}
}

// homesOnAClaim is a pod of the service that has nothing but homes.
const homesOnAClaim = `
volumes: [{name: homes, persistentVolumeClaim: {claimName: homes}}]
containers: [{name: config-server, volumeMounts: [{name: homes, mountPath: /home}]}]
`

// TestStorageWithoutTheRight: whether a claim is for many is not known then, so workspaces run where it is mounted
// already; check names the right.
func TestStorageWithoutTheRight(t *testing.T) {
	t.Parallel()
	f := newSelfFarm(t, homesOnAClaim, nil)
	f.claim(t, "homes", corev1.ReadWriteMany)
	f.Cluster.Revoke(t, "get", "persistentvolumeclaims", false)
	own := asServiceAccount(f.Cluster)
	testkit.WaitFor(t, testLimit, "the end of the right", func(ctx context.Context) error {
		if _, _, err := own.Claim(ctx, "homes"); !farm.IsForbidden(err) {
			return fmt.Errorf("the claim can still be read: %v", err)
		}
		return nil
	})
	service := f.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	f.onNodes(t, "kim", "farm5", "farm6")
	if made := f.create(t, service.URL, "kim"); made.Spec.NodeName != "farm6" || pinned(made) == "" || homeOf(made, "/home") == "nothing" {
		t.Errorf("on %s beside %q, /home is %s", made.Spec.NodeName, pinned(made), homeOf(made, "/home"))
	}
	if told := strings.Count(service.Log(t), "the access modes of a claim may not be read"); told != 1 {
		t.Errorf("it was told %d times, want once", told)
	}
	if _, out, errs := byHand(t, f.World, nil, "check"); !strings.Contains(out+errs, "missing: get persistentvolumeclaims: ") || !strings.Contains(out, "LIMITED  further rights") {
		t.Errorf("check: %s%s", out, errs)
	}
}

// TestStorageByTheAddress: a service whose host has another name than its pod.
func TestStorageByTheAddress(t *testing.T) {
	t.Parallel()
	f := newSelfFarm(t, `{containers: [{name: config-server}]}`, map[string]string{"POD_NAME": "gateway"})
	f.claim(t, "homes", corev1.ReadWriteMany)
	f.Env["POD_IP"] = f.ownPod(t, "config-server-1", homesOnAClaim)
	service := f.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	f.onNodes(t, "kim", "farm5")
	if made := f.create(t, service.URL, "kim"); homeOf(made, "/home") != `claim homes, folder "", read-only false` {
		t.Errorf("/home is %s", homeOf(made, "/home"))
	}
}

// TestStorageWhileTheAPIServerIsDown: the service starts, workspaces fail until its own pod can be read, and afterwards
// nothing more is asked for them than without HOME_VOLUME=self.
func TestStorageWhileTheAPIServerIsDown(t *testing.T) {
	t.Parallel()
	f := newSelfFarm(t, homesOnAClaim, nil)
	f.claim(t, "homes", corev1.ReadWriteMany)
	asked := between(t, f.World)
	const ownPod = "^GET .*/pods/" + ownPodName
	asked.Fail(faultproxy.HTTPFault{Match: ownPod, Status: 500, Reason: metav1.StatusReasonInternalError})
	service := f.Service(t, nil)
	world.Call(t, service.URL, "PUT", "/accounts/users", world.UserBody("kim"), 201)
	f.onNodes(t, "kim", "farm5")
	answer := f.refuse(t, service.URL, "kim", 500, "BUILD_POD_SPEC", "POD_SPEC_BUILD_FAILED")
	if !strings.Contains(answer.Text("detail"), "find what HOME_VOLUME=self gives to workspaces: read the service's own pod") {
		t.Errorf("detail %q", answer.Text("detail"))
	}
	asked.Fail()
	testkit.WaitFor(t, testLimit, "the service's own pod to be found", func(context.Context) error {
		if !strings.Contains(service.Log(t), "workspaces have their homes on a volume of this service's own pod") {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	asked.Fail(
		faultproxy.HTTPFault{Match: ownPod, Hook: none}, faultproxy.HTTPFault{Match: "^GET .*/persistentvolumeclaims/", Hook: none},
		faultproxy.HTTPFault{Match: "^GET .*/pods/ailab-", Hook: none}, faultproxy.HTTPFault{Match: newPods, Hook: none},
	)
	f.create(t, service.URL, "kim")
	if diff := cmp.Diff([]int{0, 0, 1, 1}, asked.Hits()); diff != "" {
		t.Errorf("requests for the own pod, claims, the pod's name, new pods (-want +got):\n%s", diff)
	}
}
