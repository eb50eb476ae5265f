package farm

// Step names a step of a use case, as callers read it in "step".
type Step string

// Code names a failure, as callers read it in "error".
type Code string

// The steps of create-pod, in their order.
const (
	// StepValidateRequest checks the request before anything else is asked or touched.
	StepValidateRequest Step = "VALIDATE_REQUEST"
	// StepFetchUserConfig asks admin_be for the user's configuration.
	StepFetchUserConfig Step = "FETCH_USER_CONFIG"
	// StepCheckExistingPod looks whether a pod of the chosen name exists.
	StepCheckExistingPod Step = "CHECK_EXISTING_POD"
	// StepListNodes reads the cluster's nodes.
	StepListNodes Step = "LIST_NODES"
	// StepSelectNode scores the candidates and chooses one.
	StepSelectNode Step = "SELECT_NODE"
	// StepBuildPodSpec reads the account, reserves NodePorts, deploys the keytab and writes the spec.
	StepBuildPodSpec Step = "BUILD_POD_SPEC"
	// StepCreatePod sends the pod to the API server.
	StepCreatePod Step = "CREATE_POD"
	// StepWaitPodReady waits until kubelet says Ready.
	StepWaitPodReady Step = "WAIT_POD_READY"
	// StepCreateNodePortService makes one Service a port.
	StepCreateNodePortService Step = "CREATE_NODEPORT_SERVICE"
)

// The steps of delete-pod.
const (
	// StepDeleteNodePortService removes the pod's Services.
	StepDeleteNodePortService Step = "DELETE_NODEPORT_SERVICE"
	// StepReleaseNodePort removes the pod's rows.
	StepReleaseNodePort Step = "RELEASE_NODEPORT"
	// StepDeletePod removes the pod and waits until it is gone.
	StepDeletePod Step = "DELETE_POD"
)

// The steps of PUT /accounts/users that answer in the pod family's shape.
const (
	// StepCreateHomeDirectory makes the home on the NAS.
	StepCreateHomeDirectory Step = "CREATE_HOME_DIRECTORY"
	// StepCreateKrb5Principal makes the Kerberos principal and its keytab.
	StepCreateKrb5Principal Step = "CREATE_KRB5_PRINCIPAL"
)

// The codes of create-pod.
const (
	// InvalidCreatePodRequest: the body cannot be read, username is missing, or no pod can bear the name.
	InvalidCreatePodRequest Code = "INVALID_CREATE_POD_REQUEST"
	// UserConfigFetchFailed: admin_be is down, answered with an error or with something that is no user configuration.
	UserConfigFetchFailed Code = "USER_CONFIG_FETCH_FAILED"
	// UserConfigNotFound: admin_be does not know the user.
	UserConfigNotFound Code = "USER_CONFIG_NOT_FOUND"
	// K8sClientSetupFailed: there is no usable configuration of the Kubernetes client.
	K8sClientSetupFailed Code = "K8S_CLIENT_SETUP_FAILED"
	// PodCheckFailed: the API server did not tell whether a pod of that name exists.
	PodCheckFailed Code = "POD_CHECK_FAILED"
	// PodAlreadyExists: a pod of the chosen name exists.
	PodAlreadyExists Code = "POD_ALREADY_EXISTS"
	// NodeListFailed: the nodes could not be read.
	NodeListFailed Code = "NODE_LIST_FAILED"
	// NodeSelectionFailed: choosing a node failed for a reason that is not the request's.
	NodeSelectionFailed Code = "NODE_SELECTION_FAILED"
	// PodSpecBuildFailed: account, node, ports or keytab are not to be had; the status tells whose fault it is.
	PodSpecBuildFailed Code = "POD_SPEC_BUILD_FAILED"
	// PodCreateFailed: the API server refused the pod.
	PodCreateFailed Code = "POD_CREATE_FAILED"
	// PodReadyTimeout: the pod did not become Ready in time, or can no longer become Ready.
	PodReadyTimeout Code = "POD_READY_TIMEOUT"
	// PodReadyCheckFailed: the pod's state could not be read.
	PodReadyCheckFailed Code = "POD_READY_CHECK_FAILED"
	// NodePortServiceCreateFailed: the API server refused a Service.
	NodePortServiceCreateFailed Code = "NODEPORT_SERVICE_CREATE_FAILED"
	// CreatePodFailed: anything unforeseen in create-pod.
	CreatePodFailed Code = "CREATE_POD_FAILED"
)

// The codes of delete-pod.
const (
	// InvalidDeletePodRequest: the body cannot be read or pod_name is missing.
	InvalidDeletePodRequest Code = "INVALID_DELETE_POD_REQUEST"
	// InvalidPodName: no workspace pod can bear the name, or the pod was not made by this service.
	InvalidPodName Code = "INVALID_POD_NAME"
	// NodePortServiceDeleteFailed: a Service of the pod could not be removed.
	NodePortServiceDeleteFailed Code = "NODEPORT_SERVICE_DELETE_FAILED"
	// NodePortReleaseFailed: the pod's rows could not be removed.
	NodePortReleaseFailed Code = "NODEPORT_RELEASE_FAILED"
	// PodDeleteFailed: the API server refused to delete the pod.
	PodDeleteFailed Code = "POD_DELETE_FAILED"
	// PodDeleteTimeout: the pod was not gone in time.
	PodDeleteTimeout Code = "POD_DELETE_TIMEOUT"
	// DeletePodFailed: anything unforeseen in delete-pod.
	DeletePodFailed Code = "DELETE_POD_FAILED"
)

// The codes of PUT /accounts/users that answer in the pod family's shape.
const (
	// NASSSHFailed: the home could not be made on the NAS.
	NASSSHFailed Code = "NAS_SSH_FAILED"
	// KDCFailed: the Kerberos principal or its keytab could not be made.
	KDCFailed Code = "KDC_FAILED"
)

// Keys of the progress and undo maps.
const (
	KeyNodePortsReleased  = "nodeportsReleased"
	KeyServicesDeleted    = "servicesDeleted"
	KeyPodDeleted         = "podDeleted"
	KeyPodDeleteRequested = "podDeleteRequested"
)
