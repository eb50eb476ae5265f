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
	// InvalidCreatePodRequest: the body cannot be read, username is missing, no pod can bear the name, or there is no such gpu_option.
	//
	// Step: VALIDATE_REQUEST
	//
	// Status: 400, 401 (token), 405 (method), 413 (body over 1 MiB)
	//
	// To do: Correct the request; detail says what is wrong.
	InvalidCreatePodRequest Code = "INVALID_CREATE_POD_REQUEST"
	// UserConfigFetchFailed: admin_be is down, answered with an error or with something that is no user configuration.
	//
	// Step: FETCH_USER_CONFIG
	//
	// Status: 502
	//
	// To do: Look at admin_be and at WAS_URL_TEMPLATE; was_status is what it answered. If detail names a field, correct that field of the user in admin_be.
	UserConfigFetchFailed Code = "USER_CONFIG_FETCH_FAILED"
	// UserConfigNotFound: admin_be does not know the user.
	//
	// Step: FETCH_USER_CONFIG
	//
	// Status: 404
	//
	// To do: Register the user in admin_be, or correct the name.
	UserConfigNotFound Code = "USER_CONFIG_NOT_FOUND"
	// K8sClientSetupFailed: there is no usable configuration of the Kubernetes client.
	//
	// Step: CHECK_EXISTING_POD (create-pod), DELETE_POD (delete-pod)
	//
	// Status: 500
	//
	// To do: Run the service in the cluster under its ServiceAccount, or set KUBECONFIG; `config-server check` shows what is missing.
	K8sClientSetupFailed Code = "K8S_CLIENT_SETUP_FAILED"
	// PodCheckFailed: the API server did not tell whether a pod of that name exists.
	//
	// Step: CHECK_EXISTING_POD
	//
	// Status: 500
	//
	// To do: Look at the API server and at the right to get pods in NAMESPACE; k8s_status and k8s_body say what it answered. Then repeat the call.
	PodCheckFailed Code = "POD_CHECK_FAILED"
	// PodAlreadyExists: a pod of the chosen name exists.
	//
	// Step: CHECK_EXISTING_POD
	//
	// Status: 409
	//
	// To do: Repeat the call: the next name is another one.
	PodAlreadyExists Code = "POD_ALREADY_EXISTS"
	// NodeListFailed: the nodes could not be read.
	//
	// Step: LIST_NODES
	//
	// Status: 500
	//
	// To do: Look at the API server and at the right to list nodes (ClusterRole node-reader). Then repeat the call.
	NodeListFailed Code = "NODE_LIST_FAILED"
	// NodeSelectionFailed: choosing a node failed for a reason that is not the request's.
	//
	// Step: SELECT_NODE
	//
	// Status: 500
	//
	// To do: Search the log for the request id. Then repeat the call.
	NodeSelectionFailed Code = "NODE_SELECTION_FAILED"
	// PodSpecBuildFailed: account, node, GPU, templates, ports or keytab are not to be had; the status tells whose fault it is.
	//
	// Step: BUILD_POD_SPEC
	//
	// Status: 400 (account, node, GPU option, template, ports), 500 (database, Kerberos, reading a template or GPU options)
	//
	// To do: 400: create the account first, correct gpu_nodes of the user, uncordon a node, correct gpu_option, wait for a free GPU, make the PodTemplate, or free NodePorts; detail says which. 500: look at the database, the KDC, the farm node or the right to read PodTemplates that detail names.
	PodSpecBuildFailed Code = "POD_SPEC_BUILD_FAILED"
	// PodCreateFailed: the API server refused the pod.
	//
	// Step: CREATE_POD
	//
	// Status: 500
	//
	// To do: Read k8s_reason and k8s_body: a quota, an admission rule, a missing right or a PodTemplate that makes the pod impossible (docs/templates.md).
	PodCreateFailed Code = "POD_CREATE_FAILED"
	// PodReadyTimeout: the pod did not become Ready in time, or can no longer become Ready.
	//
	// Step: WAIT_POD_READY
	//
	// Status: 500
	//
	// To do: Read detail: it has kubelet's reason, the last events and the end of what the container wrote (image missing on the node, a mount that fails, a full node, an image that ends at once). It is kept for a day under GET /pods/{username}/status. Correct that, or raise POD_READY_TIMEOUT, where images are pulled POD_PENDING_TIMEOUT, if the node is only slow.
	PodReadyTimeout Code = "POD_READY_TIMEOUT"
	// PodReadyCheckFailed: the pod's state could not be read.
	//
	// Step: WAIT_POD_READY
	//
	// Status: 500
	//
	// To do: Look at the API server and at the right to watch pods in NAMESPACE. Then repeat the call.
	PodReadyCheckFailed Code = "POD_READY_CHECK_FAILED"
	// NodePortServiceCreateFailed: the API server refused a Service.
	//
	// Step: CREATE_NODEPORT_SERVICE
	//
	// Status: 500
	//
	// To do: Read k8s_reason and k8s_body: a quota, an admission rule or a missing right refused the Service.
	NodePortServiceCreateFailed Code = "NODEPORT_SERVICE_CREATE_FAILED"
	// CreatePodFailed: anything unforeseen in create-pod.
	//
	// Step: CREATE_POD
	//
	// Status: 500, 503 (the service is shutting down)
	//
	// To do: 500: search the log for the request id and report the fault. 503: repeat the call.
	CreatePodFailed Code = "CREATE_POD_FAILED"
)

