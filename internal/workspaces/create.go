package workspaces

import (
	"context"
	"errors"
	"fmt"

	"config-server/internal/farm"
	"config-server/internal/saga"
)

// Create makes a workspace for a user: a pod on the least loaded candidate node, with one NodePort
// Service a port. It is not idempotent: a second call makes a second workspace. The error is a
// *farm.Error of the pod family; what had been made is gone by then, as its Progress tells.
func (s *Service) Create(ctx context.Context, request CreateRequest) (Created, error) {
	user, err := s.checkUser(ctx, request.User)
	if err != nil {
		return Created{}, createRefused(err)
	}
	if err := s.checkOption(ctx, request.GPUOption); err != nil {
		return Created{}, err
	}
	lock, err := s.Locks.Lock(ctx, farm.UserLock(user))
	if err != nil {
		return Created{}, farm.Failf(farm.Internal, farm.StepCreatePod, farm.CreatePodFailed, err,
			"another operation on user '%s' is still running: %v", user, err)
	}
	defer lock.Unlock()

	launch, err := s.newLaunch(user, farm.OperationCreate)
	if err != nil {
		return Created{}, err
	}
	launch.option = request.GPUOption
	defer s.finish(launch.operation.ID)
	told := s.tell(ctx, launch.operation, launch.words, launch.refresh)
	if err := saga.Run(ctx, told.observed("create-pod"), launch.createSteps(lock)); err != nil {
		answer := createFailed(launch.pod, err)
		told.failed("create-pod", err, answer)
		return Created{}, answer
	}
	told.ready(fmt.Sprintf("the workspace stands on %s", launch.node))
	return Created{Node: launch.node, Pod: launch.pod, Ports: launch.ports, Warnings: launch.warnings}, nil
}

// createSteps are the steps of create-pod in the contract's order.
func (l *launch) createSteps(lock farm.Lock) []saga.Step {
	var nodes []farm.Node
	var noNode error // told by BUILD_POD_SPEC, as callers know it

	steps := []saga.Step{
		{Name: string(farm.StepFetchUserConfig), Do: l.fetchConfig},
		{Name: string(farm.StepCheckExistingPod), Do: l.checkExisting},
		{Name: string(farm.StepListNodes), Do: func(ctx context.Context) (err error) {
			if nodes, err = l.Cluster.Nodes(ctx); err != nil && !l.goBlind(err) {
				return l.fail(farm.Internal, farm.StepListNodes, farm.NodeListFailed, err)
			}
			if l.kept, err = l.keptFrom(ctx, l.user); err != nil {
				return l.fail(farm.Internal, farm.StepListNodes, farm.NodeListFailed, err)
			}
			return nil
		}},
		{Name: string(farm.StepSelectNode), Do: func(ctx context.Context) error {
			if err := l.findHomes(ctx); err != nil {
				return err
			}
			if err := l.chooseGPU(ctx); err != nil {
				return err
			}
			var names []farm.NodeName
			if names, noNode = l.candidates(nodes); noNode != nil {
				return nil
			}
			return l.selectNode(ctx, names)
		}},
	}
	build := l.buildSteps()
	readAccount := build[0].Do
	build[0].Do = func(ctx context.Context) error {
		if noNode != nil {
			return l.buildFailed(farm.Invalid, noNode)
		}
		return readAccount(ctx)
	}
	steps = append(steps, build...)
	steps = append(steps, l.podSteps()...)
	return append(steps, saga.Step{Name: "CLOSE", Undos: []saga.Undo{{What: farm.WhatRecord, Run: l.undoClose}}, Do: func(ctx context.Context) error {
		if err := lock.Err(); err != nil {
			return l.fail(farm.Internal, farm.StepCreatePod, farm.CreatePodFailed, fmt.Errorf("lock of user %s was lost: %w", l.user, err))
		}
		return l.close(ctx)
	}})
}

func (l *launch) checkExisting(ctx context.Context) error {
	_, found, err := l.Cluster.Pod(ctx, l.pod)
	switch {
	case errors.Is(err, farm.ErrClientSetup):
		return l.fail(farm.Internal, farm.StepCheckExistingPod, farm.K8sClientSetupFailed, err)
	case err != nil:
		return l.fail(farm.Internal, farm.StepCheckExistingPod, farm.PodCheckFailed, err)
	case found:
		return l.fail(farm.Conflict, farm.StepCheckExistingPod, farm.PodAlreadyExists,
			fmt.Errorf("pod %s already exists", l.pod))
	}
	return nil
}

// selectNode scores the candidates in one round. Without scores nobody is better than another: the
// first candidate is taken, with a warning, because a farm without metrics still has users.
func (l *launch) selectNode(ctx context.Context, names []farm.NodeName) error {
	scores, err := l.Load.Scores(ctx, names)
	if err != nil {
		if ctx.Err() != nil {
			return l.fail(farm.Internal, farm.StepSelectNode, farm.NodeSelectionFailed, err)
		}
		l.warn(ctx, "no GPU load known, the first candidate node is taken: %v", err)
	}
	node, ok := l.Load.Choose(names, scores)
	if !ok {
		return l.fail(farm.Internal, farm.StepSelectNode, farm.NodeSelectionFailed, errors.New("no node was chosen"))
	}
	l.node = node
	l.rank(names, scores)
	return nil
}

// createRefused tells a refusal by checkUser as VALIDATE_REQUEST tells it.
func createRefused(err error) error {
	if e, ok := farm.AsError(err); ok && e.Kind == farm.Invalid {
		return farm.Failf(farm.Invalid, farm.StepValidateRequest, farm.InvalidCreatePodRequest, err, "%s", e.Detail)
	}
	return farm.Failf(farm.Internal, farm.StepCreatePod, farm.CreatePodFailed, err, "%v", err)
}

// createFailed makes the caller's error of a failed run: the step's own, with the map of what was
// undone; anything unforeseen is CREATE_POD_FAILED.
func createFailed(pod farm.PodName, err error) error {
	failure, ok := saga.AsFailure(err)
	if !ok {
		return err
	}
	told, ok := farm.AsError(failure.Err)
	if !ok {
		told = farm.Failf(farm.Internal, farm.StepCreatePod, farm.CreatePodFailed, failure.Err, "%s", unforeseen(failure.Err))
		told.Pod = pod
	}
	told = told.WithProgress(failure.Undone, len(failure.Undone) > 0)
	told.Cause = err // keeps the undo's error for the log
	return told
}

// unforeseen is the text of an error that no step made: the end of the request's time or of the
// process is told as it is, a panic without its value, which may be anything.
func unforeseen(err error) string {
	var p *saga.PanicError
	switch {
	case errors.As(err, &p):
		return "internal error"
	case errors.Is(err, context.DeadlineExceeded):
		return "the request's time is up: " + err.Error()
	case errors.Is(err, context.Canceled):
		return "the request was given up: " + err.Error()
	}
	return err.Error()
}
