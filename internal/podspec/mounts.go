package podspec

import (
	"errors"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// mount is a volume and the one place where it is mounted.
type mount struct {
	volume string
	path   string
	source corev1.VolumeSource

	subPath  string // folder of the volume; empty = all of it
	readOnly bool
}

// homeName is the volume of the homes, whatever its kind.
const homeName = "nfs-home"

// mountsOf lists the home, the Kerberos credential cache and the GPU device files.
func mountsOf(in Input, gpus []int) ([]mount, error) {
	mounts, err := homeMounts(in)
	if err != nil {
		return nil, err
	}
	if in.Settings.Krb5Realm != "" {
		mounts = append(mounts, credentialCache(in.Account.UID))
	}
	if in.Settings.AccountSecret {
		mounts = append(mounts, accountSecret(in.Pod))
	}
	return append(mounts, gpuDevices(gpus)...), nil
}

// homeMounts are the homes, and what else the service's own volumes have for workspaces.
func homeMounts(in Input) ([]mount, error) {
	if in.Settings.HomeVolume == HomeSelf {
		return selfMounts(in.Self)
	}
	home, err := homeVolume(in.Settings)
	return []mount{{volume: homeName, path: HomePath, source: home}}, err
}

func homeVolume(s Settings) (corev1.VolumeSource, error) {
	switch s.HomeVolume {
	case HomeNFS:
		if s.NFSServer == "" {
			return corev1.VolumeSource{}, errors.New("NFS_SERVER is empty: there is nothing to mount at /home")
		}
		return corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: s.NFSServer, Path: s.NFSPath}}, nil
	case HomeHostPath:
		if !path.IsAbs(s.HomeHostPath) {
			return corev1.VolumeSource{}, errors.New("FARM_HOME_MOUNT_ROOT is no absolute path")
		}
		// Directory, not DirectoryOrCreate: on a node where the share is not mounted kubelet must
		// refuse the pod, or people would write their work to the node's own disk.
		return hostPath(s.HomeHostPath, corev1.HostPathDirectory), nil
	default:
		return corev1.VolumeSource{}, fmt.Errorf("HOME_VOLUME: %q is not known", s.HomeVolume)
	}
}

// credentialCache is the folder in which the farm node keeps the user's Kerberos tickets.
func credentialCache(uid farm.ID) mount {
	dir := fmt.Sprintf("/run/user/%d", uid)
	return mount{volume: "krb5-ccache", path: dir, source: hostPath(dir, corev1.HostPathDirectoryOrCreate)}
}

// AccountSecretFile is where a workspace finds its user's password hash, without a line end, mode 0400.
const AccountSecretFile = "/run/ailab/account/" + farm.ShadowKey

// accountSecret is the Secret with the user's password hash. It is owned by the pod and so made after
// it; kubelet tries the mount until the Secret is there.
func accountSecret(pod farm.PodName) mount {
	mode, required := int32(0o400), false
	return mount{volume: "account", path: path.Dir(AccountSecretFile), readOnly: true, source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: farm.AccountSecretName(pod), DefaultMode: &mode, Optional: &required,
		Items: []corev1.KeyToPath{{Key: farm.ShadowKey, Path: path.Base(AccountSecretFile)}},
	}}}
}

// gpuDevices are the device files of the GPUs and of what controls them, which CUDA opens.
func gpuDevices(gpus []int) []mount {
	if len(gpus) == 0 {
		return nil
	}
	var mounts []mount
	for _, i := range gpus {
		mounts = append(mounts, device(fmt.Sprintf("nvidia%d", i)))
	}
	for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"} {
		mounts = append(mounts, device(name))
	}
	return mounts
}

func device(name string) mount {
	file := "/dev/" + name
	return mount{volume: strings.ReplaceAll(name, "-", ""), path: file, source: hostPath(file, corev1.HostPathCharDev)}
}

func hostPath(name string, kind corev1.HostPathType) corev1.VolumeSource {
	return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: name, Type: &kind}}
}