// The codes of delete-pod.
const (
	// InvalidDeletePodRequest: the body cannot be read or pod_name is missing.
	//
	// Step: VALIDATE_REQUEST
	//
	// Status: 400, 401 (token), 405 (method), 413 (body over 1 MiB)
	//
	// To do: Correct the request; detail says what is wrong.
	InvalidDeletePodRequest Code = "INVALID_DELETE_POD_REQUEST"
	// InvalidPodName: no workspace pod can bear the name, or the pod was not made by this service.
	//
	// Step: VALIDATE_REQUEST
	//
	// Status: 400
	//
	// To do: Name a pod that create-pod or migrate answered with. A pod that bears no label app=ailab-guest is not touched; remove it by hand.
	InvalidPodName Code = "INVALID_POD_NAME"
	// NodePortServiceDeleteFailed: a Service of the pod could not be removed.
	//
	// Step: DELETE_NODEPORT_SERVICE
	//
	// Status: 500
	//
	// To do: Look at the API server and at the right to delete Services in NAMESPACE. Then repeat the call.
	NodePortServiceDeleteFailed Code = "NODEPORT_SERVICE_DELETE_FAILED"
	// NodePortReleaseFailed: the pod's rows could not be removed.
	//
	// Step: RELEASE_NODEPORT
	//
	// Status: 500
	//
	// To do: Look at the database. Then repeat the call; the reconciler removes the rows too.
	NodePortReleaseFailed Code = "NODEPORT_RELEASE_FAILED"
	// PodDeleteFailed: the API server refused to delete the pod.
	//
	// Step: DELETE_POD
	//
	// Status: 500
	//
	// To do: Read k8s_reason and k8s_body; look at the right to delete pods in NAMESPACE. Then repeat the call.
	PodDeleteFailed Code = "POD_DELETE_FAILED"
	// PodDeleteTimeout: the pod was not gone in time.
	//
	// Step: DELETE_POD
	//
	// Status: 500
	//
	// To do: Look at the pod and its node: a node that is down never finishes a deletion. Repeat the call, or remove the pod by force if the node is lost.
	PodDeleteTimeout Code = "POD_DELETE_TIMEOUT"
	// DeletePodFailed: anything unforeseen in delete-pod.
	//
	// Step: DELETE_POD
	//
	// Status: 500, 503 (the service is shutting down)
	//
	// To do: 500: search the log for the request id and report the fault. 503: repeat the call.
	DeletePodFailed Code = "DELETE_POD_FAILED"
)

// The codes of PUT /accounts/users that answer in the pod family's shape.
const (
	// NASSSHFailed: the home could not be made on the NAS.
	//
	// Step: CREATE_HOME_DIRECTORY
	//
	// Status: 500
	//
	// To do: Look at the NAS: address, key, host key, sudo rules, free space; `config-server check` tries the connection. If detail says that the home belongs to another owner, decide by hand whose it is. Then repeat the call.
	NASSSHFailed Code = "NAS_SSH_FAILED"
	// KDCFailed: the Kerberos principal or its keytab could not be made.
	//
	// Step: CREATE_KRB5_PRINCIPAL
	//
	// Status: 500
	//
	// To do: Look at the KDC, kadmind and the admin principal, and at the right to write Secrets in NAMESPACE. Then repeat the call.
	KDCFailed Code = "KDC_FAILED"
)

// Keys of the progress and undo maps.
const (
	KeyNodePortsReleased  = "nodeportsReleased"
	KeyServicesDeleted    = "servicesDeleted"
	KeyPodDeleted         = "podDeleted"
	KeyPodDeleteRequested = "podDeleteRequested"
)
