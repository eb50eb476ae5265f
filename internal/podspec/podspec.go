// Package podspec turns an account, a user configuration, a node and reserved ports into the pod
// and the Services of a workspace.
//
// It is a pure function of its input: it has no client, no clock and no environment. What it
// writes is read by the workspace images and by the farm's other programs, so names, order of the
// environment and labels are contract (docs/api.md, Kubernetes).
package podspec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
	"config-server/internal/selfvolumes"
)

// The kinds of volume that can hold the homes.
const (
	// HomeNFS mounts NFSServer:NFSPath.
	HomeNFS = "nfs"
	// HomeHostPath mounts HomeHostPath, a folder of the node.
	HomeHostPath = "hostPath"
	// HomeSelf mounts what Input.Self has.
	HomeSelf = "self"
)

// HomePath is where workspaces have the homes.
const HomePath = "/home"

// MaxGPUs is the largest num_gpu for which device files can exist on a node.
const MaxGPUs = farm.MaxGPUIndex + 1

// Settings are the parts of the service's configuration that shape every workspace.
type Settings struct {
	Namespace string
	// Kubernetes quantities. The limits hold where the node's entry in the user configuration has
	// none; a limit below its request lowers the request.
	CPURequest, CPULimit string
	MemRequest, MemLimit string
	// ImagePullPolicy is Never, IfNotPresent or Always.
	ImagePullPolicy string
	// HomeVolume is HomeNFS, HomeHostPath or HomeSelf.
	HomeVolume string
	NFSServer  string
	NFSPath    string // absolute
	// HomeHostPath is an absolute path on the node, below which each home is a folder.
	HomeHostPath string
	// Krb5Realm switches Kerberos on; empty = off.
	Krb5Realm string
	// AccountSecret mounts the Secret farm.AccountSecretName of the pod, with its user's password hash
	// as file AccountSecretFile. The pod waits for it.
	AccountSecret bool
	// RuntimeClass is proposed for workspaces with an NVIDIA GPU option; empty = none.
	RuntimeClass string
}

// Input is everything that a workspace's pod depends on.
type Input struct {
	Settings Settings
	Pod      farm.PodName
	Account  farm.Account
	// PrimaryGroup is the name of the group with Account.GID.
	PrimaryGroup farm.GroupName
	// Groups are the existing groups that the user configuration names, in its order.
	Groups []farm.GroupRef
	Config farm.UserConfig
	// Node is the chosen node. GPUs and limits come from its entry in Config.Nodes, if it has one.
	Node  farm.NodeName
	Ports []farm.Port
	// Image replaces Config.Image, for a saved image; empty = Config.Image.
	Image string
	// Pin holds Image to one content, which the node pulls if it does not have it; nil = none.
	Pin *farm.Pin
	// GPU is the GPU option of the workspace. It replaces the device files, and the scheduler binds the
	// pod to Node, or to a node of its own choice if Node is empty. nil = none.
	GPU *farm.GPUOption
	// Self is what the service's own volumes have for workspaces, the homes first; needed with HomeSelf.
	Self *selfvolumes.Set
	// Assigned are the GPUs of Node that the workspace was given; empty = the first num_gpu. They do not
	// count beside a GPU option.
	Assigned farm.GPUSet
}

