package templates

import (
	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// The API's defaults that have no constant in the API's package.
const (
	defaultMode      = 0o644 // of volumes made from objects
	tokenSeconds     = 3600
	iscsiInterface   = "default"
	rbdPool          = "rbd"
	rbdUser          = "admin"
	rbdKeyring       = "/etc/ceph/keyring"
	azureFSType      = "ext4"
	scaleIOMode      = "ThinProvisioned"
	scaleIOFSType    = "xfs"
	probeTimeout     = 1
	probePeriod      = 10
	probeSuccess     = 1
	probeFailure     = 3
	httpPath         = "/"
	fieldsAPIVersion = "v1"
)

// dropDefaults removes the values that the API server writes where a template says nothing. Nobody
// can tell whether a stored value of that kind was meant, so it says nothing here either; the API
// server writes it into the pod again, unless a lower layer has said something else.
func dropDefaults(spec *corev1.PodSpec) {
	unset(&spec.DNSPolicy, corev1.DNSClusterFirst)
	unset(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	unset(&spec.SchedulerName, corev1.DefaultSchedulerName)
	forget(&spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	forget(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	if equality.Semantic.DeepEqual(spec.SecurityContext, &corev1.PodSecurityContext{}) {
		spec.SecurityContext = nil
	}
	// The API server keeps the account's name under its old name too.
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = spec.DeprecatedServiceAccount
	}
	spec.DeprecatedServiceAccount = ""
	for i := range spec.Volumes {
		dropVolumeDefaults(&spec.Volumes[i])
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			dropContainerDefaults(&containers[i])
		}
	}
}

func dropContainerDefaults(c *corev1.Container) {
	unset(&c.ImagePullPolicy, defaultPullPolicy(c.Image))
	unset(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	unset(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		unset(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		from := c.Env[i].ValueFrom
		if from == nil {
			continue
		}
		if from.FieldRef != nil {
			unset(&from.FieldRef.APIVersion, fieldsAPIVersion)
		}
		if from.FileKeyRef != nil {
			forget(&from.FileKeyRef.Optional, false)
		}
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe == nil {
			continue
		}
		unset(&probe.TimeoutSeconds, probeTimeout)
		unset(&probe.PeriodSeconds, probePeriod)
		unset(&probe.SuccessThreshold, probeSuccess)
		unset(&probe.FailureThreshold, probeFailure)
		dropHTTPDefaults(probe.HTTPGet)
		if probe.GRPC != nil {
			forget(&probe.GRPC.Service, "")
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, handler := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if handler != nil {
			dropHTTPDefaults(handler.HTTPGet)
		}
	}
}

func dropHTTPDefaults(get *corev1.HTTPGetAction) {
	if get != nil {
		unset(&get.Path, httpPath)
		unset(&get.Scheme, corev1.URISchemeHTTP)
	}
}

func dropVolumeDefaults(v *corev1.Volume) {
	switch {
	case v.EmptyDir != nil:
		if equality.Semantic.DeepEqual(v.EmptyDir, &corev1.EmptyDirVolumeSource{}) {
			v.EmptyDir = nil // what a volume without a source becomes
		}
	case v.HostPath != nil:
		forget(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Secret != nil:
		forget(&v.Secret.DefaultMode, defaultMode)
	case v.ConfigMap != nil:
		forget(&v.ConfigMap.DefaultMode, defaultMode)
	case v.DownwardAPI != nil:
		forget(&v.DownwardAPI.DefaultMode, defaultMode)
	case v.Projected != nil:
		forget(&v.Projected.DefaultMode, defaultMode)
		for _, source := range v.Projected.Sources {
			if source.ServiceAccountToken != nil {
				forget(&source.ServiceAccountToken.ExpirationSeconds, tokenSeconds)
			}
		}
	case v.ISCSI != nil:
		unset(&v.ISCSI.ISCSIInterface, iscsiInterface)
	case v.RBD != nil:
		unset(&v.RBD.RBDPool, rbdPool)
		unset(&v.RBD.RadosUser, rbdUser)
		unset(&v.RBD.Keyring, rbdKeyring)
	case v.AzureDisk != nil:
		forget(&v.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		forget(&v.AzureDisk.FSType, azureFSType)
		forget(&v.AzureDisk.ReadOnly, false)
		forget(&v.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
	case v.ScaleIO != nil:
		unset(&v.ScaleIO.StorageMode, scaleIOMode)
		unset(&v.ScaleIO.FSType, scaleIOFSType)
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		forget(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	case v.Image != nil:
		unset(&v.Image.PullPolicy, defaultPullPolicy(v.Image.Reference))
	}
	for _, file := range downwardFiles(*v) {
		if file.FieldRef != nil {
			unset(&file.FieldRef.APIVersion, fieldsAPIVersion)
		}
	}
}

// defaultPullPolicy is Always for the tag latest, named or not, and IfNotPresent for everything else.
func defaultPullPolicy(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent
	}
	if tagged, ok := reference.TagNameOnly(named).(reference.Tagged); ok && tagged.Tag() == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// unset empties a value that equals the API's default.
func unset[T comparable](value *T, byDefault T) {
	if *value == byDefault {
		var none T
		*value = none
	}
}

// forget is unset for values behind a pointer.
func forget[T comparable](value **T, byDefault T) {
	if *value != nil && **value == byDefault {
		*value = nil
	}
}
