package farm

// GPUOption is a kind of GPU that a workspace can ask for.
type GPUOption struct {
	// ID is what callers name: the resource, the resource and the model as resource/model, or the
	// name of a PodTemplate.
	ID string
	// Driver is nvidia, amdgpu, i915, xe or gpu.
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
