// Package selfvolumes finds which of the service's own volumes hold what workspaces shall have, so that they can
// mount the same (HOME_VOLUME=self): the rules as pure functions over the service's own pod, and the
// reading of what they need.
package selfvolumes

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ErrUnfit is wrapped by errors that stay until somebody changes the configuration or the service's pod.
var ErrUnfit = errors.New("workspaces cannot have it")

// ContainerName is the service's container in its pod. Where none is called so the first one is it.
const ContainerName = "config-server"

// Path is a folder that workspaces shall have.
type Path struct {
	// Own is the folder in the service's own container, At where workspaces have it; both absolute.
	Own, At string
	// Writable gives it to workspaces for writing, also where the service itself may only read it.
	Writable bool
}

// Mount is a Path as any pod of the namespace can have it.
type Mount struct {
	Path
	// Volume is the one of the service's pod that the folder lies on.
	Volume corev1.Volume
	// SubPath is the folder on the volume; empty = the whole volume.
	SubPath  string
	ReadOnly bool
}

// podLocal are the kinds of volume that another pod would have with another content, or not at all.
var podLocal = []string{"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "gitRepo", "image", "projected", "secret"}

// network are the kinds of inline volume that every node reaches.
var network = []string{"azureFile", "cephfs", "glusterfs", "nfs"}

// kindClaim is a volume that a PersistentVolumeClaim stands for.
const kindClaim = "persistentVolumeClaim"

// Resolve finds the volume of the service's own pod that a folder lies on: that of the longest mount whose
// path contains the folder, component by component. A shorter one is never tried, because what lies there is not
// what the service sees. Every error wraps ErrUnfit and names the folder.
func Resolve(pod *corev1.Pod, wanted Path) (Mount, error) {
	unfit := func(format string, args ...any) (Mount, error) {
		return Mount{}, fmt.Errorf("%s: %w: %s", wanted.Own, ErrUnfit, fmt.Sprintf(format, args...))
	}
	if !path.IsAbs(wanted.Own) || slices.Contains(strings.Split(wanted.Own, "/"), "..") {
		return unfit("it has to be an absolute path without ..")
	}
	container, ok := serviceContainer(pod)
	if !ok {
		return unfit("pod %s has no container", pod.Name)
	}
	folder := path.Clean(wanted.Own)
	mount, ok := longest(container.VolumeMounts, folder)
	if !ok {
		return unfit("no volume is mounted there in container %s of pod %s", container.Name, pod.Name)
	}
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	if at < 0 {
		return unfit("pod %s has no volume %s", pod.Name, mount.Name)
	}
	volume := pod.Spec.Volumes[at]
	switch kind := kindOf(volume.VolumeSource); {
	case kind == "" || slices.Contains(podLocal, kind):
		return unfit("it lies on volume %s of pod %s, and a volume of kind %s is that pod's alone", volume.Name, pod.Name, kindOr(kind))
	case mount.SubPathExpr != "":
		return unfit("volume %s of pod %s is mounted by subPathExpr, which means another folder in another pod", volume.Name, pod.Name)
	}
	return Mount{
		Path: wanted, Volume: *volume.DeepCopy(), SubPath: subPath(mount, folder),
		ReadOnly: mount.ReadOnly && !wanted.Writable,
	}, nil
}

func serviceContainer(pod *corev1.Pod) (corev1.Container, bool) {
	containers := pod.Spec.Containers
	at := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == ContainerName })
	if at < 0 && len(containers) == 0 {
		return corev1.Container{}, false
	}
	return containers[max(0, at)], true
}

// longest is the mount in which a folder is looked up.
func longest(mounts []corev1.VolumeMount, folder string) (corev1.VolumeMount, bool) {
	best, found := corev1.VolumeMount{}, false
	for _, mount := range mounts {
		if within(folder, mountPath(mount)) && (!found || len(mountPath(mount)) > len(mountPath(best))) {
			best, found = mount, true
		}
	}
	return best, found
}

func mountPath(mount corev1.VolumeMount) string { return path.Clean("/" + mount.MountPath) }

// within reports whether a folder is dir or lies below it; both are clean.
func within(folder, dir string) bool {
	return dir == "/" || folder == dir || strings.HasPrefix(folder, dir+"/")
}

// subPath is the folder's path on the mount's volume.
func subPath(mount corev1.VolumeMount, folder string) string {
	sub := path.Join(mount.SubPath, strings.TrimPrefix(folder, mountPath(mount)))
	if sub = strings.TrimPrefix(sub, "/"); sub == "." {
		return ""
	}
	return sub
}

// kindOf is the name that the API gives the kind of a volume; empty = none is set.
func kindOf(source corev1.VolumeSource) string {
	value := reflect.ValueOf(source)
	for i := range value.NumField() {
		if !value.Field(i).IsZero() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}

// kindOr is the kind of a volume as it is told: one without any is an empty folder.
func kindOr(kind string) string {
	if kind == "" {
		return "emptyDir"
	}
	return kind
}
