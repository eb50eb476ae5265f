package podspec

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"config-server/internal/farm"
)

// ExportLimit is how long the pod of an export may live, in seconds.
const ExportLimit = 900

const (
	exportMemory  = "256Mi"
	exportCPU     = "1"
	exportRequest = "100m" // of CPU, for quotas that want one to be named
)

// ExportMax is the size up to which a tar is brought, in bytes. Kubelet turns a log over once it has 10 MiB
// and keeps no follower from losing what is written meanwhile, so an export has to fit into less.
const ExportMax = 7 << 20

// How the script of an export ends: with a line that begins with ExportDone and has the size of the tar in
// bytes; with exit status ExportNoPath where there is no such path, ExportTooLarge where the tar would have
// more than ExportMax bytes.
const (
	ExportDone     = "=done "
	ExportNoPath   = 66
	ExportTooLarge = 67
)

// exportScript writes the path $1, which is relative to the root, as a tar in base64 to its output, and
// the last line if both programs were well; a tar of more than $2 bytes it does not write. What the
// programs object to is kept as the container's last words: output and errors are one log. The path never
// is part of the script. Nothing in the image changes, so that the tar has the size that was counted
// first. Long lines keep the log short, because each gets a stamp; older programs have short ones only.
const exportScript = `exec 3>&1 2>/dev/termination-log
cd / || exit 70
if [ ! -e "$1" ] && [ ! -L "$1" ]; then exit 66; fi
size=$(tar -cf - -- "$1" | wc -c) || exit 65
if [ "$size" -gt "$2" ]; then echo "$size bytes"; exit 67; fi >&2
ends=$({ { tar -cf - -- "$1"; echo $? >&4; } | { base64 -w 4000 2>/dev/null || base64; } >&3 || echo base64 >&4; } 4>&1)
if [ "$ends" != 0 ]; then exit 65; fi
printf '\n=done %s\n' "$size"
`

// ExportInput is everything that the pod of an export depends on.
type ExportInput struct {
	Namespace string
	Pod       farm.PodName
	Image     string
	// PullPolicy is Never, IfNotPresent or Always.
	PullPolicy string
	// Path is absolute and clean.
	Path string
	// Node is where the pod has to run; empty = where the scheduler binds it.
	Node farm.NodeName
	// Session is the pod of the session template: where workspaces run, and how their images are pulled.
	Session corev1.PodSpec
}

// Export writes the pod that brings a path of an image to its log. It has nothing of the farm: no home, no
// account, no GPU, no token.
func Export(in ExportInput) *corev1.Pod {
	limit, grace, no, yes := int64(ExportLimit), int64(1), false, true
	memory := resource.MustParse(exportMemory)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: string(in.Pod), Namespace: in.Namespace,
			Labels: map[string]string{farm.LabelApp: farm.AppExport, farm.LabelManagedBy: farm.ManagedBy},
		},
		Spec: corev1.PodSpec{
			NodeName:      string(in.Node),
			RestartPolicy: corev1.RestartPolicyNever,
			NodeSelector:  in.Session.NodeSelector, Affinity: in.Session.Affinity, Tolerations: in.Session.Tolerations,
			ImagePullSecrets:      in.Session.ImagePullSecrets,
			ActiveDeadlineSeconds: &limit, TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			Containers: []corev1.Container{{
				Name: farm.ContainerName, Image: in.Image, ImagePullPolicy: corev1.PullPolicy(in.PullPolicy),
				Command: []string{"sh", "-c", exportScript, "export", strings.TrimPrefix(in.Path, "/"), strconv.Itoa(ExportMax)},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(exportRequest), corev1.ResourceMemory: memory},
					Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(exportCPU), corev1.ResourceMemory: memory},
				},
				SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no},
			}},
		},
	}
}