// Build writes the pod of a workspace. It fails, naming the field, if a quantity cannot be read or
// is not above zero, if num_gpu is out of range, if there is no image, or if the settings name no
// usable home volume.
func Build(in Input) (*corev1.Pod, error) {
	image := in.Image
	if image == "" {
		image = in.Config.Image
	}
	if image == "" {
		return nil, fmt.Errorf("build pod %s: the user config names no image", in.Pod)
	}
	entry := in.Config.On(in.Node)
	resources, err := resourcesOf(in.Settings, entry)
	if err != nil {
		return nil, fmt.Errorf("build pod %s: %w", in.Pod, err)
	}
	gpus, err := deviceFiles(in, entry.NumGPU)
	if err != nil {
		return nil, fmt.Errorf("build pod %s: %w", in.Pod, err)
	}
	mounts, err := mountsOf(in, gpus)
	if err != nil {
		return nil, fmt.Errorf("build pod %s: %w", in.Pod, err)
	}
	container := corev1.Container{
		Name:            farm.ContainerName,
		Image:           image,
		ImagePullPolicy: corev1.PullPolicy(in.Settings.ImagePullPolicy),
		Env:             environment(in),
		Resources:       resources,
		Stdin:           true,
		TTY:             true,
	}
	for _, port := range in.Ports {
		container.Ports = append(container.Ports, corev1.ContainerPort{
			ContainerPort: int32(port.Internal),
			Protocol:      corev1.ProtocolTCP,
		})
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:        string(in.Pod),
			Namespace:   in.Settings.Namespace,
			Annotations: userAnnotation(in.Account.Name),
			Labels: map[string]string{
				farm.LabelApp:       farm.AppGuest,
				farm.LabelManagedBy: farm.ManagedBy,
				farm.LabelUser:      string(in.Account.Name),
				farm.LabelPod:       string(in.Pod),
			},
		},
		Spec: corev1.PodSpec{
			NodeName:      string(in.Node),
			RestartPolicy: corev1.RestartPolicyNever,
		},
	}
	for _, m := range mounts {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.volume }) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: m.volume, VolumeSource: m.source})
		}
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: m.volume, MountPath: m.path, SubPath: m.subPath, ReadOnly: m.readOnly})
	}
	pod.Spec.Containers = []corev1.Container{container}
	showAssigned(pod, in)
	if in.Pin != nil {
		holdImage(pod, *in.Pin)
	}
	if in.GPU != nil {
		askForGPU(pod, in, max(1, entry.NumGPU))
	}
	bindToService(pod, in.Self)
	return pod, nil
}

// environment lists the container's variables in the order that the contract gives.
func environment(in Input) []corev1.EnvVar {
	uid := strconv.FormatInt(int64(in.Account.UID), 10)
	gid := strconv.FormatInt(int64(in.Account.GID), 10)
	env := []corev1.EnvVar{
		{Name: "USER", Value: string(in.Account.Name)},
		{Name: "USER_ID", Value: string(in.Account.Name)},
		{Name: "USER_GROUP", Value: string(in.PrimaryGroup)},
		{Name: "TARGET_UID", Value: uid},
		{Name: "TARGET_GID", Value: gid},
		{Name: "UID", Value: uid},
		{Name: "GID", Value: gid},
		{Name: "HOME", Value: in.Account.Home},
		{Name: "SHELL", Value: in.Account.Shell},
		{Name: "USER_GROUPS", Value: userGroups(in)},
	}
	if wantsVNC(in.Config.Ports) {
		env = append(env, corev1.EnvVar{Name: "ENABLE_VNC", Value: "true"})
	}
	if realm := in.Settings.Krb5Realm; realm != "" {
		env = append(env,
			corev1.EnvVar{Name: "KRB5_REALM", Value: realm},
			corev1.EnvVar{Name: "DECS_KRB5_PRINCIPAL", Value: string(in.Account.Name) + "@" + realm},
		)
	}
	return env
}

// userGroups is primary:gid,group:gid,... with each number once.
func userGroups(in Input) string {
	all := append([]farm.GroupRef{{Name: in.PrimaryGroup, GID: in.Account.GID}}, in.Groups...)
	seen := make(map[farm.ID]bool, len(all))
	parts := make([]string, 0, len(all))
	for _, group := range all {
		if seen[group.GID] {
			continue
		}
		seen[group.GID] = true
		parts = append(parts, fmt.Sprintf("%s:%d", group.Name, group.GID))
	}
	return strings.Join(parts, ",")
}

// vncPort is where noVNC listens in the workspace images.
const vncPort = 6080

// wantsVNC looks at the ports that are opened: one that is listed twice counts as it was first.
func wantsVNC(additional []farm.PortWant) bool {
	for _, port := range farm.WantedPorts(additional) {
		purpose := strings.ToLower(strings.TrimSpace(port.Purpose))
		if port.Internal == vncPort || purpose == "vnc" || purpose == "novnc" {
			return true
		}
	}
	return false
}

// userAnnotation keeps the user's name where object names could not: '_' stands as '-' in them.
func userAnnotation(user farm.UserName) map[string]string {
	if user.ObjectPart() == string(user) {
		return nil
	}
	return map[string]string{farm.AnnotationUser: string(user)}
}
