package workspaces

import (
	"fmt"
	"strings"

	"config-server/internal/farm"
)

// words are the stage of each step that makes a workspace, and one line about it.
func (l *launch) words(step string) (farm.Stage, string) {
	step, part, _ := strings.Cut(step, ":")
	switch farm.Step(step) {
	case farm.StepFetchUserConfig:
		return farm.StageStarted, "asking for the user's configuration"
	case farm.StepCheckExistingPod:
		return farm.StageStarted, "looking whether the pod's name is free"
	case farm.StepListNodes:
		return farm.StageSelectingNode, "reading the nodes"
	case farm.StepSelectNode:
		return farm.StageSelectingNode, "choosing the least loaded node"
	case farm.StepBuildPodSpec:
		return l.buildWords(part)
	case farm.StepCreatePod:
		return farm.StageCreatingPod, fmt.Sprintf("creating the pod on %s with image %s", l.node, l.image)
	case stepAccountSecret:
		return farm.StageCreatingPod, "handing the account over to the pod"
	case farm.StepWaitPodReady:
		return farm.StageWaitingReady, fmt.Sprintf("waiting until the pod is Ready on %s", l.node)
	case farm.StepCreateNodePortService:
		return farm.StageCreatingServices, fmt.Sprintf("opening %d ports", len(l.ports))
	case stepSaveImage:
		return "", fmt.Sprintf("saving the old workspace on %s", l.operation.OldNode)
	}
	return "", "noting that the workspace stands"
}

func (l *launch) buildWords(part string) (farm.Stage, string) {
	switch part {
	case "account":
		return farm.StageBuildingPodSpec, "reading the account"
	case "image":
		return farm.StageBuildingPodSpec, "looking for a saved image"
	case partGPUs:
		return farm.StageBuildingPodSpec, "choosing the GPUs"
	case "ports":
		return farm.StageAllocatingNodePort, "reserving NodePorts"
	case "keytab":
		if l.Kerberos.Enabled() {
			return farm.StageDeployingKrb5, fmt.Sprintf("bringing the keytab to %s", l.node)
		}
		return "", ""
	case "spec":
		return "", "writing the pod's spec"
	}
	return farm.StageBuildingPodSpec, "noting the operation"
}

// refresh takes over the node, which is chosen on the way.
func (l *launch) refresh(p *farm.Progress) { p.Node = l.node }

// words are one line about each step that takes a workspace down.
func (r *removal) words(step string) (farm.Stage, string) {
	switch farm.Step(step) {
	case farm.StepDeleteNodePortService:
		return "", fmt.Sprintf("removing the Services of %s", r.pod)
	case farm.StepReleaseNodePort:
		return "", fmt.Sprintf("releasing the NodePorts of %s", r.pod)
	case farm.StepDeletePod:
		return "", fmt.Sprintf("removing pod %s and waiting until it is gone", r.pod)
	case stepAccountSecret:
		return "", fmt.Sprintf("removing the Secret of %s", r.pod)
	case stepReleaseGPUs:
		return "", fmt.Sprintf("releasing the GPUs of %s", r.pod)
	case stepRemoveKeytab:
		return "", fmt.Sprintf("removing the keytab from %s", r.found.Node)
	}
	return "", "noting the operation"
}
