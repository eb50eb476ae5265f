package workspaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"config-server/internal/farm"
	"config-server/internal/saga"
)

const (
	// partGPUs is the part of BUILD_POD_SPEC that assigns GPUs.
	partGPUs = "gpus"
	// stepReleaseGPUs takes back the GPUs of a workspace that is gone.
	stepReleaseGPUs = "RELEASE_GPUS"
)

// rank puts the candidates in the order in which they are tried: as Load chooses, again and again.
func (l *launch) rank(names []farm.NodeName, scores map[farm.NodeName]float64) {
	if l.DeviceFiles == nil {
		return
	}
	l.ranked = slices.Clone(names)
	slices.SortStableFunc(l.ranked, func(a, b farm.NodeName) int {
		first, firstKnown := scores[a]
		second, secondKnown := scores[b]
		switch {
		case firstKnown && secondKnown:
			return cmp.Compare(first, second)
		case firstKnown:
			return -1
		case secondKnown:
			return 1
		}
		return 0
	})
}

// withGPUs puts the assignment of GPUs behind the operation's record, from which recovery takes them back,
// and before everything that depends on the node.
func (l *launch) withGPUs(steps []saga.Step) []saga.Step {
	if l.DeviceFiles == nil {
		return steps
	}
	at := slices.IndexFunc(steps, func(s saga.Step) bool { return s.Name == string(farm.StepBuildPodSpec)+":record" })
	return slices.Insert(steps, at+1, saga.Step{
		Name:  string(farm.StepBuildPodSpec) + ":" + partGPUs,
		Undos: []saga.Undo{{What: farm.WhatGPUs, Run: l.undoGPUs}},
		Do:    l.assignGPUs,
	})
}

// reservations counts the steps from the record on that only reserve: that, GPUs where they are assigned,
// and NodePorts.
func (l *launch) reservations() int {
	if l.DeviceFiles == nil {
		return 2
	}
	return 3
}

// assignGPUs gives the workspace as many GPUs as the node's entry says, of the best node that has them. A
// GPU option brings its own.
func (l *launch) assignGPUs(ctx context.Context) error {
	if l.gpu != nil {
		return nil
	}
	wishes := make([]farm.GPUWish, len(l.ranked))
	for i, name := range l.ranked {
		wishes[i] = farm.GPUWish{Node: name, Count: l.config.On(name).NumGPU}
	}
	l.assigning = true
	place, err := l.DeviceFiles.Assign(ctx, l.owner(), wishes)
	switch {
	case errors.Is(err, farm.ErrGPUsTaken):
		return l.buildFailed(farm.Invalid, err)
	case err != nil:
		return l.buildFailed(farm.Internal, err)
	}
	if place.Warning != "" {
		l.warn(ctx, "%s", place.Warning)
	}
	l.given = place.GPUs
	if place.Node == l.node {
		return nil
	}
	l.node, l.operation.Node = place.Node, place.Node
	if err := l.Operations.Place(ctx, l.operation.ID, place.Node); err != nil {
		return l.buildFailed(farm.Internal, err)
	}
	return nil
}

// undoGPUs takes the GPUs back once the pod is gone. While it may still be there they stay its own, and the
// record with them.
func (l *launch) undoGPUs(ctx context.Context) (bool, error) {
	if !l.assigning || l.leftover || l.undecided {
		return false, nil
	}
	n, err := l.DeviceFiles.Release(ctx, l.pod)
	if err != nil {
		l.leftover = true
		return false, err
	}
	return n > 0, nil
}

// noGPUs reports whether a launch failed because no node had enough GPUs, and left nothing behind.
func noGPUs(err error) bool {
	failure, failed := saga.AsFailure(err)
	return failed && failure.UndoErr == nil && errors.Is(failure.Err, farm.ErrGPUsTaken)
}

// releaseGPUs takes back the GPUs of a pod that is gone. An error means that they are still assigned, and
// that nothing but the operation's record knows of it.
func (s *Service) releaseGPUs(ctx context.Context, pod farm.PodName) (warnings []string, err error) {
	if s.DeviceFiles == nil {
		return nil, nil
	}
	if _, err = s.DeviceFiles.Release(ctx, pod); err != nil {
		s.Log.WarnContext(ctx, "GPUs stay assigned to a pod that is gone", "pod", pod, "error", err)
		warnings = []string{fmt.Sprintf("the GPUs of %s stay assigned until recovery takes them back: %v", pod, err)}
	}
	return warnings, err
}
