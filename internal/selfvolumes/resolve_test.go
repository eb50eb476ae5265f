package selfvolumes

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nfs and claimed are volumes that another pod can have.
func nfs(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "192.0.2.30", Path: "/" + name}}}
}

func claimed(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
}

func local(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

// own is the service's own pod on farm5, with mounts written as "volume path" or "volume path subPath".
func own(volumes []corev1.Volume, mounts ...string) *corev1.Pod {
	container := corev1.Container{Name: ContainerName}
	for _, line := range mounts {
		words := append(strings.Fields(line), "")
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: words[0], MountPath: words[1], SubPath: words[2]})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "config-server-0", Namespace: "ailab-infra", UID: "uid-0", Labels: map[string]string{"app": "config-server"}},
		Spec:       corev1.PodSpec{NodeName: "farm5", Volumes: volumes, Containers: []corev1.Container{container}},
	}
}

func TestStorageTheLongestMountCounts(t *testing.T) {
	t.Parallel()
	volumes := []corev1.Volume{nfs("share"), nfs("homes"), local("scratch")}
	for name, tc := range map[string]struct {
		mounts []string
		folder string
		want   string // volume:subPath, or a part of the error
	}{
		"the mount itself":                      {[]string{"homes /home"}, "/home", "homes:"},
		"the mount itself, its folder":          {[]string{"share /home users"}, "/home", "share:users"},
		"below the mount":                       {[]string{"share /srv"}, "/srv/lab/homes", "share:lab/homes"},
		"below the mount of a folder":           {[]string{"share /srv volume1/share"}, "/srv/lab/homes", "share:volume1/share/lab/homes"},
		"the longest of several":                {[]string{"share /srv", "homes /srv/homes", "share /srv/homes2"}, "/srv/homes/a", "homes:a"},
		"the longest of several, other order":   {[]string{"homes /srv/homes", "share /srv"}, "/srv/homes", "homes:"},
		"components, not letters":               {[]string{"share /srv", "homes /srv/home"}, "/srv/homes", "share:homes"},
		"the root":                              {[]string{"share /"}, "/home", "share:home"},
		"written with slashes too many":         {[]string{"homes /home/"}, "//home//a/./b/", "homes:a/b"},
		"a folder that says where it is":        {[]string{"homes /home ."}, "/home", "homes:"},
		"nothing is mounted there":              {[]string{"homes /homes"}, "/home", "/home: workspaces cannot have it: no volume is mounted there in container config-server"},
		"a shorter mount is not tried":          {[]string{"share /srv", "scratch /srv/tmp"}, "/srv/tmp/a", "/srv/tmp/a: workspaces cannot have it: it lies on volume scratch of pod config-server-0, and a volume of kind emptyDir"},
		"a mount of a volume that is not there": {[]string{"gone /home"}, "/home", "/home: workspaces cannot have it: pod config-server-0 has no volume gone"},
		"a way up":                              {[]string{"homes /home"}, "/home/../etc", "/home/../etc: workspaces cannot have it: it has to be an absolute path without .."},
		"a relative path":                       {[]string{"homes /home"}, "home", "home: workspaces cannot have it: it has to be an absolute path"},
		"dots that are a name":                  {[]string{"homes /home"}, "/home/..a", "homes:..a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mount, err := Resolve(own(volumes, tc.mounts...), Path{Own: tc.folder, At: "/home"})
			if err != nil {
				if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error %q, want one with %q", err, tc.want)
				}
				return
			}
			if got := mount.Volume.Name + ":" + mount.SubPath; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// Every kind of volume that the API knows belongs to one class, each of which the rules name.
func TestStorageKinds(t *testing.T) {
	t.Parallel()
	alone := []string{"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "gitRepo", "image", "projected", "secret"}
	everywhere := []string{"azureFile", "cephfs", "glusterfs", "nfs"}
	kinds := reflect.TypeFor[corev1.VolumeSource]()
	if kinds.NumField() < 25 {
		t.Errorf("the API knows %d kinds of volume", kinds.NumField())
	}
	for i := range kinds.NumField() {
		kind, _, _ := strings.Cut(kinds.Field(i).Tag.Get("json"), ",")
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			volume := corev1.Volume{Name: "v"}
			reflect.ValueOf(&volume.VolumeSource).Elem().Field(i).Set(reflect.New(kinds.Field(i).Type.Elem()))
			mount, err := Resolve(own([]corev1.Volume{nfs("share"), volume}, "share /", "v /home"), Path{Own: "/home/a", At: "/home"})
			if slices.Contains(alone, kind) {
				if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "/home/a") || !strings.Contains(err.Error(), kind) {
					t.Errorf("error %v: it has to name path and kind", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			why, err := mount.bound(claim{modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}})
			if err != nil {
				t.Fatal(err)
			}
			if bound := why != ""; bound == slices.Contains(everywhere, kind) {
				t.Errorf("bound to the service's node: %v (%s)", bound, why)
			}
		})
	}
}

func TestStorageAVolumeWithoutAKind(t *testing.T) {
	t.Parallel()
	_, err := Resolve(own([]corev1.Volume{{Name: "v"}}, "v /home"), Path{Own: "/home"})
	if !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "emptyDir") {
		t.Errorf("error %v: it is an empty folder", err)
	}
}

func TestStorageClaims(t *testing.T) {
	t.Parallel()
	const once, many, read, one = corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadOnlyMany, corev1.ReadWriteOncePod
	mount, err := Resolve(own([]corev1.Volume{claimed("homes")}, "homes /home"), Path{Own: "/home", At: "/home"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		claim claim
		want  string
	}{
		"for many":                {claim{modes: []corev1.PersistentVolumeAccessMode{many}}, ""},
		"for many too":            {claim{modes: []corev1.PersistentVolumeAccessMode{once, read, many}}, ""},
		"for one node":            {claim{modes: []corev1.PersistentVolumeAccessMode{once}}, "/home is on claim homes, which is not ReadWriteMany"},
		"for many readers":        {claim{modes: []corev1.PersistentVolumeAccessMode{read}}, "/home is on claim homes, which is not ReadWriteMany"},
		"for nobody":              {claim{}, "/home is on claim homes, which is not ReadWriteMany"},
		"that may not be read":    {claim{unread: true}, "/home is on claim homes, whose access modes may not be read"},
		"for one pod, is refused": {claim{modes: []corev1.PersistentVolumeAccessMode{one}}, "/home: workspaces cannot have it: claim homes is ReadWriteOncePod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			why, err := mount.bound(tc.claim)
			if err != nil {
				if !errors.Is(err, ErrUnfit) || tc.want == "" || !strings.HasPrefix(err.Error(), tc.want) {
					t.Errorf("error %v, want %q", err, tc.want)
				}
				return
			}
			if why != tc.want {
				t.Errorf("bound because %q, want %q", why, tc.want)
			}
		})
	}
}

func TestStorageMountsThatOtherPodsHaveOtherwise(t *testing.T) {
	t.Parallel()
	pod := own([]corev1.Volume{nfs("homes")}, "homes /home")
	pod.Spec.Containers[0].VolumeMounts[0].SubPathExpr = "$(POD_NAME)"
	if _, err := Resolve(pod, Path{Own: "/home"}); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "subPathExpr") {
		t.Errorf("a folder that each pod has another of: %v", err)
	}
	pod = own([]corev1.Volume{nfs("sets")}, "sets /sets")
	pod.Spec.Containers[0].VolumeMounts[0].ReadOnly = true
	for writable, want := range map[bool]bool{true: false, false: true} {
		mount, err := Resolve(pod, Path{Own: "/sets", At: "/sets", Writable: writable})
		if err != nil || mount.ReadOnly != want {
			t.Errorf("writable %v: read-only %v, want %v (%v)", writable, mount.ReadOnly, want, err)
		}
	}
}

