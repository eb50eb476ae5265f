package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"config-server/internal/farm"
)

// Service writes the NodePort Service of one port. The purpose stands in names and labels in its
// valid form; where that differs from the text, an annotation keeps the text, cut as in the
// database row.
func Service(namespace string, user farm.UserName, pod farm.PodName, port farm.Port) *corev1.Service {
	purpose := farm.PurposeLabel(port.Purpose)
	annotations := userAnnotation(user)
	if purpose != port.Purpose {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[farm.AnnotationPurpose] = farm.CutText(strings.ToValidUTF8(port.Purpose, "?"), farm.MaxRowText)
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name:        farm.ServiceName(user, port.Purpose, port.External),
			Namespace:   namespace,
			Annotations: annotations,
			Labels: map[string]string{
				farm.LabelApp:     farm.AppNodePort,
				farm.LabelUser:    string(user),
				farm.LabelPod:     string(pod),
				farm.LabelPurpose: purpose,
			},
		},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeNodePort,
			Selector: map[string]string{farm.LabelPod: string(pod)},
			Ports: []corev1.ServicePort{{
				Name:       purpose,
				Protocol:   corev1.ProtocolTCP,
				Port:       int32(port.Internal),
				TargetPort: intstr.FromInt32(int32(port.Internal)),
				NodePort:   int32(port.External),
			}},
		},
	}
}

// Services writes the Services of a workspace, one a port, in the order of the ports.
func Services(namespace string, user farm.UserName, pod farm.PodName, ports []farm.Port) []*corev1.Service {
	services := make([]*corev1.Service, 0, len(ports))
	for _, port := range ports {
		services = append(services, Service(namespace, user, pod, port))
	}
	return services
}
