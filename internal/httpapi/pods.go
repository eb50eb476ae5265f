package httpapi

import (
	"net/http"

	"config-server/internal/farm"
	"config-server/internal/workspaces"
)

// createPod answers POST /create-pod.
func (a *api) createPod(w http.ResponseWriter, r *http.Request) error {
	request, err := a.readCreatePod(w, r)
	if err != nil {
		return err
	}
	made, err := a.Workspaces.Create(r.Context(), request)
	if err != nil {
		return err
	}
	return write(w, http.StatusCreated, addWarnings(object{
		"status": "created", "node": made.Node, "pod_name": made.Pod, "ports": portsJSON(made.Ports),
	}, made.Warnings))
}

// readCreatePod takes the user's name and, if it is there, the GPU option. Whether they exist is the use
// case's question; a name that no pod can bear is refused here.
func (a *api) readCreatePod(w http.ResponseWriter, r *http.Request) (workspaces.CreateRequest, error) {
	in, err := a.read(w, r)
	if err != nil {
		return workspaces.CreateRequest{}, err
	}
	user, err := in.text("username")
	switch {
	case err != nil:
		return workspaces.CreateRequest{}, err
	case user == "":
		return workspaces.CreateRequest{}, farm.Errorf(farm.Invalid, "username required")
	}
	if err := farm.UserName(user).CheckPod(); err != nil {
		return workspaces.CreateRequest{}, farm.Errorf(farm.Invalid, "%v", err)
	}
	option, err := in.text("gpu_option")
	if err != nil {
		return workspaces.CreateRequest{}, err
	}
	return workspaces.CreateRequest{User: user, GPUOption: option}, nil
}

// deletePod answers POST /delete-pod.
func (a *api) deletePod(w http.ResponseWriter, r *http.Request) error {
	pod, err := a.readDeletePod(w, r)
	if err != nil {
		return err
	}
	gone, err := a.Workspaces.Delete(r.Context(), pod)
	if err != nil {
		return err
	}
	answer := object{"status": "deleted", "pod_name": gone.Pod, "progress": progressJSON(gone.Progress)}
	if gone.AlreadyAbsent {
		answer["already_absent"] = true
	}
	return write(w, http.StatusOK, addWarnings(answer, gone.Warnings))
}

// readDeletePod takes the pod's name. One that is left out is another failure than one that no
// workspace pod can bear, and the latter tells the whole map of what was not done.
func (a *api) readDeletePod(w http.ResponseWriter, r *http.Request) (string, error) {
	in, err := a.read(w, r)
	if err != nil {
		return "", err
	}
	if len(in.missing("pod_name")) > 0 {
		return "", farm.Errorf(farm.Invalid, "pod_name required")
	}
	pod, err := in.text("pod_name")
	if err == nil {
		err = farm.CheckPodName(pod)
	}
	if err == nil {
		return pod, nil
	}
	refusal := farm.Failf(farm.Invalid, farm.StepValidateRequest, farm.InvalidPodName, err, "invalid pod_name")
	refusal.Pod = farm.PodName(farm.CutText(pod, farm.MaxRowText))
	return "", refusal.WithProgress(map[string]bool{
		farm.KeyServicesDeleted: false, farm.KeyNodePortsReleased: false,
		farm.KeyPodDeleteRequested: false, farm.KeyPodDeleted: false,
	}, false)
}

// port is a reserved port as callers read it.
type port struct {
	Internal int    `json:"internal_port"`
	External int    `json:"external_port"`
	Purpose  string `json:"usage_purpose"`
}

func portsJSON(ports []farm.Port) []port {
	told := make([]port, len(ports))
	for i, p := range ports {
		told[i] = port(p)
	}
	return told
}
