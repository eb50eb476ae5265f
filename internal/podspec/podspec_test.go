package podspec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"config-server/internal/farm"
	"config-server/internal/podspec"
)

func TestEnvironmentOrder(t *testing.T) {
	t.Parallel()
	pod := build(t, recorded(withPorts(farm.PortWant{Internal: 6080, Purpose: "desktop"}), func(in *podspec.Input) {
		in.Settings.Krb5Realm = "EXAMPLE.AC.KR"
		in.Account.GID = 20007
		in.PrimaryGroup = "team"
	}))
	want := []string{
		"USER=user2100", "USER_ID=user2100", "USER_GROUP=team",
		"TARGET_UID=20000", "TARGET_GID=20007", "UID=20000", "GID=20007",
		"HOME=/home/user2100", "SHELL=/bin/bash",
		"USER_GROUPS=team:20007,ailab:20005",
		"ENABLE_VNC=true",
		"KRB5_REALM=EXAMPLE.AC.KR", "DECS_KRB5_PRINCIPAL=user2100@EXAMPLE.AC.KR",
	}
	if diff := cmp.Diff(want, env(pod)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUserGroups(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		groups []farm.GroupRef
		want   string
	}{
		"none":                      {nil, "user2100:20000"},
		"in the config's order":     {[]farm.GroupRef{{Name: "b", GID: 20009}, {Name: "a", GID: 20008}}, "user2100:20000,b:20009,a:20008"},
		"the primary is named too":  {[]farm.GroupRef{{Name: "user2100", GID: 20000}, {Name: "a", GID: 20008}}, "user2100:20000,a:20008"},
		"a number twice":            {[]farm.GroupRef{{Name: "a", GID: 20008}, {Name: "a", GID: 20008}}, "user2100:20000,a:20008"},
		"a group from before (gid)": {[]farm.GroupRef{{Name: "Lab-2020", GID: 1005}}, "user2100:20000,Lab-2020:1005"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := build(t, recorded(func(in *podspec.Input) { in.Groups = test.groups }))
			if got, _ := valueOf(pod, "USER_GROUPS"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestEnableVNC(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ports []farm.PortWant
		want  bool
	}{
		"no additional port":            {nil, false},
		"another port":                  {[]farm.PortWant{{Internal: 6006, Purpose: "tensorboard"}}, false},
		"port 6080 of any purpose":      {[]farm.PortWant{{Internal: 6080, Purpose: "원격 화면"}}, true},
		"purpose vnc":                   {[]farm.PortWant{{Internal: 5901, Purpose: "vnc"}}, true},
		"purpose noVNC in other case":   {[]farm.PortWant{{Internal: 5901, Purpose: " noVNC "}}, true},
		"vnc is part of the purpose":    {[]farm.PortWant{{Internal: 5901, Purpose: "vnc-viewer"}}, false},
		"vnc asked for on the ssh port": {[]farm.PortWant{{Internal: 22, Purpose: "vnc"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			value, got := valueOf(build(t, recorded(withPorts(test.ports...))), "ENABLE_VNC")
			if got != test.want || got && value != "true" {
				t.Errorf("ENABLE_VNC present %v (%q), want %v", got, value, test.want)
			}
		})
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		entry farm.GPUNode
		want  string // request/limit of cpu, of memory
	}{
		"limits of the entry":              {farm.GPUNode{CPULimit: "4000m", MemoryLimit: "8192Mi"}, "1/4 1Gi/8Gi"},
		"no limits: the defaults":          {farm.GPUNode{}, "1/1 1Gi/1Gi"},
		"one limit below its request":      {farm.GPUNode{CPULimit: "250m", MemoryLimit: "2Gi"}, "250m/250m 1Gi/2Gi"},
		"both limits below their requests": {farm.GPUNode{CPULimit: "500m", MemoryLimit: "64Mi"}, "500m/500m 64Mi/64Mi"},
		"plain numbers":                    {farm.GPUNode{CPULimit: "2", MemoryLimit: "2147483648"}, "1/2 1Gi/2147483648"},
		"decimal units":                    {farm.GPUNode{CPULimit: "1.5", MemoryLimit: "2G"}, "1/1500m 1Gi/2G"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t, recorded(withEntry(test.entry))).Spec.Containers[0].Resources
			got := fmt.Sprintf("%s/%s %s/%s", r.Requests.Cpu(), r.Limits.Cpu(), r.Requests.Memory(), r.Limits.Memory())
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestNodeEntry(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		node  farm.NodeName
		nodes []farm.GPUNode
		want  int // GPUs
	}{
		"names are compared without case": {"farm5", []farm.GPUNode{{Name: "FARM5", NumGPU: 3}}, 3},
		"the first entry of a node wins":  {"farm5", []farm.GPUNode{{Name: "farm5", NumGPU: 1}, {Name: "FARM5", NumGPU: 3}}, 1},
		"a node without an entry":         {"farm8", []farm.GPUNode{{Name: "farm5", NumGPU: 3}}, 0},
		"no entries":                      {"farm8", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := build(t, recorded(func(in *podspec.Input) { in.Node, in.Config.Nodes = test.node, test.nodes }))
			if pod.Spec.NodeName != string(test.node) {
				t.Errorf("nodeName %q, want %q", pod.Spec.NodeName, test.node)
			}
			gpus := 0
			for _, volume := range pod.Spec.Volumes {
				if volume.HostPath != nil && strings.HasPrefix(volume.HostPath.Path, "/dev/nvidia") {
					gpus++
				}
			}
			want := test.want
			if want > 0 {
				want += 4 // the control devices
			}
			if gpus != want {
				t.Errorf("%d device files, want %d", gpus, want)
			}
		})
	}
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	// Each is "volume -> kind source at path".
	for name, test := range map[string]struct {
		change func(*podspec.Input)
		want   []string
	}{
		"home on NFS": {
			change: withEntry(farm.GPUNode{}),
			want:   []string{"nfs-home -> nfs 192.0.2.30:/volume1/share/user at /home"},
		},
		"home in a folder of the node": {
			change: func(in *podspec.Input) {
				withEntry(farm.GPUNode{})(in)
				in.Settings.HomeVolume, in.Settings.HomeHostPath = podspec.HomeHostPath, "/srv/homes"
			},
			want: []string{"nfs-home -> Directory /srv/homes at /home"},
		},
		"Kerberos": {
			change: func(in *podspec.Input) {
				withEntry(farm.GPUNode{})(in)
				in.Settings.Krb5Realm = "EXAMPLE.AC.KR"
			},
			want: []string{
				"nfs-home -> nfs 192.0.2.30:/volume1/share/user at /home",
				"krb5-ccache -> DirectoryOrCreate /run/user/20000 at /run/user/20000",
			},
		},
		"one GPU": {
			change: withEntry(farm.GPUNode{NumGPU: 1}),
			want: []string{
				"nfs-home -> nfs 192.0.2.30:/volume1/share/user at /home",
				"nvidia0 -> CharDevice /dev/nvidia0 at /dev/nvidia0",
				"nvidiactl -> CharDevice /dev/nvidiactl at /dev/nvidiactl",
				"nvidiauvm -> CharDevice /dev/nvidia-uvm at /dev/nvidia-uvm",
				"nvidiauvmtools -> CharDevice /dev/nvidia-uvm-tools at /dev/nvidia-uvm-tools",
				"nvidiamodeset -> CharDevice /dev/nvidia-modeset at /dev/nvidia-modeset",
			},
		},
		"a negative number of GPUs": {
			change: withEntry(farm.GPUNode{NumGPU: -1}),
			want:   []string{"nfs-home -> nfs 192.0.2.30:/volume1/share/user at /home"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, volumes(t, build(t, recorded(test.change)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func volumes(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	var all []string
	for i, volume := range pod.Spec.Volumes {
		mount := pod.Spec.Containers[0].VolumeMounts[i]
		if mount.Name != volume.Name {
			t.Errorf("mount %d is of %s, want %s", i, mount.Name, volume.Name)
		}
		source := ""
		switch {
		case volume.NFS != nil:
			source = "nfs " + volume.NFS.Server + ":" + volume.NFS.Path
		case volume.HostPath != nil:
			source = string(*volume.HostPath.Type) + " " + volume.HostPath.Path
		}
		all = append(all, volume.Name+" -> "+source+" at "+mount.MountPath)
	}
	return all
}

func TestImage(t *testing.T) {
	t.Parallel()
	saved := build(t, recorded(func(in *podspec.Input) { in.Image = "user-user2100:latest" }))
	if got := saved.Spec.Containers[0].Image; got != "user-user2100:latest" {
		t.Errorf("image %q, want the saved one", got)
	}
	pull := build(t, recorded(func(in *podspec.Input) { in.Settings.ImagePullPolicy = "IfNotPresent" }))
	if got := pull.Spec.Containers[0].ImagePullPolicy; got != corev1.PullIfNotPresent {
		t.Errorf("pull policy %q, want the setting", got)
	}
}

func TestBuildRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*podspec.Input)
		named  string // the field or setting that the error must name
	}{
		"a CPU limit that is no quantity":   {withEntry(farm.GPUNode{CPULimit: "four"}), "cpu_limit"},
		"a memory limit that is none":       {withEntry(farm.GPUNode{MemoryLimit: "8 GB"}), "memory_limit"},
		"a limit of zero":                   {withEntry(farm.GPUNode{MemoryLimit: "0"}), "memory_limit"},
		"a negative limit":                  {withEntry(farm.GPUNode{CPULimit: "-1"}), "cpu_limit"},
		"a default limit that is none":      {func(in *podspec.Input) { in.Config.Nodes = nil; in.Settings.MemLimit = "much" }, "DEFAULT_MEM_LIMIT"},
		"a default request that is none":    {func(in *podspec.Input) { in.Settings.CPURequest = "" }, "DEFAULT_CPU_REQUEST"},
		"more GPUs than devices can exist":  {withEntry(farm.GPUNode{NumGPU: 1 << 30}), "num_gpu"},
		"no image":                          {func(in *podspec.Input) { in.Config.Image = "" }, "image"},
		"no NFS server":                     {func(in *podspec.Input) { in.Settings.NFSServer = "" }, "NFS_SERVER"},
		"an unknown kind of home":           {func(in *podspec.Input) { in.Settings.HomeVolume = "floppy" }, "HOME_VOLUME"},
		"a home folder that is no abs path": {func(in *podspec.Input) { in.Settings.HomeVolume = podspec.HomeHostPath }, "FARM_HOME_MOUNT_ROOT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod, err := podspec.Build(recorded(test.change))
			if err == nil {
				t.Fatalf("built %v", pod)
			}
			if !strings.Contains(err.Error(), test.named) {
				t.Errorf("error %q does not name %s", err, test.named)
			}
		})
	}
}

func TestUnderscoreInNames(t *testing.T) {
	t.Parallel()
	pod := build(t, recorded(func(in *podspec.Input) {
		in.Account.Name = "kim_lab"
		in.Pod = farm.NewPodName("kim_lab", [4]byte{1, 2, 3, 4})
	}))
	service := podspec.Service("ailab-infra", "kim_lab", farm.PodName(pod.Name), farm.Port{Internal: 22, External: 30000, Purpose: "ssh"})
	if pod.Name != "ailab-kim-lab-01020304" || service.Name != "ailab-kim-lab-ssh-30000" {
		t.Errorf("names %s, %s", pod.Name, service.Name)
	}
	for kind, meta := range map[string]map[string]string{
		"label of the pod":          {"got": pod.Labels["username"]},
		"label of the service":      {"got": service.Labels["username"]},
		"annotation of the pod":     {"got": pod.Annotations["ailab/username"]},
		"annotation of the service": {"got": service.Annotations["ailab/username"]},
	} {
		if meta["got"] != "kim_lab" {
			t.Errorf("%s is %q, want kim_lab", kind, meta["got"])
		}
	}
}

func TestServicePurposes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		purpose    string
		plain      bool   // stands in names as it is
		annotation string // "" = none
	}{
		"plain":                {"tensorboard", true, ""},
		"Korean":               {"원격 화면", false, "원격 화면"},
		"spaces":               {"my web app", false, "my web app"},
		"capitals":             {"WEB", false, "WEB"},
		"longer than 15":       {"tensorboard-of-mine", false, "tensorboard-of-mine"},
		"longer than a row":    {strings.Repeat("가", 300), false, strings.Repeat("가", 255)},
		"only signs":           {"***", false, "***"},
		"like a derived label": {"p-abcdef", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := podspec.Service("ailab-infra", "kim", "ailab-kim-01020304", farm.Port{Internal: 8080, External: 30010, Purpose: test.purpose})
			if got := s.Annotations[farm.AnnotationPurpose]; got != test.annotation {
				t.Errorf("annotation %q, want %q", got, test.annotation)
			}
			label := s.Labels[farm.LabelPurpose]
			if test.plain != (label == test.purpose) {
				t.Errorf("label %q for purpose %q", label, test.purpose)
			}
			if s.Spec.Ports[0].Name != label || s.Name != "ailab-kim-"+label+"-30010" {
				t.Errorf("port %q and service %q do not bear %q", s.Spec.Ports[0].Name, s.Name, label)
			}
			faults := append(validation.IsDNS1035Label(s.Name), validation.IsDNS1123Label(s.Spec.Ports[0].Name)...)
			if faults = append(faults, validation.IsValidLabelValue(label)...); len(faults) > 0 {
				t.Errorf("names are not valid: %v", faults)
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	in := recorded(forPortuser)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := podspec.Build(in); err != nil {
			b.Fatal(err)
		}
	}
}
