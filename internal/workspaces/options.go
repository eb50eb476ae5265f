package workspaces

import (
	"context"
	"errors"

	"config-server/internal/farm"
)

// checkOption refuses a request for a GPU option that there is not, before anything is asked or
// touched for it.
func (s *Service) checkOption(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	_, err := s.GPUs.Choose(ctx, id)
	switch {
	case errors.Is(err, farm.ErrNotFound):
		return farm.Failf(farm.Invalid, farm.StepValidateRequest, farm.InvalidCreatePodRequest, err, "%v", err)
	case err != nil:
		return farm.Failf(farm.Internal, farm.StepCreatePod, farm.CreatePodFailed, err, "%v", err)
	}
	return nil
}

// optionID is the ID of the GPU option that the workspace gets: the request's, else the user
// configuration's; empty = none.
func (l *launch) optionID() string {
	if l.option != "" {
		return l.option
	}
	return l.config.GPUOption
}

// chooseGPU looks up what there is of the workspace's GPU option.
func (l *launch) chooseGPU(ctx context.Context) error {
	id := l.optionID()
	if id == "" {
		return nil
	}
	choice, err := l.GPUs.Choose(ctx, id)
	switch {
	case errors.Is(err, farm.ErrNotFound):
		return l.buildFailed(farm.Invalid, err)
	case err != nil:
		return l.buildFailed(farm.Internal, err)
	}
	l.gpu = &choice
	return nil
}

// gpuOption is what the pod's spec needs of the option; nil = none.
func (l *launch) gpuOption() *farm.GPUOption {
	if l.gpu == nil {
		return nil
	}
	return &l.gpu.GPUOption
}

// lacksGPU is the rule that a node has what the workspace's GPU option asks for: as many devices as the
// node's entry says, at least one.
func (l *launch) lacksGPU(node farm.Node) string {
	if l.gpu == nil {
		return ""
	}
	return l.gpu.Lacks(node.Name, int64(max(1, l.config.On(node.Name).NumGPU)))
}

// goBlind tells whether nodes that cannot be read may be done without: with a GPU option the scheduler
// looks at them itself, so that the nodes that the user configuration names are candidates as they are.
func (l *launch) goBlind(err error) bool {
	l.blind = farm.IsForbidden(err) && l.optionID() != "" && len(l.config.Nodes) > 0
	return l.blind
}

// candidates lists the nodes on which the workspace may run.
func (l *launch) candidates(nodes []farm.Node) ([]farm.NodeName, error) {
	if !l.blind {
		return candidates(l.config.Nodes, nodes, reaches(l.self), l.kept.fits, l.lacksGPU)
	}
	return blindly(l.config.Nodes, reaches(l.self), l.kept.fits)
}

// chooseRoom takes the best of the better nodes, the best first, that has the workspace's GPU option; false
// if none has.
func (l *launch) chooseRoom(ctx context.Context, better []farm.NodeName) (bool, error) {
	if err := l.chooseGPU(ctx); err != nil {
		return false, err
	}
	for _, name := range better {
		reason := l.lacksGPU(farm.Node{Name: name})
		if reason == "" {
			l.node = name
			return true, nil
		}
		l.Log.InfoContext(ctx, "node is no candidate", "user", l.user, "node", name, "reason", reason)
	}
	return false, nil
}
