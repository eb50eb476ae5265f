package farm

import (
	"fmt"
	"strings"
	"time"
)

// Account is a passwd(5) line without its password field.
type Account struct {
	Name  UserName
	UID   ID
	GID   ID
	Gecos string
	Home  string
	Shell string
}

// Group is a group(5) line. Members are in file order.
type Group struct {
	Name    GroupName
	GID     ID
	Members []UserName
}

// GroupRef names a group by both its name and its number.
type GroupRef struct {
	Name GroupName
	GID  ID
}

// GPUNode is what admin_be says of one node that a user may use.
type GPUNode struct {
	Name NodeName // trimmed, as admin_be spells it; node names are compared without case
	// NumGPU is the number of GPUs; so many device files are mounted.
	NumGPU int
	// CPULimit and MemoryLimit are Kubernetes quantities; empty = the configured default.
	CPULimit    string
	MemoryLimit string
}

// PortWant is a port of the pod that is to be reachable from outside.
type PortWant struct {
	Internal int    // port inside the pod, 1..65535
	Purpose  string // free text of any script, never empty
}

// Port is a reserved port: a PortWant with its NodePort.
type Port struct {
	Internal int
	External int // NodePort, 30000..32767
	Purpose  string
}

// UserConfig is admin_be's answer on a user, decoded and coerced (docs/api.md, User config). It
// carries no password: the decoder drops it, so that it cannot be logged.
type UserConfig struct {
	Image    string
	GroupIDs []ID      // gids of groups[], in order, each once
	Nodes    []GPUNode // entries without a node_name are left out
	Ports    []PortWant
	// GPUOption is the ID of the GPU option that the user's workspaces get, PodTemplate the name of the
	// user's own layer; empty = none.
	GPUOption   string
	PodTemplate string
}

// On is the node's entry: names are compared without case, and the first entry wins. A node that the
// configuration does not name has an empty entry.
func (c UserConfig) On(node NodeName) GPUNode {
	for _, entry := range c.Nodes {
		if strings.EqualFold(strings.TrimSpace(string(entry.Name)), string(node)) {
			return entry
		}
	}
	return GPUNode{Name: node}
}

// The two ports that every workspace has, in the order in which they are opened.
var (
	SSHPort     = PortWant{Internal: 22, Purpose: "ssh"}
	JupyterPort = PortWant{Internal: 8888, Purpose: "jupyter"}
)

// The NodePorts that the farm's gateway passes on, both included. Others work inside the farm only,
// which is why ports are given lowest first.
const (
	ReachablePortMin = 30000
	ReachablePortMax = 30097
)

// CustomPurpose stands where admin_be names no purpose.
const CustomPurpose = "custom"

// WantedPorts lists the ports of a workspace: ssh, jupyter, then the additional ones. A port that
// is listed again is opened once; the first one wins.
func WantedPorts(additional []PortWant) []PortWant {
	all := append([]PortWant{SSHPort, JupyterPort}, additional...)
	seen := make(map[int]bool, len(all))
	wants := make([]PortWant, 0, len(all))
	for _, want := range all {
		if seen[want.Internal] {
			continue
		}
		seen[want.Internal] = true
		wants = append(wants, want)
	}
	return wants
}

// Node is what the service needs to know of a Kubernetes node.
type Node struct {
	Name         NodeName
	Ready        bool
	Cordoned     bool // spec.unschedulable
	ControlPlane bool // bears a control-plane (or master) NoSchedule taint
	InternalIP   string
}

// Pod is what the service needs to know of a pod. Kubernetes calls its identity UID.
type Pod struct {
	Name        PodName
	UID         string
	User        UserName // label username
	Node        NodeName // where it is bound, or shall be
	Image       string   // image of container shell
	PinnedImage string   // the image whose pin chose Image; empty = none did
	Guest       bool     // bears label app=ailab-guest: this service made it
	Phase       string   // Pending, Running, Succeeded, Failed, Unknown
	Ready       bool
	Terminating bool
	CreatedAt   time.Time
	GPUs        int // GPU device files that it mounts, and GPUs that it asks for as resources
	// GPUIndexes are the GPUs whose device files it mounts.
	GPUIndexes GPUSet
	// GPUOption is the ID of the GPU option that it was made with; empty = none.
	GPUOption string
	// AccountSecret: it mounts the Secret AccountSecretName(Name). Known of pods that were read live.
	AccountSecret bool
}

// Ended reports whether nothing of the pod runs any more, and nothing will.
func (p Pod) Ended() bool { return p.Phase == "Failed" || p.Phase == "Succeeded" }

// Service is a NodePort Service of a workspace.
type Service struct {
	Name      string
	UID       string
	User      UserName
	Pod       PodName // label pod_name
	Ports     []Port
	CreatedAt time.Time
}

// Row is a reserved NodePort in the database.
type Row struct {
	ID        int64
	User      UserName
	Pod       PodName
	Node      NodeName
	Port      Port
	CreatedAt time.Time
}

// PortsText names NodePorts for people: the one, or how many there are from the lowest on.
func PortsText(count, lowest int) string {
	if count == 1 {
		return fmt.Sprintf("port %d", lowest)
	}
	return fmt.Sprintf("%d ports from %d", count, lowest)
}

// Labels and annotations by which workspaces are found (docs/api.md, Kubernetes).
const (
	LabelApp          = "app"
	LabelManagedBy    = "managed-by"
	LabelUser         = "username"
	LabelPod          = "pod_name"
	LabelPurpose      = "purpose"
	AppGuest          = "ailab-guest"
	AppNodePort       = "ailab-nodeport"
	AppExport         = "ailab-export"
	ManagedBy         = "ailab-infra"
	AnnotationUser    = "ailab/username"
	AnnotationPurpose = "ailab/usage-purpose"
	AnnotationGPU     = "ailab/gpu-option"
	AnnotationImage   = "ailab/image"
	ContainerName     = "shell"
)