func TestStorageTheServicesContainer(t *testing.T) {
	t.Parallel()
	sidecar := corev1.Container{Name: "proxy", VolumeMounts: []corev1.VolumeMount{{Name: "other", MountPath: "/home"}}}
	volumes := []corev1.Volume{nfs("homes"), nfs("other")}
	pod := own(volumes, "homes /home")
	pod.Spec.Containers = append([]corev1.Container{sidecar}, pod.Spec.Containers...)
	if mount, err := Resolve(pod, Path{Own: "/home"}); err != nil || mount.Volume.Name != "homes" {
		t.Errorf("beside another container: %s, %v", mount.Volume.Name, err)
	}
	pod.Spec.Containers[1].Name = "check"
	if mount, err := Resolve(pod, Path{Own: "/home"}); err != nil || mount.Volume.Name != "other" {
		t.Errorf("where none is called so the first one counts: %s, %v", mount.Volume.Name, err)
	}
	pod.Spec.Containers = nil
	if _, err := Resolve(pod, Path{Own: "/home"}); !errors.Is(err, ErrUnfit) {
		t.Errorf("a pod without containers: %v", err)
	}
}

func TestStorageElsewhere(t *testing.T) {
	t.Parallel()
	bound := Set{Node: "farm5", Bound: "/home is on claim homes, which is not ReadWriteMany"}
	for node, want := range map[string]string{
		"farm5": "", "FARM5": "",
		"farm6": "/home is on claim homes, which is not ReadWriteMany: workspaces have to run on farm5, as config-server does",
	} {
		if got := bound.Elsewhere(nodeName(node)); got != want {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
	if got := (Set{Node: "farm5"}).Elsewhere("farm6"); got != "" {
		t.Errorf("not bound: %s", got)
	}
}

// FuzzStoragePaths holds that whatever path is asked for, the folder on the volume lies below the mount's own.
func FuzzStoragePaths(f *testing.F) {
	for _, path := range []string{"/home", "/home/a/b", "/home/../etc", "//home", "/homes", "/home/.", "/home/.../x", ""} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		mount, err := Resolve(own([]corev1.Volume{nfs("homes")}, "homes /home users"), Path{Own: path})
		if err != nil {
			if !errors.Is(err, ErrUnfit) {
				t.Errorf("error %v", err)
			}
			return
		}
		if mount.SubPath != "users" && !strings.HasPrefix(mount.SubPath, "users/") || slices.Contains(strings.Split(mount.SubPath, "/"), "..") {
			t.Errorf("%s is at %s", fmt.Sprintf("%q", path), mount.SubPath)
		}
	})
}
