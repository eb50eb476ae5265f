package podspec

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

// holdImage has the workspace run the content that its image is held to. A node that lacks it pulls it,
// whatever the setting for images says: a name with a digest is never that of another content. The image's
// own name stays readable in an annotation, because it is not in the other.
func holdImage(pod *corev1.Pod, pin farm.Pin) {
	shell := &pod.Spec.Containers[0]
	shell.Image, shell.ImagePullPolicy = pin.Runs(), corev1.PullIfNotPresent
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, farm.AnnotationImage, pin.Image)
}
