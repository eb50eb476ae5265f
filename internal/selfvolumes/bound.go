package selfvolumes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"config-server/internal/farm"
)

// Set is what workspaces have of the service's own volumes. Nobody changes it.
type Set struct {
	Mounts []Mount // in the order in which they were wanted
	// Pod, Namespace and Labels are those of the service's own pod, Node is where it runs.
	Pod       string
	Namespace string
	Labels    map[string]string
	Node      farm.NodeName
	// Bound tells why workspaces have to run on Node too; empty = they may run anywhere.
	Bound string
}

// Elsewhere tells why no workspace may run on a node; empty = nothing is against it.
func (s Set) Elsewhere(node farm.NodeName) string {
	if s.Bound == "" || strings.EqualFold(string(node), string(s.Node)) {
		return ""
	}
	return fmt.Sprintf("%s: workspaces have to run on %s, as config-server does", s.Bound, s.Node)
}

// claim is what is known of a PersistentVolumeClaim.
type claim struct {
	modes  []corev1.PersistentVolumeAccessMode
	unread bool // it may not be read
}

// claimName is the claim that a mount's volume stands for; empty = it stands for none.
func (m Mount) claimName() string {
	if m.Volume.PersistentVolumeClaim == nil {
		return ""
	}
	return m.Volume.PersistentVolumeClaim.ClaimName
}

// bound tells why a pod with this mount has to run where the service does; empty = it may run anywhere. c is
// the mount's claim, if it has one. The error wraps ErrUnfit if no second pod can have the volume.
func (m Mount) bound(c claim) (string, error) {
	kind := kindOf(m.Volume.VolumeSource)
	switch {
	case kind != kindClaim && slices.Contains(network, kind):
		return "", nil
	case kind != kindClaim:
		return fmt.Sprintf("%s is on a volume of kind %s", m.Own, kind), nil
	case c.unread:
		return fmt.Sprintf("%s is on claim %s, whose access modes may not be read", m.Own, m.claimName()), nil
	case slices.Contains(c.modes, corev1.ReadWriteOncePod):
		return "", fmt.Errorf("%s: %w: claim %s is ReadWriteOncePod, so config-server's is the only pod that can mount it", m.Own, ErrUnfit, m.claimName())
	case !slices.Contains(c.modes, corev1.ReadWriteMany):
		return fmt.Sprintf("%s is on claim %s, which is not ReadWriteMany", m.Own, m.claimName()), nil
	}
	return "", nil
}
