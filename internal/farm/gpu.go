package farm

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// The drivers of GPUs, as options name them.
const (
	DriverNVIDIA = "nvidia"
	DriverAMD    = "amdgpu"
	DriverI915   = "i915"
	DriverXe     = "xe"
	// DriverOther stands where a template names none.
	DriverOther = "gpu"
)

// nvidiaName is what NVIDIA's device plugin calls GPUs for containers: gpu, gpu.shared, mig-1g.10gb.
// Those that virtual machines get passed through bear names of the PCI database, with capitals and
// underscores.
var nvidiaName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)

// GPUDriver is the driver of a Kubernetes resource whose units are GPUs for containers; empty if it is
// no such resource.
func GPUDriver(resource string) string {
	if name, ok := strings.CutPrefix(resource, "nvidia.com/"); ok && nvidiaName.MatchString(name) {
		return DriverNVIDIA
	}
	switch resource {
	case "amd.com/gpu":
		return DriverAMD
	case "gpu.intel.com/i915":
		return DriverI915
	case "gpu.intel.com/xe":
		return DriverXe
	}
	return ""
}

// GPUOption is a kind of GPU that a workspace can ask for.
type GPUOption struct {
	// ID is what callers name: the resource, the resource and the model as resource/model, or the
	// name of a PodTemplate.
	ID string
	// Driver is a Driver constant, or what else a template's label says.
	Driver string
	// Resource is the extended resource of a device plugin or DeviceClass, as nvidia.com/gpu; empty if
	// a template asks for none.
	Resource string
	// Model is the node's model label; empty = any, or not known.
	Model string
	// ModelLabel is the key of the node label that Model was read from; empty without a model.
	ModelLabel string
	Source     GPUSource
	// Free and Total count devices; -1 = not known. Free never is above Total nor below 0.
	Free, Total int64
	// Template is the name of the PodTemplate that carries what the GPU needs; empty if the option was
	// detected.
	Template string
}

// GPUSource tells where an option was found.
type GPUSource string

// The sources of GPU options.
const (
	GPUFromTemplate    GPUSource = "template"    // a PodTemplate with the label of GPU options
	GPUFromNodes       GPUSource = "nodes"       // allocatable of the cluster's nodes
	GPUFromDeviceClass GPUSource = "deviceclass" // extendedResourceName of a DRA DeviceClass
	GPUFromQuota       GPUSource = "quota"       // a ResourceQuota of the namespace, where nodes may not be listed
	GPUFromOwnNode     GPUSource = "node"        // the node that the service itself runs on
)

// Detected reports whether the service itself has to ask for the GPU, as no template does.
func (o GPUOption) Detected() bool { return o.Template == "" }

// GPURoom counts devices; -1 = not known.
type GPURoom struct{ Free, Total int64 }

// GPUChoice is an option that was chosen, with where it can be had.
type GPUChoice struct {
	GPUOption
	// Asks is the number of devices that the option's template asks for; 0 = the option was detected,
	// or its template asks for no resource.
	Asks int64
	// Rooms has the nodes that offer the option; nil = not known.
	Rooms map[NodeName]GPURoom
}

// Lacks tells why a workspace that asks for n devices cannot have the option on a node; empty = it can,
// or nobody knows. A template says itself how many it asks for.
func (c GPUChoice) Lacks(node NodeName, n int64) string {
	if c.Rooms == nil {
		return ""
	}
	room, offered := c.Rooms[node]
	if c.Template != "" {
		n = c.Asks
	}
	switch {
	case !offered && c.Template != "":
		return fmt.Sprintf("GPU option %s is not for this node, or finds no %s on it", c.ID, cmp.Or(c.Resource, "GPU"))
	case !offered:
		return fmt.Sprintf("has no %s", c.ID)
	case room.Total >= 0 && room.Total < n:
		return fmt.Sprintf("has %d %s, %d asked for", room.Total, c.Resource, n)
	case room.Free >= 0 && room.Free < n:
		return fmt.Sprintf("%d of %d %s free, %d asked for", room.Free, room.Total, c.Resource, n)
	}
	return ""
}

// GPUOffer is what can be asked for, sorted by ID, and what could not be found out.
type GPUOffer struct {
	Options  []GPUOption
	Warnings []string
}

// GPUCount counts the GPUs of one resource and model, which is empty where nodes name none.
type GPUCount struct {
	Resource, Model string
	GPURoom
}
